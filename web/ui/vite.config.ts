import { defineConfig } from "vite";

// The page is served by the daemon from its own binary under a policy without
// inline script; assets are therefore files, never data in the document.
export default defineConfig({
  base: "/",
  build: {
    outDir: "dist",
    emptyOutDir: false, // dist/.keep is in the repository, for go:embed
    assetsInlineLimit: 0,
    target: "es2023",
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  worker: { format: "es" },
  test: { environment: "happy-dom", include: ["src/**/*.test.ts", "src/**/*.test.tsx"] },
} as Parameters<typeof defineConfig>[0]);
