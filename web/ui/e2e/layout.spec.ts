// A long conversation on a wide window and on a phone: everything can be
// reached, nothing is cut off, and only what changes is drawn again.

import { expect, messages, noSidewaysScroll, openConversation, say, screenshot, test } from "./support/test";
import type { Daemon } from "./support/daemon";
import type { Page } from "@playwright/test";

test.describe.configure({ mode: "serial" });

let conversation = "";

/** 200 messages, a result of 30 lines, a turn that failed, and a question that waits. */
async function fill(daemon: Daemon): Promise<string> {
  const id = await daemon.conversation();
  for (let i = 0; i < 97; i++) await daemon.say(id, `say This is answer ${i}: **bold**, \`code\` and [a link](https://example.org/${i}).`);
  const granted = daemon.grant("grant");
  await daemon.say(id, "run for i in $(seq 30); do echo line $i of a result that is as long as results of tests are; done");
  await granted;
  await daemon.say(id, "run cat missing.txt");
  await daemon.api("POST", `/api/conversations/${id}/messages`, { text: "hello", model: "ollama/qwen3:4b" }).catch(() => undefined);
  await expect.poll(async () => (await daemon.api<{ turn?: string }>("GET", `/api/conversations/${id}`)).turn ?? "").toBe("");
  await daemon.api("POST", `/api/conversations/${id}/settings`, { model: "demo/guide" });
  // A site outside the grant asks under every policy.
  await daemon.api("POST", `/api/conversations/${id}/messages`, { text: "open http://localhost:9/cart?item=1" });
  await expect.poll(async () => (await daemon.api<{ approvals: unknown[] }>("GET", "/api/approvals")).approvals.length).toBe(1);
  return id;
}

async function withinWindow(page: Page): Promise<void> {
  const composer = page.getByRole("textbox", { name: "Message" });
  await expect(composer).toBeInViewport({ ratio: 1 });
  await expect(page.getByRole("button", { name: "Stop" })).toBeInViewport({ ratio: 1 });
  await expect(messages(page)).toContainText("This turn failed.");
  const card = page.getByRole("group", { name: "Open a new site?" });
  await expect(card).toBeInViewport();
  await expect(card.getByRole("button", { name: "Open it" })).toBeInViewport({ ratio: 1 });
  await expect(card.getByRole("button", { name: "Open it" })).toBeEnabled();
  await noSidewaysScroll(page);
}

for (const [name, viewport] of [
  ["a window of 1280x800", { width: 1280, height: 800 }],
  ["a phone of 390x844", { width: 390, height: 844 }],
] as const) {
  test(`200 messages, an error and a question are usable in ${name}`, async ({ app, daemon }) => {
    conversation ||= await fill(daemon);
    const phone = viewport.width < 500;
    await app.setViewportSize(viewport);
    await openConversation(app, conversation);
    await withinWindow(app);
    if (phone) await screenshot(app, "phone-chat");
    const tool = messages(app).getByRole("article", { name: "Tool terminal_run" }).first();
    await tool.getByRole("button").click();
    await expect(tool).toContainText("line 30 of a result");
    await noSidewaysScroll(app);
    // What is out of sight is one step away.
    await messages(app).evaluate((e) => e.scrollTo(0, 0));
    await app.getByRole("button", { name: "Go to it" }).click();
    const card = app.getByRole("group", { name: "Open a new site?" });
    await expect(card).toBeFocused();
    await expect(card).toBeInViewport();
    // Focus goes through the card in the order in which it is read.
    const order: string[] = [];
    for (let i = 0; i < 3; i++) {
      await app.keyboard.press("Tab");
      order.push((await app.evaluate(() => document.activeElement?.textContent)) ?? "");
    }
    expect(order.map((o) => o.trim().replace(/ of .*/, ""))).toEqual(["The exact input", "Do not allow", "Open it"]);
    if (phone) {
      await app.getByRole("navigation", { name: "Places" }).getByRole("button", { name: "Panels" }).click();
      await expect(app.getByRole("tabpanel")).toContainText("No such file");
      await noSidewaysScroll(app);
      await screenshot(app, "phone-panels");
      await app.getByRole("navigation", { name: "Places" }).getByRole("button", { name: /Control/ }).click();
      await expect(app.getByRole("heading", { name: "Agent control" })).toBeVisible();
      await noSidewaysScroll(app);
      await app.getByRole("navigation", { name: "Places" }).getByRole("button", { name: "Chats" }).click();
      await expect(app.getByRole("complementary", { name: "Conversations" })).toBeVisible();
      await noSidewaysScroll(app);
    }
  });
}

test("the whole page follows a dark scheme", async ({ app }) => {
  await app.emulateMedia({ colorScheme: "dark", reducedMotion: "reduce" });
  await openConversation(app, conversation);
  await expect(messages(app)).toContainText("This turn failed.");
  await expect(app.getByRole("tabpanel")).toContainText("No such file");
  await expect(app.getByRole("button", { name: "Open it" })).toBeEnabled();
  await screenshot(app, "dark");
});

test("the question is answered by keyboard alone", async ({ app }) => {
  await openConversation(app, conversation);
  const card = app.getByRole("group", { name: "Open a new site?" });
  const no = card.getByRole("button", { name: "Do not allow" });
  await expect(no).toBeEnabled();
  await no.focus();
  await app.keyboard.press("Enter");
  await expect(messages(app)).toContainText("You did not allow it");
  await expect(app.getByRole("button", { name: "Send" })).toBeVisible();
});

test("a stream draws its own message again and nothing else, and a reader who scrolled up stays there", async ({ app }) => {
  await openConversation(app, conversation);
  await expect(messages(app)).toContainText("You did not allow it");
  await messages(app).evaluate((log) => {
    const touched = new Set<Node>();
    (window as unknown as { touched: Set<Node> }).touched = touched;
    const old = [...log.querySelectorAll("article")];
    new MutationObserver((changes) => {
      for (const c of changes) for (const a of old) if (a.contains(c.target)) touched.add(a);
    }).observe(log, { subtree: true, childList: true, characterData: true, attributes: true });
  });
  const long = "word ".repeat(400);
  await say(app, `say ${long}`);
  await expect(messages(app).getByRole("article", { name: "Lomi" }).last()).toContainText("word word");
  expect(await app.evaluate(() => (window as unknown as { touched: Set<Node> }).touched.size)).toBe(0);
  // At the end the newest is in sight; higher up the place is kept.
  await expect(app.getByRole("button", { name: "Go to the newest message" })).toHaveCount(0);
  await messages(app).hover();
  await app.mouse.wheel(0, -2000);
  await expect(app.getByRole("button", { name: "Go to the newest message" })).toBeVisible();
  const place = await messages(app).evaluate((e) => e.scrollTop);
  await say(app, "say one more");
  await expect(messages(app).getByRole("article", { name: "Lomi" }).last()).toContainText("one more");
  expect(await messages(app).evaluate((e) => e.scrollTop)).toBe(place);
  await app.getByRole("button", { name: "Go to the newest message" }).click();
  await expect(messages(app).getByText("one more").last()).toBeInViewport();
});

test("2,000 messages open by their end, and the earlier ones are a step away", async ({ app }) => {
  const events = [{ seq: 1, kind: "conversation.created", time: "2026-01-01T00:00:00Z", data: { title: "long", model: "demo/guide" } }] as object[];
  for (let i = 0; i < 1000; i++) {
    events.push(
      { kind: "message.added", data: { message: `u${i}`, role: "user", parts: [{ kind: "text", text: `question ${i}` }] } },
      { kind: "reply.started", data: { turn: `t${i}`, message: `r${i}`, step: 1 } },
      { kind: "reply.ended", data: { message: `r${i}`, parts: [{ kind: "text", text: `# answer ${i}\n\n- a\n- b\n\n\`\`\`js\nlet x = ${i};\n\`\`\`` }] } },
    );
  }
  const log = events.map((e, i) => ({ time: "2026-01-01T00:00:00Z", ...e, seq: i + 1 }));
  await app.route("**/api/conversations/*/events?*", (route) => {
    const q = new URL(route.request().url()).searchParams;
    const after = Number(q.get("after"));
    return route.fulfill({ json: { events: log.slice(after, after + Number(q.get("limit"))) } });
  });
  await openConversation(app, conversation);
  await expect(messages(app).getByText("question 999")).toBeInViewport();
  const articles = messages(app).getByRole("article");
  const drawn = await articles.count();
  expect(drawn).toBeLessThan(200);
  const first = articles.first();
  // A wheel turns more than once: the first turn may come while the view is
  // still being put to the end.
  await expect(async () => {
    await messages(app).evaluate((e) => e.scrollTo(0, 0));
    await expect(first).toBeInViewport({ timeout: 500 });
  }).toPass();
  const text = await first.textContent();
  await app.getByRole("button", { name: /earlier of/ }).click();
  await expect(articles).toHaveCount(drawn + 120);
  // The place is kept: what was read is still in sight.
  await expect(articles.filter({ hasText: text ?? "" }).first()).toBeInViewport();
});
