// The one event stream. It owns connecting, backing off, the last sequence
// number of each log, and reading again after falling behind; components never
// see a socket.
//
// Promise: every event of a followed log arrives once and in order ("from
// sequence n"). Deltas, progress and status arrive at most once and may be
// missing: an event that follows makes up for them.

import { pageKey } from "./api";
import type { Frame } from "../state/types";

export type Link = "connecting" | "open" | "lost" | "refused";

export interface StreamHandlers {
  frame(frame: Frame): void;
  link(state: Link): void;
  /** The log's own memory does not reach back that far: read the state anew and follow again. */
  behind(log: string): void;
}

// The daemon pings every 15 s: twice that without a word is a dead link.
const silence = 32_000;
const firstDelay = 250;
const longestDelay = 8_000;

export class EventStream {
  #socket: WebSocket | null = null;
  #logs = new Map<string, number>();
  #delay = firstDelay;
  #timer = 0;
  #watch = 0;
  #closed = false;
  #opened = false;

  constructor(private readonly handlers: StreamHandlers) {}

  connect(): void {
    if (this.#closed || this.#socket) return;
    if (!this.#opened) this.handlers.link("connecting"); // after that it is lost until it is open
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/events`);
    this.#socket = socket;
    socket.onopen = () => {
      const subscribe = [...this.#logs].map(([log, after]) => ({ log, after }));
      socket.send(JSON.stringify({ key: pageKey(), subscribe }));
      this.#alive();
      this.#opened = true;
      this.handlers.link("open");
    };
    socket.onmessage = (event) => {
      this.#alive();
      this.#delay = firstDelay;
      this.#take(JSON.parse(event.data as string) as Frame);
    };
    socket.onclose = (event) => this.#lost(socket, event.code === 1008);
  }

  /** Follows a log from after a sequence number. */
  follow(log: string, after: number): void {
    this.#logs.set(log, after);
    this.#say({ subscribe: [{ log, after }] });
  }

  unfollow(log: string): void {
    this.#logs.delete(log);
    this.#say({ unsubscribe: [log] });
  }

  /** Asks for the texts of a log again: a delta did not fit. */
  again(log: string): void {
    const after = this.#logs.get(log);
    if (after !== undefined) this.#say({ subscribe: [{ log, after }] });
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#watch);
    this.#socket?.close();
    this.#socket = null;
  }

  #take(frame: Frame): void {
    if (!frame.log) return;
    const last = this.#logs.get(frame.log);
    if (last === undefined) return; // of a log that is no longer followed
    if (frame.behind) {
      this.handlers.behind(frame.log);
      return;
    }
    if (frame.event) {
      if (frame.event.seq <= last) return; // told twice after reconnecting
      this.#logs.set(frame.log, frame.event.seq);
    }
    this.handlers.frame(frame);
  }

  #say(message: unknown): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #alive(): void {
    clearTimeout(this.#watch);
    this.#watch = window.setTimeout(() => this.#socket?.close(), silence);
  }

  #lost(socket: WebSocket, refused: boolean): void {
    if (this.#socket !== socket) return;
    this.#socket = null;
    clearTimeout(this.#watch);
    if (this.#closed) return;
    this.handlers.link(refused ? "refused" : "lost");
    if (refused) return;
    this.#timer = window.setTimeout(() => this.connect(), this.#delay * (0.75 + Math.random() / 2));
    this.#delay = Math.min(this.#delay * 2, longestDelay);
  }
}
