import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Icon } from "./icons";
import { picture } from "../net/api";
import type { CallItem, ImageRef } from "../state/conversation";

const words: Record<string, { icon: string; text: string }> = {
  ok: { icon: "check", text: "done" },
  error: { icon: "cross", text: "failed" },
  cancelled: { icon: "stop", text: "cancelled" },
  denied: { icon: "cross", text: "denied" },
  expired: { icon: "clock", text: "not answered" },
  not_run: { icon: "stop", text: "not run" },
  duplicate: { icon: "stop", text: "not run twice" },
  timed_out: { icon: "clock", text: "timed out" },
  outcome_unknown: { icon: "question", text: "outcome unknown" },
  revoked: { icon: "shield", text: "grant ended" },
};

function stateOf(call: CallItem): { icon: string; text: string } {
  if (call.state === "waiting") return { icon: "question", text: "waits for you" };
  if (call.state === "running") return { icon: "clock", text: "running" };
  return words[call.outcome] ?? { icon: "check", text: call.outcome };
}

/** The one thing that a call is about: its command, address or element. */
export function target(args: unknown): string {
  if (typeof args !== "object" || args === null) return "";
  const a = args as Record<string, unknown>;
  for (const name of ["command", "url", "text", "path", "element", "question", "key", "terminal"]) {
    if (a[name] !== undefined) return name === "element" ? `element ${String(a[name])}` : String(a[name]);
  }
  return "";
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

export function ToolCard({ call }: { call: CallItem }) {
  const open = useSignal(false);
  const state = stateOf(call);
  const elapsed = call.state === "done" ? call.durationMs : (call.progress?.elapsedMs ?? 0);
  return (
    <article class={`tool ${call.state} ${call.isError ? "bad" : ""}`} aria-label={`Tool ${call.name}`}>
      <button type="button" class="plain tool-head" aria-expanded={open.value} onClick={() => (open.value = !open.value)}>
        <Icon name="chevron" />
        <span class="tool-name">{call.title || call.name}</span>
        <code class="tool-target">{target(call.arguments)}</code>
        <span class="tool-state">
          <Icon name={state.icon} /> {state.text}
          {elapsed > 0 && <span class="sub"> {duration(elapsed)}</span>}
        </span>
      </button>
      {call.state !== "done" && call.progress?.tail && <pre class="output live">{call.progress.tail}</pre>}
      {call.images.map((image) => (
        <Picture key={image.artifact} image={image} />
      ))}
      {open.value && (
        <div class="tool-body">
          <h3>Asked</h3>
          <pre class="output">{JSON.stringify(call.arguments, null, 2)}</pre>
          {call.state === "done" && (
            <>
              <h3>Answered</h3>
              <pre class="output">{call.text || "(nothing)"}</pre>
            </>
          )}
          {call.receipt && <p class="sub">Receipt {call.receipt}</p>}
        </div>
      )}
    </article>
  );
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
  if (failed.value) return <p class="sub">The picture is not kept any more.</p>;
  return src.value ? <img class="shot" src={src.value} alt="Screenshot of the page" /> : null;
}
