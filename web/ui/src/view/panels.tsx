import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icons";
import { ScreenSocket, type PanelState } from "../net/panel-socket";
import { closePanel, desk, newTerminal, panels, shownPanel, workspace } from "../state/app";
import { openTerminal } from "../term/terminal";
import type { Panel, ScreenInput, ScreenMeta } from "../state/types";

/** The terminals and browser pages of the workspace that is shown, side by side with the chat. */
export function Panels() {
  const list = panels.value;
  const shown = list.find((p) => p.id === shownPanel.value) ?? list.at(-1);
  const step = (e: KeyboardEvent) => {
    const by = e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0;
    const to = list[(list.findIndex((p) => p.id === shown?.id) + by + list.length) % list.length];
    if (by === 0 || !to) return;
    e.preventDefault();
    shownPanel.value = to.id;
    document.getElementById(`tab-${to.id}`)?.focus();
  };
  return (
    <aside class="panels" aria-label="Panels">
      <div class="panel-tabs">
        <div class="tablist" role="tablist" aria-label="Panels" onKeyDown={step}>
          {list.map((p) => (
            <span class="panel-tab" key={p.id} role="presentation">
              <button
                type="button"
                role="tab"
                id={`tab-${p.id}`}
                aria-selected={p.id === shown?.id}
                aria-controls="panel-shown"
                tabIndex={p.id === shown?.id ? 0 : -1}
                title={p.title || p.kind}
                onClick={() => (shownPanel.value = p.id)}
              >
                <Icon name={p.kind} />
                <span class="tab-title">{p.title || p.kind}</span>
                {p.runtimeState === "exited" && <span class="sub">ended</span>}
              </button>
              <button type="button" class="plain" aria-label={`Close ${p.title || p.kind}`} title="Close" onClick={() => void closePanel(p.id)}>
                <Icon name="close" />
              </button>
            </span>
          ))}
        </div>
        {workspace.value && (
          <button type="button" class="plain" title="New terminal" aria-label="New terminal" onClick={() => void newTerminal(workspace.value)}>
            <Icon name="plus" />
          </button>
        )}
      </div>
      {!shown && (
        <div class="no-panel">
          <Icon name="terminal" />
          <p>Terminals and browser pages that you or an agent open are shown here.</p>
          {workspace.value && (
            <button type="button" onClick={() => void newTerminal(workspace.value)}>
              Open a terminal
            </button>
          )}
        </div>
      )}
      {shown?.kind === "terminal" && <TerminalPanel key={shown.id} panel={shown} />}
      {shown?.kind === "browser" && <BrowserPanel key={shown.id} panel={shown} />}
      {shown && <Driver panel={shown} />}
    </aside>
  );
}

/** Who may type or click here now. */
function Driver({ panel }: { panel: Panel }) {
  const lease = desk.value?.leases[`${panel.kind}:${panel.id}`];
  const hand = panel.kind === "terminal" ? "Typing" : "Clicking or typing";
  return (
    <p class={`driver ${lease?.session ? "agent" : ""}`} role="status">
      {lease?.session ? (
        <>
          <Icon name="shield" />
          <span>
            <strong>{shortLabel(lease.label ?? "An agent")}</strong> works here. {hand} takes over.
          </span>
        </>
      ) : lease?.person ? (
        <>
          <Icon name="person" />
          <span>
            <strong>You took over.</strong> An agent has to ask for it again.
          </span>
        </>
      ) : (
        <>
          <Icon name="person" />
          <span>Nobody else works here.</span>
        </>
      )}
    </p>
  );
}

/** A label without the number that tells conversations apart. */
export function shortLabel(label: string): string {
  return label.replace(/ ([0-9a-f]{6})[0-9a-f]{26}$/, " $1");
}

const stateWords: Record<PanelState, string> = {
  connecting: "Connecting…",
  open: "",
  ended: "This has ended.",
  lost: "Connecting again…",
};

function TerminalPanel({ panel }: { panel: Panel }) {
  const ref = useRef<HTMLDivElement>(null);
  const state = useSignal<PanelState>("connecting");
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const view = openTerminal(element, panel.id, (s) => (state.value = s));
    return () => view.dispose();
  }, [panel.id]);
  return (
    <div class="panel-body terminal" role="tabpanel" id="panel-shown" aria-labelledby={`tab-${panel.id}`}>
      <div class="xterm-host" ref={ref} />
      {stateWords[state.value] && (
        <p class="panel-state" role="status">
          {stateWords[state.value]}
        </p>
      )}
    </div>
  );
}

const historyWords = { back: "Back", forward: "Forward", reload: "Load again" };
const buttons = ["left", "middle", "right"] as const;

function modifiers(e: MouseEvent | KeyboardEvent): number {
  return (e.altKey ? 1 : 0) | (e.ctrlKey ? 2 : 0) | (e.metaKey ? 4 : 0) | (e.shiftKey ? 8 : 0);
}

function BrowserPanel({ panel }: { panel: Panel }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const socket = useRef<ScreenSocket | null>(null);
  const state = useSignal<PanelState>("connecting");
  const meta = useSignal<ScreenMeta>({ url: "", title: "", width: 1280, height: 800 });
  const address = useSignal("");
  const failure = useSignal("");

  useEffect(() => {
    let drawing = false;
    let latest: Blob | null = null;
    // Decoding is slower than frames may come: only the newest is drawn.
    const draw = async () => {
      if (drawing) return;
      drawing = true;
      while (latest) {
        const frame = latest;
        latest = null;
        const bitmap = await createImageBitmap(frame);
        const target = canvas.current;
        if (target) {
          if (target.width !== bitmap.width || target.height !== bitmap.height) {
            target.width = bitmap.width;
            target.height = bitmap.height;
          }
          target.getContext("2d")?.drawImage(bitmap, 0, 0);
          target.dataset["drawn"] = "true";
        }
        bitmap.close();
      }
      drawing = false;
    };
    const made = new ScreenSocket(panel.id, {
      size: () => ({ width: 1280, height: 800 }),
      frame: (jpeg) => {
        latest = jpeg;
        void draw();
      },
      meta: (m) => {
        meta.value = m;
        address.value = m.url;
      },
      failure: (text) => (failure.value = text),
      state: (s) => (state.value = s),
    });
    socket.current = made;
    made.connect();
    return () => made.close();
  }, [panel.id]);

  const act = (input: ScreenInput) => {
    failure.value = "";
    socket.current?.act(input);
  };
  const at = (e: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box || box.width === 0) return { x: 0, y: 0 };
    return { x: ((e.clientX - box.left) / box.width) * meta.value.width, y: ((e.clientY - box.top) / box.height) * meta.value.height };
  };
  const mouse = (event: "down" | "up" | "move") => (e: MouseEvent) => {
    if (event === "move" && e.buttons === 0) return;
    act({ type: "mouse", action: event, button: buttons[e.button] ?? "left", buttons: e.buttons, clicks: Math.max(1, e.detail), ...at(e), modifiers: modifiers(e) });
  };
  const key = (event: "down" | "up") => (e: KeyboardEvent) => {
    if (e.key === "Tab" && !e.shiftKey) return; // focus can always leave
    e.preventDefault();
    const printable = event === "down" && e.key.length === 1 && !e.ctrlKey && !e.metaKey;
    // keyCode is what the browser behind the panel wants for keys without text.
    act({ type: "key", action: event, key: e.key, code: e.code, keyCode: e.keyCode, text: printable ? e.key : "", modifiers: modifiers(e) });
  };
  return (
    <div class="panel-body browser" role="tabpanel" id="panel-shown" aria-labelledby={`tab-${panel.id}`}>
      <form
        class="address"
        onSubmit={(e) => {
          e.preventDefault();
          act({ type: "navigate", url: address.value });
        }}
      >
        {(["back", "forward", "reload"] as const).map((name) => (
          <button type="button" class="plain" key={name} aria-label={historyWords[name]} title={historyWords[name]} onClick={() => act({ type: "history", key: name })}>
            <Icon name={name} />
          </button>
        ))}
        <input type="text" inputMode="url" spellcheck={false} aria-label="Address" value={address.value} onInput={(e) => (address.value = e.currentTarget.value)} />
      </form>
      {meta.value.title && <p class="page-title">{meta.value.title}</p>}
      <div class="canvas-host">
        <canvas
          ref={canvas}
          tabIndex={0}
          aria-label={`Page ${meta.value.title}. Clicking or typing takes it over from the agent.`}
          onMouseDown={mouse("down")}
          onMouseUp={mouse("up")}
          onMouseMove={mouse("move")}
          onContextMenu={(e) => e.preventDefault()}
          onWheel={(e) => act({ type: "wheel", ...at(e), deltaX: e.deltaX, deltaY: e.deltaY })}
          onKeyDown={key("down")}
          onKeyUp={key("up")}
        />
      </div>
      {(failure.value || stateWords[state.value]) && (
        <p class="panel-state" role="status">
          {failure.value || stateWords[state.value]}
        </p>
      )}
    </div>
  );
}
