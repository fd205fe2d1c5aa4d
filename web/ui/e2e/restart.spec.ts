// The daemon goes away and comes back: the page reconnects by itself, and what
// was said is there. A turn that was cut off says that it was.

import { expect, idle, login, messages, say, test } from "./support/test";

test("after a kill -9 the page reconnects, and the unfinished turn is shown as interrupted", async ({ page, daemon }) => {
  const conversation = await daemon.conversation();
  await daemon.say(conversation, "say before the restart");
  await login(page, daemon);
  await expect(messages(page)).toContainText("before the restart");
  await say(page, "run sleep 60");
  await page.getByRole("group", { name: "Let this conversation act?" }).getByRole("button", { name: "Allow", exact: true }).click();
  await page.getByRole("group", { name: "Run this command?" }).getByRole("button", { name: "Allow once" }).click();
  await expect(messages(page).getByRole("article", { name: "Tool terminal_run" })).toContainText("running");
  const { port } = daemon;
  await daemon.down("SIGKILL");
  await expect(page.getByText("Connecting to Lomi again…")).toBeVisible();
  await daemon.up(`127.0.0.1:${port}`);
  await expect(page.getByText("Connecting to Lomi again…")).toHaveCount(0);
  await expect(messages(page)).toContainText("This turn was interrupted");
  await expect(messages(page).getByRole("article", { name: "Tool terminal_run" })).toContainText("interrupted");
  await idle(page);
  // The same login goes on working, for reading and for acting.
  await say(page, "say and after it");
  await expect(messages(page).getByRole("article", { name: "Lomi" }).last()).toContainText("and after it");
  await page.reload();
  await expect(messages(page)).toContainText("before the restart");
  await expect(messages(page)).toContainText("and after it");
});

test("a link works once, and an address without a login shows how to get one", async ({ page, browser, daemon }) => {
  const link = await daemon.link();
  await page.goto(link);
  await expect(page.getByRole("textbox", { name: "Message" })).toBeVisible();
  expect(page.url()).toBe(daemon.url); // the code does not stay in the address
  const stranger = await browser.newContext();
  const other = await stranger.newPage();
  await other.goto(link);
  await expect(other.getByText("This page is not logged in")).toBeVisible();
  await expect(other.getByText("lomi open", { exact: true })).toBeVisible();
  await stranger.close();
});
