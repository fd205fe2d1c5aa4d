import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { EventStream, type Link } from "./stream";
import type { Frame } from "../state/types";

/** A socket whose other end is the test. */
class FakeSocket {
  static all: FakeSocket[] = [];
  static readonly OPEN = 1;
  readyState = 0;
  sent: { key?: string; subscribe?: { log: string; after: number }[]; unsubscribe?: string[] }[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((e: { data: string }) => void) | null = null;
  onclose: ((e: { code: number }) => void) | null = null;

  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text) as FakeSocket["sent"][number]);
  }
  close(): void {
    this.end(1005);
  }
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }
  tell(frame: Frame): void {
    this.onmessage?.({ data: JSON.stringify(frame) });
  }
  end(code: number): void {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code });
  }
}

const frames: Frame[] = [];
const links: Link[] = [];
const behind: string[] = [];
let stream: EventStream;

function socket(): FakeSocket {
  const last = FakeSocket.all.at(-1);
  if (!last) throw new Error("no socket was opened");
  return last;
}

const event = (log: string, seq: number): Frame => ({ log, event: { seq, kind: "x", time: "", data: {} } });

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("location", { protocol: "http:", host: "127.0.0.1:7717" });
  localStorage.setItem("lomi.key", "k");
  FakeSocket.all = [];
  frames.length = links.length = behind.length = 0;
  stream = new EventStream({ frame: (f) => frames.push(f), link: (l) => links.push(l), behind: (l) => behind.push(l) });
});
afterEach(() => {
  stream.close();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

describe("the event stream", () => {
  it("greets with the key and follows every log from its number", () => {
    stream.follow("desk", 4);
    stream.connect();
    expect(socket().url).toBe("ws://127.0.0.1:7717/ws/events");
    socket().open();
    expect(socket().sent).toEqual([{ key: "k", subscribe: [{ log: "desk", after: 4 }] }]);
    stream.follow("conversation:c", 9);
    stream.unfollow("desk");
    expect(socket().sent.slice(1)).toEqual([{ subscribe: [{ log: "conversation:c", after: 9 }] }, { unsubscribe: ["desk"] }]);
  });

  it("resumes from the last number that it saw, and tells nothing twice", () => {
    stream.follow("desk", 0);
    stream.connect();
    socket().open();
    socket().tell(event("desk", 1));
    socket().tell(event("desk", 2));
    socket().end(1006);
    expect(links).toEqual(["connecting", "open", "lost"]);
    vi.advanceTimersByTime(2_000);
    expect(FakeSocket.all).toHaveLength(2);
    socket().open();
    expect(socket().sent[0]?.subscribe).toEqual([{ log: "desk", after: 2 }]);
    socket().tell(event("desk", 2));
    socket().tell(event("desk", 3));
    expect(frames.map((f) => f.event?.seq)).toEqual([1, 2, 3]);
    expect(links.at(-1)).toBe("open");
  });

  it("waits longer after each failure, up to a bound, and starts short again after a word", () => {
    stream.connect();
    for (let i = 0; i < 12; i++) {
      socket().end(1006);
      vi.advanceTimersByTime(10_001); // the longest wait, with its spread
      expect(FakeSocket.all).toHaveLength(i + 2);
    }
    socket().end(1006);
    vi.advanceTimersByTime(5_000);
    expect(FakeSocket.all).toHaveLength(13);
    vi.advanceTimersByTime(6_000);
    socket().open();
    socket().tell({ ping: true });
    socket().end(1006);
    vi.advanceTimersByTime(400);
    expect(FakeSocket.all).toHaveLength(15);
  });

  it("takes a link that says nothing for dead", () => {
    stream.connect();
    socket().open();
    vi.advanceTimersByTime(20_000);
    socket().tell({ ping: true });
    vi.advanceTimersByTime(31_000);
    expect(links.at(-1)).toBe("open");
    vi.advanceTimersByTime(2_000);
    expect(links.at(-1)).toBe("lost");
  });

  it("does not knock again where it was refused", () => {
    stream.connect();
    socket().open();
    socket().end(1008);
    expect(links.at(-1)).toBe("refused");
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(1);
  });

  it("says that it fell behind, and asks for a part again", () => {
    stream.follow("conversation:c", 7);
    stream.connect();
    socket().open();
    socket().tell({ log: "conversation:c", behind: true });
    expect(behind).toEqual(["conversation:c"]);
    stream.again("conversation:c");
    expect(socket().sent.at(-1)).toEqual({ subscribe: [{ log: "conversation:c", after: 7 }] });
  });

  it("drops what comes of a log that is no longer followed", () => {
    stream.follow("conversation:a", 0);
    stream.connect();
    socket().open();
    stream.unfollow("conversation:a");
    socket().tell(event("conversation:a", 1));
    socket().tell({ log: "conversation:a", delta: { message: "m", part: 0, kind: "text", offset: 0, text: "x" } });
    expect(frames).toEqual([]);
  });

  it("is quiet after it was closed", () => {
    stream.connect();
    socket().open();
    stream.close();
    vi.advanceTimersByTime(60_000);
    expect(FakeSocket.all).toHaveLength(1);
    expect(links).toEqual(["connecting", "open"]);
  });
});
