import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Decision, quietMs, YesNo } from "./approvals";
import type { Approval } from "../state/types";

let root: HTMLElement;
beforeEach(() => {
  vi.useFakeTimers();
  root = document.createElement("div");
  document.body.append(root);
});
afterEach(() => {
  act(() => render(null, root));
  root.remove();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function button(text: string): HTMLButtonElement {
  const found = [...root.querySelectorAll("button")].find((b) => b.textContent?.replace(/\s+/g, " ").includes(text));
  if (!found) throw new Error(`no button ${text}`);
  return found;
}

it("takes nothing for half a second, by click or by key, and can be reached meanwhile", () => {
  const yes = vi.fn();
  const no = vi.fn();
  act(() => render(<YesNo yes="Allow once" onYes={yes} onNo={no} />, root));
  const allow = button("Allow once");
  expect(allow.disabled).toBe(false);
  expect(allow.getAttribute("aria-disabled")).toBe("true");
  allow.click();
  button("Do not allow").click();
  act(() => void vi.advanceTimersByTime(quietMs - 1));
  allow.click();
  expect(yes).not.toHaveBeenCalled();
  expect(no).not.toHaveBeenCalled();
  act(() => void vi.advanceTimersByTime(1));
  allow.click();
  expect(yes).toHaveBeenCalledOnce();
});

const approval: Approval = {
  id: "r1", kind: "risk", session: "s", label: "Codex", tool: "lomi_terminal_run", title: "Run a command", summary: "Run npm test in main",
  reason: "runs a command", command: "npm test", rule: "npm test", requested: "2026-01-01T00:00:00Z", expires: "2026-01-01T00:02:00Z",
};

it("shows the exact command and why it is asked, and offers its rule", () => {
  const sent: [string, unknown][] = [];
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    sent.push([path, JSON.parse(String(init.body))]);
    return Promise.resolve(new Response("{}"));
  });
  act(() => render(<Decision approval={approval} />, root));
  expect(root.querySelector("h2")?.textContent).toBe("Run this command?");
  expect(root.querySelector("pre")?.textContent).toBe("npm test");
  expect(root.textContent).toContain("Runs a command.");
  act(() => void vi.advanceTimersByTime(quietMs));
  button("do not ask again for npm test").click();
  button("Allow once").click();
  button("Do not allow").click();
  expect(sent).toEqual([
    ["/api/approvals/r1", { answer: "yes", remember: true }],
    ["/api/approvals/r1", { answer: "yes" }],
    ["/api/approvals/r1", { answer: "no" }],
  ]);
});

it("offers no rule where there is none, and shows a site by its origin", () => {
  const { command: _, rule: __, ...rest } = approval;
  act(() => render(<Decision approval={{ ...rest, kind: "origin", origin: "http://localhost:3000" }} />, root));
  expect(root.querySelector("pre")?.textContent).toBe("http://localhost:3000");
  expect(root.textContent).not.toContain("do not ask again");
});
