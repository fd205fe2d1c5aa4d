// A turn as a person sees it: the message, the decision, the terminal, the
// browser, the answer; and what a reload and Stop do in the middle of it.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { shop, type Site } from "./support/site";
import { expect, idle, messages, say, screenshot, test } from "./support/test";

test.describe.configure({ mode: "serial" });

let site: Site;
test.beforeAll(async () => {
  site = await shop();
});
test.afterAll(async () => site.close());

test("with no engine the page offers three ways on, and the guide is one", async ({ app, daemon }) => {
  const card = app.getByRole("group", { name: "No model engine" });
  await expect(card).toContainText("ollama pull");
  await expect(card.getByRole("button", { name: "Look again" })).toBeVisible();
  await expect(card.getByRole("button", { name: "Connect…" })).toBeVisible();
  await expect(card.getByRole("button", { name: "Try it" })).toBeVisible();
  await screenshot(app, "welcome");
  await card.getByRole("button", { name: "Connect…" }).click();
  await expect(app.getByRole("dialog", { name: "Connect a model" })).toBeVisible();
  await app.keyboard.press("Escape");
  await app.getByRole("button", { name: "New", exact: true }).click();
  const dialog = app.getByRole("dialog", { name: "New conversation" });
  await dialog.getByLabel("Project folder").fill(daemon.project);
  await expect(dialog.getByRole("combobox", { name: "Model" })).toHaveValue("demo/guide");
  await dialog.getByRole("button", { name: "Start" }).click();
  await expect(app.getByRole("textbox", { name: "Message" })).toBeVisible();
});

test("a command asks for a grant, then for itself, and runs in the live terminal", async ({ app, daemon }) => {
  writeFileSync(join(daemon.project, "package.json"), JSON.stringify({ name: "shop", scripts: { test: "node test.js" } }));
  writeFileSync(join(daemon.project, "test.js"), 'for (const t of ["basket adds up", "bread is fresh", "jam is sweet"]) console.log("\u001b[32m✔\u001b[0m", t);\nconsole.log("3 passed");\n');
  await say(app, "run npm test");
  const grant = app.getByRole("group", { name: "Let this conversation act?" });
  await expect(grant).toContainText("without a sandbox");
  await expect(messages(app).getByRole("article", { name: "Tool terminal_run" })).toContainText("waits for you");
  await expect(grant.getByRole("button", { name: "Allow", exact: true })).toBeEnabled();
  await screenshot(app, "approval");
  await grant.getByRole("button", { name: "Allow", exact: true }).click();
  const command = app.getByRole("group", { name: "Run this command?" });
  await expect(command).toContainText("npm test");
  const always = command.getByRole("button", { name: "do not ask again for npm test" });
  await expect(always).toBeEnabled();
  await screenshot(app, "command");
  await always.click();
  await expect(messages(app).getByText("You allowed it")).toHaveCount(2);
  await expect(app.getByRole("tabpanel")).toContainText("3 passed");
  await expect(messages(app)).toContainText("That is all.");
  const tool = messages(app).getByRole("article", { name: "Tool terminal_run" });
  await expect(tool).toContainText("done");
  await tool.getByRole("button").click();
  await expect(tool).toContainText("Exit code 0.");
  await expect(tool).toContainText('"command": "npm test"');
  await tool.getByRole("button").click();
});

test("a command that is remembered does not ask, and one that fails says its exit code", async ({ app }) => {
  await say(app, "run npm test then run ls missing");
  await expect(messages(app).getByRole("article", { name: "Tool terminal_run" }).last()).toContainText("exit code 2");
  await idle(app);
  await expect(messages(app).getByText("You allowed it")).toHaveCount(2);
  await screenshot(app, "terminal");
});

test("a page on this machine is asked for, drawn in the browser panel, and read", async ({ app }) => {
  await say(app, `open ${site.origin}/`);
  const card = app.getByRole("group", { name: "Open a new site?" });
  await expect(card).toContainText(site.origin);
  await card.getByRole("button", { name: "Open it" }).click();
  await expect(app.getByRole("tabpanel").locator("canvas[data-drawn]")).toBeVisible();
  await expect(app.getByRole("textbox", { name: "Address" })).toHaveValue(`${site.origin}/`);
  await expect(messages(app)).toContainText("Sourdough");
  await idle(app);
  // The picture is the page: its header is brown in the middle of the first row.
  // It is read from a copy: reading the panel's own canvas again and again would
  // change how Chromium draws it.
  await expect
    .poll(() =>
      app.locator("canvas").evaluate((c: HTMLCanvasElement) => {
        const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        copy?.drawImage(c, c.width / 2, 8, 1, 1, 0, 0, 1, 1);
        return [...(copy?.getImageData(0, 0, 1, 1).data ?? [])].slice(0, 3).map((v) => Math.round(v / 16));
      }),
    )
    .toEqual([8, 5, 2]);
  await screenshot(app, "browser");
});

test("a reload in the middle of a turn loses nothing", async ({ app }) => {
  await say(app, "run bash -c 'for i in 1 2 3; do sleep 1; echo $i; done; seq 4 9'");
  await app.getByRole("group", { name: "Run this command?" }).getByRole("button", { name: "Allow once" }).click();
  await expect(messages(app).getByRole("article", { name: "Tool terminal_run" }).last()).toContainText("running");
  await app.getByRole("textbox", { name: "Message" }).fill("typed and not sent");
  const before = await messages(app).getByRole("article").count();
  await app.reload();
  // Everything that was there is there again, the turn still runs, and it ends.
  await expect(messages(app).getByRole("article")).toHaveCount(before);
  await expect(app.getByRole("textbox", { name: "Message" })).toHaveValue("typed and not sent");
  await app.getByRole("textbox", { name: "Message" }).fill("");
  await expect(app.getByRole("button", { name: "Stop" })).toBeVisible();
  await expect(app.getByRole("tabpanel")).toContainText("for i in 1 2 3");
  await screenshot(app, "reload");
  await idle(app);
  const tool = messages(app).getByRole("article", { name: "Tool terminal_run" }).last();
  await expect(tool).toContainText("done");
  await expect(messages(app).locator(".code").last()).toContainText(/1\n2\n3\n4\n5\n6\n7\n8\n9/);
  await screenshot(app, "answer");
});

test("Stop ends a running turn, and says so", async ({ app }) => {
  await say(app, "run bash -c 'while true; do date +%T; sleep 1; done'");
  await app.getByRole("group", { name: "Run this command?" }).getByRole("button", { name: "Allow once" }).click();
  const tool = messages(app).getByRole("article", { name: "Tool terminal_run" }).last();
  await expect(tool).toContainText("running");
  await expect(app.getByRole("tabpanel")).toContainText(/\d\d:\d\d:\d\d/);
  await app.getByRole("button", { name: "Stop" }).click();
  await expect(messages(app)).toContainText("You stopped this turn.");
  await expect(tool).toContainText("cancelled");
  await idle(app);
  await screenshot(app, "stop");
});

test("typing takes the terminal over from the agent, and two tabs show the same", async ({ app, context }) => {
  const other = await context.newPage();
  await other.goto(app.url());
  await say(app, "run bash -c 'read -p \"your name: \" n; echo hello, $n'");
  await app.getByRole("group", { name: "Run this command?" }).getByRole("button", { name: "Allow once" }).click();
  await app.getByRole("tab", { name: "main" }).click();
  await expect(app.getByRole("tabpanel")).toContainText("your name:");
  await app.getByRole("tabpanel").locator("textarea").focus();
  await app.keyboard.type("Ann\n");
  await expect(app.getByRole("complementary", { name: "Panels" })).toContainText("You took over.");
  await expect(app.getByRole("tabpanel")).toContainText("hello, Ann");
  await idle(app);
  // The other tab saw all of it without being touched.
  await expect(other.getByRole("complementary", { name: "Panels" })).toContainText("You took over.");
  await other.getByRole("tab", { name: "main" }).click();
  await expect(other.getByRole("tabpanel")).toContainText("hello, Ann");
  await expect(messages(other).getByRole("article")).toHaveCount(await messages(app).getByRole("article").count());
  await other.close();
});
