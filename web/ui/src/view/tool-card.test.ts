import { describe, expect, it } from "vitest";
import { clock } from "./approvals";
import { modelWords } from "./models";
import { shortLabel } from "./panels";
import { duration, exitCode, lastLines, stateOf, target, verb } from "./tool-card";
import type { CallItem } from "../state/conversation";
import type { Connection, ModelInfo } from "../state/types";

const call = (over: Partial<CallItem>): CallItem => ({
  type: "call", id: "c", name: "terminal_run", title: "", arguments: {}, state: "done", startedAt: "", progress: null,
  outcome: "ok", isError: false, text: "", images: [], receipt: "", durationMs: 0, ...over,
});

describe("a tool card says", () => {
  it("how a call stands, in words and a sign, for every outcome", () => {
    const outcomes = ["ok", "error", "cancelled", "denied", "expired", "not_run", "duplicate", "timed_out", "outcome_unknown", "interrupted", "revoked"];
    const texts = outcomes.map((outcome) => stateOf(call({ outcome })).text);
    expect(new Set(texts).size).toBe(outcomes.length);
    for (const outcome of outcomes) expect(stateOf(call({ outcome })).icon).not.toBe("");
    expect(stateOf(call({ outcome: "ok" })).tone).toBe("good");
    expect(stateOf(call({ outcome: "error" })).tone).toBe("bad");
    // A person who pressed Stop has not met a failure.
    expect(stateOf(call({ outcome: "cancelled" })).tone).toBe("warn");
  });
  it("that it runs or waits before it is done", () => {
    expect(stateOf(call({ state: "running" })).text).toBe("running");
    expect(stateOf(call({ state: "waiting" }))).toMatchObject({ text: "waits for you", tone: "warn" });
  });
  it("the exit code of a command that failed, though the call did not", () => {
    expect(stateOf(call({ text: "Exit code 1.\nFrom…" }))).toMatchObject({ text: "exit code 1", tone: "bad" });
    expect(stateOf(call({ text: "Exit code 0.\n" })).text).toBe("done");
    expect(exitCode("3 passed. Exit code 1.")).toBeNull();
  });
  it("what it is about", () => {
    expect(target({ command: "ls", text: "x" })).toBe("ls");
    expect(target({ element: 4 })).toBe("element 4");
    expect(target({ url: "http://a/" })).toBe("http://a/");
    expect(target(null)).toBe("");
    expect(target({ other: 1 })).toBe("");
  });
  it("what it does", () => {
    expect(verb("terminal_run")).toBe("Run");
    expect(verb("some_new_tool")).toBe("some new tool");
  });
  it("the end of what runs", () => {
    expect(lastLines("1\n2\n3\n4\n5\n6\n7\n8\n\n")).toBe("3\n4\n5\n6\n7\n8");
    expect(lastLines("one")).toBe("one");
  });
  it("how long it took", () => {
    expect([12, 999, 1000, 59_949, 59_960, 61_000, 119_700].map(duration)).toEqual(["12 ms", "999 ms", "1.0 s", "59.9 s", "1 min 0 s", "1 min 1 s", "2 min 0 s"]);
  });
});

it("the time that is left is minutes and seconds", () => {
  expect([120, 61, 9, 0].map(clock)).toEqual(["2:00", "1:01", "0:09", "0:00"]);
});

it("a model that leaves this machine, or can use no tools, says so", () => {
  const c = (over: Partial<Connection>) => ({ name: "x", kind: "ollama", leavesMachine: false, hasKey: false, models: [], ...over });
  const m = (over: Partial<ModelInfo>) => ({ name: "m", window: 0, tools: true, thinking: false, vision: false, ...over });
  expect(modelWords(c({}), m({}))).toBe("x/m");
  expect(modelWords(c({}), m({ remote: true, tools: false }))).toBe("x/m (cannot use tools, leaves this machine)");
});

it("a label loses the tail of its number, and no other word", () => {
  expect(shortLabel(`Lomi Chat AI ${"0123456789abcdef".repeat(2)}`)).toBe("Lomi Chat AI 012345");
  expect(shortLabel("Claude Desktop 42")).toBe("Claude Desktop 42");
});
