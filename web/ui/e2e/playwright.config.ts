import { defineConfig } from "@playwright/test";

// One worker: the tests share two cores with the daemon, its Chromium and the
// one that looks at the page. Nothing is retried: a test that fails now and then
// is a bug here or there.
export default defineConfig({
  testDir: ".",
  testMatch: "*.spec.ts",
  outputDir: "../test-results",
  workers: 1,
  fullyParallel: false,
  retries: 0,
  timeout: 180_000,
  globalTimeout: 20 * 60_000,
  expect: { timeout: 45_000 },
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
    trace: "off",
    launchOptions: { executablePath: process.env["CHROMIUM"] ?? "/usr/lib/chromium/chromium" },
  },
});
