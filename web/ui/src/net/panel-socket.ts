// The sockets of one terminal and of one browser panel. Both live as long as
// their panel is shown and reconnect by themselves; the daemon sends what is
// there first, so nothing has to be remembered here.

import { pageKey } from "./api";
import type { ScreenInput, ScreenMeta } from "../state/types";

export type PanelState = "connecting" | "open" | "ended" | "lost";

abstract class PanelSocket {
  #socket: WebSocket | null = null;
  #timer = 0;
  #closed = false;

  constructor(
    private readonly path: string,
    private readonly onState: (state: PanelState) => void,
  ) {}

  connect(): void {
    this.onState("connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${this.path}`);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    socket.onopen = () => {
      socket.send(JSON.stringify({ key: pageKey(), ...this.greeting() }));
      this.opened();
      this.onState("open");
    };
    socket.onmessage = (event) => this.received(event.data as ArrayBuffer | string);
    socket.onclose = (event) => {
      if (this.#socket !== socket || this.#closed) return;
      this.#socket = null;
      if (event.code === 1000 || event.code === 1008) {
        this.onState("ended");
        return;
      }
      this.onState("lost");
      this.#timer = window.setTimeout(() => this.connect(), 1_000);
    };
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#socket?.close();
    this.#socket = null;
  }

  protected say(message: string | Uint8Array<ArrayBuffer>): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(message);
  }

  protected abstract greeting(): object;
  protected abstract received(data: ArrayBuffer | string): void;
  protected opened(): void {}
}

export interface TerminalSocketHandlers {
  size(): { cols: number; rows: number };
  reset(): void;
  output(bytes: Uint8Array): void;
  state(state: PanelState): void;
}

export class TerminalSocket extends PanelSocket {
  readonly #encoder = new TextEncoder();

  constructor(
    panel: string,
    private readonly handlers: TerminalSocketHandlers,
  ) {
    super(`/ws/terminal/${encodeURIComponent(panel)}`, (s) => handlers.state(s));
  }

  type(text: string): void {
    this.say(this.#encoder.encode(text));
  }

  resize(cols: number, rows: number): void {
    this.say(JSON.stringify({ resize: { cols, rows } }));
  }

  protected override greeting(): object {
    return { resize: this.handlers.size() };
  }

  protected override opened(): void {
    this.handlers.reset();
  }

  protected override received(data: ArrayBuffer | string): void {
    if (typeof data !== "string") this.handlers.output(new Uint8Array(data));
  }
}

export interface ScreenSocketHandlers {
  size(): { width: number; height: number };
  frame(jpeg: Blob): void;
  meta(meta: ScreenMeta): void;
  failure(text: string): void;
  state(state: PanelState): void;
}

export class ScreenSocket extends PanelSocket {
  constructor(
    panel: string,
    private readonly handlers: ScreenSocketHandlers,
  ) {
    super(`/ws/screen/${encodeURIComponent(panel)}`, (s) => handlers.state(s));
  }

  act(input: ScreenInput): void {
    this.say(JSON.stringify(input));
  }

  protected override greeting(): object {
    return this.handlers.size();
  }

  protected override received(data: ArrayBuffer | string): void {
    if (typeof data !== "string") {
      this.handlers.frame(new Blob([data], { type: "image/jpeg" }));
      return;
    }
    const message = JSON.parse(data) as { meta?: ScreenMeta; error?: string };
    if (message.meta) this.handlers.meta(message.meta);
    if (message.error) this.handlers.failure(message.error);
  }
}
