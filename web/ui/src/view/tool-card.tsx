import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Icon } from "./icons";
import { picture } from "../net/api";
import type { CallItem, ImageRef } from "../state/conversation";

const words: Record<string, { icon: string; text: string }> = {
  ok: { icon: "check", text: "done" },
  error: { icon: "cross", text: "failed" },
  cancelled: { icon: "stop", text: "cancelled" },
  denied: { icon: "cross", text: "not allowed" },
  expired: { icon: "clock", text: "not answered" },
  not_run: { icon: "stop", text: "not run" },
  duplicate: { icon: "stop", text: "not run twice" },
  timed_out: { icon: "clock", text: "timed out" },
  outcome_unknown: { icon: "question", text: "outcome unknown" },
  interrupted: { icon: "stop", text: "interrupted" },
  revoked: { icon: "shield", text: "grant ended" },
};

export interface CallState {
  icon: string;
  text: string;
  tone: "good" | "bad" | "warn" | "quiet";
}

/** How a call stands: a sign, words, and how they are coloured. */
export function stateOf(call: CallItem): CallState {
  if (call.state === "waiting") return { icon: "question", text: "waits for you", tone: "warn" };
  if (call.state === "running") return { icon: "clock", text: "running", tone: "quiet" };
  const word = words[call.outcome] ?? { icon: "check", text: call.outcome || "done" };
  const exit = call.outcome === "ok" ? exitCode(call.text) : null;
  if (exit !== null && exit !== 0) return { icon: "cross", text: `exit code ${exit}`, tone: "bad" };
  const tone = call.outcome === "ok" ? "good" : call.outcome === "error" || call.outcome === "outcome_unknown" ? "bad" : "warn";
  return { ...word, tone };
}

/** The exit code that a terminal's result begins with, null for none. */
export function exitCode(text: string): number | null {
  const m = /^Exit code (-?\d+)\./.exec(text);
  return m?.[1] === undefined ? null : Number(m[1]);
}

const verbs: Record<string, string> = {
  terminal_run: "Run",
  terminal_input: "Type",
  terminal_interrupt: "Interrupt",
  terminal_read: "Read terminal",
  terminal_screen: "Look at the screen",
  terminal_create: "Open terminal",
  browser_open: "Open",
  browser_navigate: "Go to",
  browser_snapshot: "Look at the page",
  browser_click: "Click",
  browser_fill: "Fill",
  browser_select: "Choose",
  browser_screenshot: "Take a picture",
  browser_key: "Press",
  browser_scroll: "Scroll",
  browser_wait: "Wait for",
  ask_user: "Ask you",
};

/** What a call does, in a word or two; a tool that is not known keeps its name. */
export function verb(name: string): string {
  return verbs[name] ?? name.replaceAll("_", " ");
}

function family(name: string): string {
  if (name.startsWith("terminal_")) return "terminal";
  if (name.startsWith("browser_")) return "browser";
  return name === "ask_user" ? "question" : "tool";
}

/** The one thing that a call is about: its command, address or element. */
export function target(args: unknown): string {
  if (typeof args !== "object" || args === null) return "";
  const a = args as Record<string, unknown>;
  for (const name of ["command", "url", "question", "text", "path", "element", "key", "find", "operation", "name", "terminal"]) {
    if (a[name] !== undefined) return name === "element" ? `element ${String(a[name])}` : String(a[name]);
  }
  return "";
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}

/** The end of what a running call printed, as much as a card has room for. */
export function lastLines(text: string): string {
  return text.trimEnd().split("\n").slice(-6).join("\n");
}

export function ToolCard({ call }: { call: CallItem }) {
  const open = useSignal(false);
  const state = stateOf(call);
  const about = target(call.arguments);
  return (
    <article class={`tool ${state.tone}`} aria-label={`Tool ${call.name}`} data-call={call.id}>
      <button type="button" class="plain tool-head" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        <Icon name={family(call.name)} />
        <span class="tool-name">{verb(call.name)}</span>
        <code class="tool-target">{about}</code>
        <span class="tool-state">
          {call.state === "running" ? <span class="spinner" aria-hidden="true" /> : <Icon name={state.icon} />}
          <span>{state.text}</span>
          <Elapsed call={call} />
        </span>
        <Icon name="chevron" />
      </button>
      {call.state !== "done" && call.progress?.tail && <pre class="output live">{lastLines(call.progress.tail)}</pre>}
      {call.images.map((image) => (
        <Picture key={image.artifact} image={image} />
      ))}
      {open.value && (
        <div class="tool-body">
          <h3>
            Asked <code>{call.name}</code>
          </h3>
          <pre class="output">{JSON.stringify(call.arguments, null, 2)}</pre>
          {call.state === "done" && (
            <>
              <h3>Answered</h3>
              <pre class="output" tabIndex={0}>
                {call.text || "(nothing)"}
              </pre>
            </>
          )}
          {call.receipt && (
            <p class="sub">
              Receipt <code>{call.receipt}</code>
            </p>
          )}
        </div>
      )}
    </article>
  );
}

/** How long a call has run or ran. A running one counts by itself: the daemon tells only now and then. */
function Elapsed({ call }: { call: CallItem }) {
  const now = useSignal(0);
  const running = call.state === "running";
  useEffect(() => {
    if (!running) return;
    const began = Date.now() - (call.progress?.elapsedMs ?? Math.max(0, Date.now() - Date.parse(call.startedAt)));
    const tick = () => (now.value = Date.now() - began);
    tick();
    const timer = setInterval(tick, 1000);
    return () => clearInterval(timer);
  }, [running]);
  const ms = running ? now.value : call.durationMs;
  if (call.state === "waiting" || ms < (running ? 1000 : 1)) return null;
  return <span class="elapsed">{running ? `${Math.floor(ms / 1000)} s` : duration(ms)}</span>;
}

function Picture({ image }: { image: ImageRef }) {
  const src = useSignal("");
  const failed = useSignal(false);
  useEffect(() => {
    let gone = false;
    let address = "";
    picture(image.artifact).then(
      (made) => {
        address = made;
        if (gone) URL.revokeObjectURL(made);
        else src.value = made;
      },
      () => (failed.value = true),
    );
    return () => {
      gone = true;
      if (address) URL.revokeObjectURL(address);
    };
  }, [image.artifact]);
  if (failed.value) return <p class="sub shot-gone">The picture is not kept any more.</p>;
  return src.value ? <img class="shot" src={src.value} alt="Screenshot of the page" /> : null;
}
