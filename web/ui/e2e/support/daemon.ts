// The real daemon, in folders of its own, and its admin socket: what a test
// prepares goes through there, what it checks goes through the page.

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(fileURLToPath(new URL("../../../..", import.meta.url)));
export const binary = process.env["LOMI_BIN"] ?? join(root, "bin", "lomi");

export interface LogEvent {
  seq: number;
  kind: string;
  data: Record<string, unknown>;
}

interface Ready {
  url: string;
  loginURL: string;
  adminSocket: string;
  pid: number;
}

/** Waits for something that no page shows, with a deadline. */
export async function until<T>(what: string, look: () => T | Promise<T>, within = 20_000): Promise<NonNullable<T>> {
  const end = Date.now() + within;
  for (;;) {
    const seen = await look();
    if (seen) return seen as NonNullable<T>;
    if (Date.now() > end) throw new Error(`waited ${within / 1000} s for ${what}`);
    await new Promise((again) => setTimeout(again, 25));
  }
}

export class Daemon {
  readonly dir = realpathSync(mkdtempSync(join(tmpdir(), "lomi-e2e-")));
  readonly project = join(this.dir, "shop");
  #child: ChildProcess | null = null;
  #ready: Ready | null = null;
  #log = "";

  static async start(env: Record<string, string> = {}): Promise<Daemon> {
    const d = new Daemon(env);
    mkdirSync(d.project);
    await d.up();
    return d;
  }

  private constructor(private readonly env: Record<string, string>) {}

  get flags(): string[] {
    return ["--data", join(this.dir, "data"), "--config", join(this.dir, "config")];
  }

  get url(): string {
    return this.#about.url;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  get pid(): number {
    return this.#about.pid;
  }

  get #about(): Ready {
    if (!this.#ready) throw new Error("the daemon does not run");
    return this.#ready;
  }

  /** Starts it on a port of its own, or on the one that it had before. */
  async up(listen = "127.0.0.1:0"): Promise<void> {
    const file = join(this.dir, "ready.json");
    rmSync(file, { force: true });
    const child = spawn(binary, ["serve", ...this.flags, "--listen", listen, "--no-open", "--ready-file", file], {
      cwd: this.dir,
      // An address where no Ollama is, so that every machine shows the same.
      env: { ...process.env, OLLAMA_HOST: "127.0.0.1:9", ...this.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (b: Buffer) => (this.#log = (this.#log + b.toString()).slice(-20_000)));
    await until("the ready file", () => {
      if (child.exitCode !== null) throw new Error(`lomi serve ended with ${child.exitCode}:\n${this.#log}`);
      return existsSync(file);
    });
    this.#ready = JSON.parse(readFileSync(file, "utf8")) as Ready;
  }

  /** Ends it in order, or with a signal that leaves it no time. */
  async down(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((done) => child.once("exit", done));
    child.kill(signal);
    await gone;
  }

  async close(): Promise<void> {
    await this.down();
    rmSync(this.dir, { recursive: true, force: true, maxRetries: 5 });
  }

  /** Asks at the admin socket, which shares the page's routes. */
  async api<T>(method: "GET" | "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
    const socketPath = this.#about.adminSocket;
    return new Promise<T>((done, failed) => {
      const r = httpRequest({ socketPath, method, path, headers: { host: "lomi", "content-type": "application/json" } }, (answer) => {
        let text = "";
        answer.setEncoding("utf8").on("data", (s: string) => (text += s));
        answer.on("end", () => {
          if ((answer.statusCode ?? 500) >= 400) failed(new Error(`${method} ${path}: ${answer.statusCode} ${text}`));
          else done(JSON.parse(text || "{}") as T);
        });
      });
      r.on("error", failed);
      r.end(method === "GET" ? undefined : JSON.stringify(body ?? {}));
    });
  }

  /** A login link that was not used yet. */
  async link(): Promise<string> {
    return (await this.api<{ url: string }>("POST", "/api/login-links")).url;
  }

  /** Begins a conversation with the guide in the project. */
  async conversation(): Promise<string> {
    const workspace = await this.api<{ id: string }>("POST", "/api/projects", { path: this.project });
    const made = await this.api<{ id: string }>("POST", "/api/conversations", {
      workspaceId: workspace.id,
      model: "demo/guide",
      domains: ["terminal", "browser"],
    });
    return made.id;
  }

  /** Says something and waits until the turn has ended. */
  async say(conversation: string, text: string): Promise<void> {
    const { turn } = await this.api<{ turn: string }>("POST", `/api/conversations/${conversation}/messages`, { text });
    await this.ended(conversation, turn);
  }

  async ended(conversation: string, turn: string): Promise<void> {
    await until("the end of a turn", async () => (await this.api<{ turn?: string }>("GET", `/api/conversations/${conversation}`)).turn !== turn);
  }

  async events(conversation: string): Promise<LogEvent[]> {
    const { events } = await this.api<{ events: LogEvent[] | null }>("GET", `/api/conversations/${conversation}/events?limit=1000`);
    return events ?? [];
  }

  /** Says yes to the pairing of a conversation's session as soon as it is asked for. */
  async grant(policy = "grant", origins: string[] = []): Promise<void> {
    const { id } = await until("a pairing", async () => (await this.api<{ pairings: { id: string }[] }>("GET", "/api/pairings")).pairings[0]);
    const { workspaces } = await this.api<{ workspaces: { id: string }[] }>("GET", "/api/state");
    await this.api("POST", `/api/pairings/${id}/approve`, { domains: ["terminal", "browser"], workspaces: workspaces.map((w) => w.id), origins, policy });
  }
}
