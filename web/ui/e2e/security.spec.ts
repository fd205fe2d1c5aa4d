// Other pages in the same browser, names that resolve to this machine, and a
// server that runs in a Lomi terminal: none of them reaches or opens anything.

import { chromium, type Page } from "@playwright/test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { until } from "./support/daemon";
import { replay, replaySocket, routes } from "./support/replay";
import { html, site, type Site } from "./support/site";
import { expect, messages, openConversation, test } from "./support/test";

test.describe.configure({ mode: "serial" });

let evil: Site;
test.beforeAll(async () => {
  evil = await site((_, response) => html(response, "<title>evil</title><body>hello</body>"));
});
test.afterAll(async () => evil.close());

/** The statuses with which the daemon answers a page, those included that the browser keeps from it. */
async function answers(page: Page, origin: string): Promise<{ path: string; status: number }[]> {
  const seen: { path: string; status: number }[] = [];
  const asked = new Map<string, URL>();
  const network = await page.context().newCDPSession(page);
  network.on("Network.requestWillBeSent", (e) => asked.set(e.requestId, new URL(e.request.url)));
  network.on("Network.responseReceivedExtraInfo", (e) => {
    const url = asked.get(e.requestId);
    if (url?.origin === origin) seen.push({ path: url.pathname, status: e.statusCode });
  });
  await network.send("Network.enable");
  return seen;
}

test("a page of another origin reads nothing, changes nothing and frames nothing", async ({ app, context, daemon }) => {
  const conversation = await daemon.conversation();
  const origin = daemon.url.slice(0, -1);
  const attacker = await context.newPage();
  const seen = await answers(attacker, origin);
  await attacker.goto(`${evil.origin}/`);
  const read = await attacker.evaluate(
    async ({ origin, conversation }) => {
      const tries: [string, RequestInit][] = [];
      for (const mode of ["cors", "no-cors"] as const) {
        tries.push(["/api/state", { mode, credentials: "include" }]);
        tries.push(["/api/receipts", { mode, credentials: "include" }]);
        tries.push([`/api/conversations/${conversation}/events`, { mode, credentials: "include" }]);
        tries.push(["/api/control/stop", { mode, method: "POST", credentials: "include", body: "{}" }]);
        tries.push([`/api/conversations/${conversation}/messages`, { mode, method: "POST", credentials: "include", body: '{"text":"run id"}', headers: { "Content-Type": "text/plain" } }]);
      }
      tries.push(["/api/control/stop", { method: "POST", credentials: "include", body: "{}", headers: { "Content-Type": "application/json", "X-Lomi-Key": "0" } }]);
      const out: string[] = [];
      for (const [path, init] of tries) {
        try {
          const r = await fetch(origin + path, init);
          out.push(`${r.type} ${(await r.text()).length}`);
        } catch {
          out.push("refused");
        }
      }
      return out;
    },
    { origin, conversation },
  );
  // What no-cors lets through is opaque: it has no text and no status for the page.
  expect(read.filter((r) => r !== "refused" && r !== "opaque 0")).toEqual([]);
  const sockets = await attacker.evaluate(async (host) => {
    const out: string[] = [];
    for (const path of ["/ws/events", "/ws/terminal/x", "/ws/screen/x"]) {
      out.push(
        await new Promise<string>((done) => {
          const s = new WebSocket(`ws://${host}${path}`);
          s.onopen = () => done("open");
          s.onerror = () => done("refused");
        }),
      );
    }
    return out;
  }, new URL(origin).host);
  expect(sockets).toEqual(["refused", "refused", "refused"]);
  const embedded = await attacker.evaluate(async (origin) => {
    const out: string[] = [];
    for (const [tag, path] of [["script", "/api/state"], ["img", "/icon.svg"], ["script", "/assets/index.js"]] as const) {
      out.push(
        await new Promise<string>((done) => {
          const e = document.createElement(tag) as HTMLScriptElement;
          e.onload = () => done("loaded");
          e.onerror = () => done("refused");
          e.src = origin + path;
          document.body.append(e);
        }),
      );
    }
    return out;
  }, origin);
  expect(embedded).toEqual(["refused", "refused", "refused"]);
  const framed = attacker.waitForResponse((r) => r.url() === `${origin}/` && r.request().frame() !== attacker.mainFrame());
  await attacker.evaluate((origin) => {
    const frame = document.createElement("iframe");
    frame.src = `${origin}/`;
    document.body.append(frame);
  }, origin);
  expect((await framed).headers()["x-frame-options"]).toBe("DENY");
  await expect.poll(() => attacker.frames().at(-1)?.url()).toMatch(/^chrome-error:/);
  // An opened window is no way in either: it has no opener.
  const [opened] = await Promise.all([context.waitForEvent("page"), attacker.evaluate((origin) => void window.open(`${origin}/`), origin)]);
  await opened.waitForLoadState();
  expect(await opened.evaluate(() => window.opener === null)).toBe(true);
  await opened.close();
  await attacker.evaluate((origin) => {
    const form = document.createElement("form");
    form.method = "POST";
    form.action = `${origin}/api/control/stop`;
    form.enctype = "text/plain";
    document.body.append(form);
    form.submit();
  }, origin);
  await attacker.waitForURL(`${origin}/api/control/stop`);
  // The daemon's page of refusal is its own, and may look for an icon.
  const opens = seen.filter((a) => a.path !== "/" && a.path !== "/favicon.ico" && a.status !== 403);
  expect(opens, "answers other than 403").toEqual([]);
  expect(seen.length).toBeGreaterThan(10);
  await attacker.close();
  // Nothing changed, and the person's page goes on.
  expect((await daemon.events(conversation)).map((e) => e.kind)).toEqual(["conversation.created"]);
  await app.reload();
  await expect(app.getByText("Agent control is off.")).toHaveCount(0);
  await openConversation(app, conversation);
});

test("a name that is rebound to this machine is not this host", async ({ daemon }) => {
  const browser = await chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/lib/chromium/chromium",
    args: ["--host-resolver-rules=MAP evil.test 127.0.0.1"],
  });
  const page = await browser.newPage();
  const answer = await page.goto(`http://evil.test:${daemon.port}/`);
  expect(answer?.status()).toBe(403);
  const inside = await page.evaluate(async () => {
    const r = await fetch("/api/state");
    return [r.status, await r.text()];
  });
  expect(inside[0]).toBe(403);
  expect(String(inside[1])).not.toContain("workspaces");
  await browser.close();
});

test("a server in a Lomi terminal is sent the cookie, and the cookie opens no route", async ({ app, context, daemon }) => {
  writeFileSync(
    join(daemon.project, "record.js"),
    `const seen = [];
require("http").createServer((q, r) => {
  seen.push(q.headers);
  require("fs").writeFileSync("seen.json", JSON.stringify(seen));
  r.end("thanks");
}).listen(0, "127.0.0.1", function () { require("fs").writeFileSync("port", String(this.address().port)); });`,
  );
  const conversation = await daemon.conversation();
  const granted = daemon.grant("grant");
  await daemon.api("POST", `/api/conversations/${conversation}/messages`, { text: "run node record.js" });
  await granted;
  const file = join(daemon.project, "port");
  const port = await until("the server in the terminal", () => existsSync(file) && readFileSync(file, "utf8"), 60_000);
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${port}/`);
  await page.close();
  const seen = JSON.parse(readFileSync(join(daemon.project, "seen.json"), "utf8")) as Record<string, string>[];
  const cookie = seen.map((h) => h["cookie"] ?? "").find((c) => c.includes("lomi_page="));
  // Cookies do not know ports: this is why the cookie alone must open nothing.
  expect(cookie).toBeTruthy();
  expect(JSON.stringify(seen)).not.toContain(await app.evaluate(() => localStorage.getItem("lomi.key") ?? "none"));

  const headers = { cookie: cookie ?? "", host: `127.0.0.1:${daemon.port}` };
  const before = await daemon.events(conversation);
  const { panels } = await daemon.api<{ panels: { id: string }[] }>("GET", "/api/state");
  const all = routes().filter((r) => r.path !== "/api/login"); // it is for strangers, and wants a code
  expect(all.length).toBeGreaterThan(30);
  const opened: string[] = [];
  for (const { method, path } of all) {
    const real = path.replace(/^(\/(?:api\/panels|ws\/terminal|ws\/screen)\/)\{\w+\}/, `$1${panels[0]?.id ?? ""}`).replace(/\{\w+\}/, conversation);
    if (path.startsWith("/ws/")) {
      const code = await replaySocket(daemon.port, real, headers);
      if (code !== 0 && code !== 1008) opened.push(`${path}: close ${code}`);
      continue;
    }
    for (const extra of [{}, { "x-lomi-key": "" }, { origin: `http://127.0.0.1:${daemon.port}`, "sec-fetch-site": "same-origin" }] as Record<string, string>[]) {
      const answer = await replay(daemon.port, method, real, { ...headers, ...extra });
      if (answer.status !== 401 && answer.status !== 403 && answer.status !== 404) opened.push(`${method} ${path}: ${answer.status} ${answer.body.slice(0, 80)}`);
      if (answer.status === 404 && !answer.body.includes("404 page not found")) opened.push(`${method} ${path} looked before it asked who: ${answer.body}`);
    }
  }
  expect(opened).toEqual([]);
  expect((await daemon.events(conversation)).length).toBe(before.length);
  await openConversation(app, conversation);
  await app.getByRole("button", { name: "Stop" }).click();
  await expect(messages(app)).toContainText("You stopped this turn.");
});
