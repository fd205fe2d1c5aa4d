// Agent control: an external MCP host is let in from the page, acts, is asked
// about, and is sent away again.

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Host, textOf, type ToolResult } from "./support/host";
import { expect, openConversation, screenshot, test } from "./support/test";

test.describe.configure({ mode: "serial" });

interface Terminal {
  panelId: string;
  terminalSessionId: string;
  leaseId: string;
}

function dataOf<T>(result: ToolResult): T {
  return (JSON.parse(textOf(result)) as { data: T }).data;
}

const id = () => randomBytes(16).toString("hex");

test("an external host is approved from the page, and only then does its call work", async ({ app, daemon }) => {
  const conversation = await daemon.conversation();
  await openConversation(app, conversation);
  const host = await Host.start(daemon, "Claude Desktop");
  const refused = await host.call("lomi_workspace_list");
  expect(refused.isError).toBe(true);
  expect(textOf(refused)).toContain("PAIRING_REQUIRED");

  const control = app.getByRole("button", { name: /Agent control/ });
  await expect(control).toContainText("1");
  await control.click();
  const card = app.getByRole("group", { name: "Claude Desktop wants to connect" });
  await expect(card).toContainText("A name proves nothing");
  const request = /[0-9a-f]{32}/.exec(textOf(refused))?.[0] ?? "";
  await expect(card).toContainText(request);
  // By keyboard alone: into the card, its first choice off and on, and allow.
  await card.getByRole("checkbox", { name: /Terminal/ }).focus();
  await app.keyboard.press("Space");
  await expect(card.getByRole("checkbox", { name: /Terminal/ })).not.toBeChecked();
  await app.keyboard.press("Space");
  const allow = card.getByRole("button", { name: "Allow", exact: true });
  for (let step = 0; step < 12 && !(await allow.evaluate((e) => e === document.activeElement)); step++) await app.keyboard.press("Tab");
  await expect(allow).toBeFocused();
  await expect(allow).toBeEnabled();
  await screenshot(app, "pairing");
  await app.keyboard.press("Enter");
  await expect(app.getByRole("article", { name: "Session Claude Desktop" })).toBeVisible();

  const list = await host.call("lomi_workspace_list");
  expect(list.isError ?? false).toBe(false);
  expect(textOf(list)).toContain(daemon.project);

  const { workspaces } = await daemon.api<{ workspaces: { id: string; revision: string }[] }>("GET", "/api/state");
  const workspace = workspaces[0];
  if (!workspace) throw new Error("no workspace");
  const connected = await host.call("lomi_connect", { workspaceId: workspace.id });
  const about = JSON.parse(textOf(connected)) as { data: { retryEpoch: string; revision: string } };
  const created = await host.call("lomi_terminal_create", {
    workspaceId: workspace.id,
    expectedRevision: about.data.revision,
    retryEpoch: about.data.retryEpoch,
    requestKey: id(),
    title: "Claude",
  });
  const { operationId } = dataOf<{ operationId: string }>(created);
  const { result } = dataOf<{ result: Terminal }>(await host.call("lomi_operation_get", { operationId, waitMs: 15_000 }));
  const ran = await host.call("lomi_terminal_run", {
    workspaceId: workspace.id,
    retryEpoch: about.data.retryEpoch,
    requestKey: id(),
    panelId: result.panelId,
    terminalSessionId: result.terminalSessionId,
    leaseId: result.leaseId,
    command: "touch published && echo released",
  });
  // The host is answered at once; the person is asked about exactly this.
  expect(textOf(ran)).toContain("awaiting_user");
  await expect(app.locator(".receipt").first()).toContainText("waits for you");
  const question = app.getByRole("group", { name: "Claude Desktop: run this command?" });
  await expect(question).toContainText("touch published && echo released");
  await expect(question.getByRole("button", { name: "Do not allow" })).toBeEnabled();
  await screenshot(app, "control");
  await question.getByRole("button", { name: "Do not allow" }).click();
  await expect(app.locator(".receipt").first()).toContainText("failed");
  expect(existsSync(join(daemon.project, "published"))).toBe(false);
  await host.close();
  await expect(app.getByRole("article", { name: "Session Claude Desktop" })).toHaveCount(0);
});

test("a session that is ended in the page can do nothing more", async ({ app, daemon }) => {
  const host = await Host.start(daemon, "Cursor");
  await host.call("lomi_workspace_list");
  await app.getByRole("button", { name: /Agent control/ }).click();
  await app.getByRole("group", { name: "Cursor wants to connect" }).getByRole("button", { name: "Allow", exact: true }).click();
  const session = app.getByRole("article", { name: "Session Cursor" });
  await expect(session).toBeVisible();
  expect((await host.call("lomi_workspace_list")).isError ?? false).toBe(false);
  await session.getByRole("combobox").selectOption("ask_always");
  await expect(session.getByRole("combobox")).toHaveValue("ask_always");
  await session.getByRole("button", { name: "End it" }).click();
  await session.getByRole("button", { name: "End it now" }).click();
  await expect(session).toHaveCount(0);
  expect((await host.call("lomi_workspace_list")).isError).toBe(true);
  await host.close();
});

test("stopping everything turns agent control off until a person turns it on", async ({ app }) => {
  await app.getByRole("button", { name: /Agent control/ }).click();
  await app.getByRole("button", { name: "Stop everything" }).click();
  await expect(app.getByText("Agent control is off.")).toBeVisible();
  await app.getByRole("button", { name: "Turn on" }).click();
  await expect(app.getByText("Agent control is off.")).toHaveCount(0);
});
