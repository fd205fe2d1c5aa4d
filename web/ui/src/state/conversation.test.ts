import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { advance, append, emptyConversation, fold, type CallItem, type Conversation, type Item, type ReplyItem } from "./conversation";
import type { LogEvent } from "./types";

// The logs that the Go tests write and fold. What both sides make of them has to
// be the same.
const testdata = join(import.meta.dirname, "../../../../chat/testdata");
const names = readdirSync(testdata)
  .filter((n) => n.endsWith(".events.jsonl"))
  .map((n) => n.slice(0, -".events.jsonl".length));

interface Folded {
  title: string;
  model: string;
  turn: string;
  reply: string;
  text: string[] | null;
  calls: string[] | null;
  approvals: string[] | null;
  questions: string[] | null;
  messages: { role: string; parts: { kind: string; text?: string; call?: { id: string }; result?: { callId: string; text: string; isError?: boolean } }[] }[];
}

function logOf(name: string): LogEvent[] {
  return readFileSync(join(testdata, `${name}.events.jsonl`), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as LogEvent);
}

function items<T extends Item["type"]>(c: Conversation, type: T): Extract<Item, { type: T }>[] {
  return c.items.filter((i) => i.type === type) as Extract<Item, { type: T }>[];
}

describe("the fold agrees with Go on", () => {
  it("more than a few logs", () => expect(names.length).toBeGreaterThan(5));

  for (const name of names) {
    it(name, () => {
      const log = logOf(name);
      const got = log.reduce(fold, emptyConversation);
      const want = JSON.parse(readFileSync(join(testdata, `${name}.folded.json`), "utf8")) as Folded;
      expect(got.seq).toBe(log.at(-1)?.seq);
      expect(got.title).toBe(want.title);
      expect(got.model).toBe(want.model);
      expect(got.turn?.id ?? "").toBe(want.turn);
      const open = items(got, "reply").find((r) => r.open);
      expect(open?.id ?? "").toBe(want.reply);
      expect(open?.parts.map((p) => p.text) ?? []).toEqual(want.text ?? []);
      expect(items(got, "approval").filter((a) => a.outcome === "").map((a) => a.id)).toEqual(want.approvals ?? []);
      expect(items(got, "question").filter((q) => q.answer === null).map((q) => q.id)).toEqual(want.questions ?? []);

      const said = (role: string) =>
        want.messages.filter((m) => m.role === role).map((m) => m.parts.filter((p) => p.kind === "text" || p.kind === "thinking").map((p) => p.text ?? ""));
      expect(items(got, "user").map((u) => [u.text])).toEqual(said("user"));
      // A reply that is cut off is text, but no message yet.
      expect(items(got, "reply").filter((r) => !r.open).map((r) => r.parts.filter((p) => p.text !== "").map((p) => p.text))).toEqual(said("assistant"));
      const results = want.messages.flatMap((m) => m.parts.flatMap((p) => (p.result ? [p.result] : [])));
      // Pictures stand in the text of Go's fold as a note; here they are shown.
      const plain = (text: string) => text.replace(/\n\(A picture was shown here[^\n]*/g, "");
      expect(items(got, "call").filter((c) => c.state === "done").map((c) => [c.id, c.text, c.isError])).toEqual(
        results.map((r) => [r.callId, plain(r.text), r.isError ?? false]),
      );
    });
  }
});

it("replaying a part of the log again changes nothing", () => {
  for (const name of names) {
    const log = logOf(name);
    const whole = log.reduce(fold, emptyConversation);
    expect(log.reduce(fold, whole)).toEqual(whole);
    // A page that read half by request and gets all of it by the stream.
    const half = log.slice(0, log.length >> 1).reduce(fold, emptyConversation);
    expect(log.reduce(fold, half)).toEqual(whole);
  }
});

let seq = 0;
function event(kind: string, data: Record<string, unknown>): LogEvent {
  return { seq: ++seq, kind, time: "2026-01-01T00:00:00Z", data };
}

function foldAll(...events: LogEvent[]): Conversation {
  return events.reduce(fold, emptyConversation);
}

describe("pieces of text", () => {
  const begun = () => foldAll(event("turn.started", { turn: "t", model: "m" }), event("reply.started", { turn: "t", message: "m1", step: 1 }));
  const textOf = (c: Conversation) => (c.items[0] as ReplyItem).parts.map((p) => p.text);
  const piece = (offset: number, text: string, part = 0) => ({ message: "m1", part, kind: "text" as const, offset, text });

  it("are joined by bytes of UTF-8, not by characters", () => {
    let c = append(begun(), piece(0, "añ😀")).state;
    c = append(c, piece(7, "!")).state;
    expect(textOf(c)).toEqual(["añ😀!"]);
  });
  it("that overlap add only what is new", () => {
    let c = append(begun(), piece(0, "häl")).state;
    c = append(c, piece(1, "älfte")).state;
    expect(textOf(c)).toEqual(["hälfte"]);
  });
  it("that were there already change nothing", () => {
    const c = append(begun(), piece(0, "hello")).state;
    expect(append(c, piece(2, "ll"))).toEqual({ state: c, fits: true });
  });
  it("after a gap are not put anywhere, and are asked for again", () => {
    const c = append(begun(), piece(0, "a")).state;
    expect(append(c, piece(5, "z"))).toEqual({ state: c, fits: false });
  });
  it("of a later part make room for the earlier one", () => {
    expect(textOf(append(begun(), piece(0, "second", 1)).state)).toEqual(["", "second"]);
  });
  it("that come after the end of their message are dropped", () => {
    const ended = fold(begun(), event("reply.ended", { message: "m1", parts: [{ kind: "text", text: "whole" }] }));
    expect(append(ended, piece(5, " and more")).state).toBe(ended);
    expect(textOf(ended)).toEqual(["whole"]);
  });
  it("of a message that is not known are dropped", () => {
    const c = begun();
    expect(append(c, { ...piece(0, "x"), message: "other" })).toEqual({ state: c, fits: true });
  });
});

describe("a call", () => {
  const started = event("call.started", { turn: "t", message: "m", call: "c", name: "terminal_run", arguments: { command: "npm test" }, title: "" });
  const asked = event("approval.requested", { id: "a", kind: "risk", summary: "npm test", call: "c" });
  const settled = event("approval.settled", { id: "a", call: "c", outcome: "approved" });
  const ended = event("call.ended", { call: "c", name: "terminal_run", isError: false, text: "Exit code 0.", outcome: "ok", durationMs: 12, receipt: "r", images: [{ mediaType: "image/png", artifact: "x" }] });
  const call = (c: Conversation) => c.items.find((i) => i.type === "call") as CallItem;

  it("waits while its question is open, and runs again after it", () => {
    expect(call(foldAll(started)).state).toBe("running");
    expect(call(foldAll(started, asked)).state).toBe("waiting");
    expect(call(foldAll(started, asked, settled)).state).toBe("running");
    expect(call(foldAll(started, asked, settled, ended))).toMatchObject({ state: "done", outcome: "ok", durationMs: 12, receipt: "r", images: [{ artifact: "x" }] });
  });
  it("shows progress, and none after its end", () => {
    const progress = { call: "c", state: "running", elapsedMs: 900, tail: "line" };
    expect(call(advance(foldAll(started), progress)).progress).toEqual(progress);
    const done = foldAll(started, ended);
    expect(advance(done, progress)).toBe(done);
  });
});

describe("the end of a turn", () => {
  it("is silent when all is well, and says why when not", () => {
    const turn = event("turn.started", { turn: "t" });
    expect(foldAll(turn, event("turn.ended", { turn: "t", stopReason: "end_turn" })).items).toEqual([]);
    const stopped = foldAll(turn, event("turn.ended", { turn: "t", stopReason: "cancelled" }));
    expect(stopped.turn).toBeNull();
    expect(stopped.items).toMatchObject([{ type: "end", stopReason: "cancelled" }]);
    expect(foldAll(turn, event("turn.ended", { turn: "t", stopReason: "failed", error: "no answer" })).items).toMatchObject([{ error: "no answer" }]);
  });
});

it("notices and compactions are quiet lines, and a kind of a newer version passes", () => {
  const c = foldAll(event("notice.added", { turn: "t", text: "The model asked twice." }), event("context.compacted", { turn: "t", note: "Older results were shortened." }), event("moon.rose", { phase: 1 }));
  expect(c.items.map((i) => (i.type === "note" ? i.text : i.type))).toEqual(["The model asked twice.", "Older results were shortened."]);
  expect(c.seq).toBe(seq);
});
