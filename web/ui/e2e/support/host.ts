// An external MCP host: lomi mcp on stdio, spoken to line by line.

import { spawn, type ChildProcessWithoutNullStreams } from "node:child_process";
import { createInterface } from "node:readline";
import { binary, type Daemon } from "./daemon";

export interface ToolResult {
  isError?: boolean;
  content: { type: string; text?: string }[];
  structuredContent?: Record<string, unknown>;
}

export class Host {
  #child: ChildProcessWithoutNullStreams;
  #waiting = new Map<number, (answer: { result?: unknown; error?: unknown }) => void>();
  #next = 1;

  static async start(daemon: Daemon, label: string): Promise<Host> {
    const host = new Host(daemon, label);
    await host.#ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: label, version: "1" } });
    host.#say({ jsonrpc: "2.0", method: "notifications/initialized" });
    return host;
  }

  private constructor(daemon: Daemon, label: string) {
    this.#child = spawn(binary, ["mcp", ...daemon.flags, "--label", label]);
    createInterface({ input: this.#child.stdout }).on("line", (line) => {
      const message = JSON.parse(line) as { id?: number; result?: unknown; error?: unknown };
      const done = this.#waiting.get(message.id ?? -1);
      if (message.id !== undefined) this.#waiting.delete(message.id);
      done?.(message);
    });
  }

  async call(name: string, args: object = {}): Promise<ToolResult> {
    const answer = await this.#ask("tools/call", { name, arguments: args });
    if (answer.error) throw new Error(JSON.stringify(answer.error));
    return answer.result as ToolResult;
  }

  async close(): Promise<void> {
    const gone = new Promise((done) => this.#child.once("exit", done));
    this.#child.stdin.end();
    await gone;
  }

  #ask(method: string, params: object): Promise<{ result?: unknown; error?: unknown }> {
    const id = this.#next++;
    return new Promise((done) => {
      this.#waiting.set(id, done);
      this.#say({ jsonrpc: "2.0", id, method, params });
    });
  }

  #say(message: object): void {
    this.#child.stdin.write(`${JSON.stringify(message)}\n`);
  }
}

export function textOf(result: ToolResult): string {
  return result.content.map((c) => c.text ?? "").join("\n");
}
