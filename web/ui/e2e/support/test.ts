// What all tests of the page have in common: a daemon a file, a logged-in page,
// and no word of complaint on its console.

import { test as base, expect, type Locator, type Page } from "@playwright/test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Daemon } from "./daemon";

const screenshots = fileURLToPath(new URL("../../../../docs/screenshots", import.meta.url));

interface Fixtures {
  /** The daemon of this file. */
  daemon: Daemon;
  /** A page of the daemon, logged in. */
  app: Page;
  /** Complaints that a test provokes on purpose. */
  allow: RegExp[];
}

interface Shared {
  house: House;
}

/** Keeps one daemon for as long as the tests of one file run. */
class House {
  #file = "";
  #daemon: Daemon | null = null;

  async daemonOf(file: string): Promise<Daemon> {
    if (this.#daemon && this.#file === file) return this.#daemon;
    await this.close();
    this.#file = file;
    return (this.#daemon = await Daemon.start());
  }

  async close(): Promise<void> {
    await this.#daemon?.close();
    this.#daemon = null;
  }
}

export const test = base.extend<Fixtures, Shared>({
  house: [
    async ({}, use) => {
      const house = new House();
      await use(house);
      await house.close();
    },
    { scope: "worker" },
  ],
  daemon: async ({ house }, use, info) => use(await house.daemonOf(info.file)),
  allow: async ({}, use) => use([]),
  app: async ({ page, daemon, allow }, use) => {
    const complaints = listen(page);
    await login(page, daemon);
    await use(page);
    expect(complaints.filter((c) => !allow.some((a) => a.test(c))), "complaints on the console").toEqual([]);
  },
});

/** Collects errors, warnings and violations of the content policy. */
export function listen(page: Page): string[] {
  const complaints: string[] = [];
  page.on("console", (m) => {
    if (m.type() === "error" || m.type() === "warning") complaints.push(`${m.type()}: ${m.text()}`);
  });
  page.on("pageerror", (e) => complaints.push(`exception: ${e.message}`));
  return complaints;
}

export async function login(page: Page, daemon: Daemon): Promise<void> {
  await page.goto(await daemon.link());
  await expect(page.getByRole("button", { name: "New", exact: true }).or(page.getByRole("navigation", { name: "Places" }))).toBeVisible();
}

/** Opens a conversation in the page by its log, as a person's click would. */
export async function openConversation(page: Page, id: string): Promise<void> {
  await page.evaluate((one) => localStorage.setItem("lomi.conversation", one), id);
  await page.reload();
  await expect(page.getByRole("textbox", { name: "Message" })).toBeVisible();
}

export async function say(page: Page, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.getByRole("button", { name: "Send" }).click();
}

export function messages(page: Page): Locator {
  return page.getByRole("log", { name: "Messages" });
}

/** Waits until no turn runs: the composer offers to send again. */
export async function idle(page: Page): Promise<void> {
  await expect(page.getByRole("button", { name: "Send" })).toBeVisible();
}

/** Keeps a picture for the documents, when asked to. */
export async function screenshot(page: Page, name: string): Promise<void> {
  if (process.env["LOMI_SCREENSHOTS"] !== "1") return;
  mkdirSync(screenshots, { recursive: true });
  await page.screenshot({ path: join(screenshots, `${name}.png`), animations: "disabled", caret: "hide" });
}

/** Nothing is wider than the window. */
export async function noSidewaysScroll(page: Page): Promise<void> {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(wide, "pixels wider than the window").toBeLessThanOrEqual(0);
}

export { expect } from "@playwright/test";
