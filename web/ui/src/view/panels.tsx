import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icons";
import { ScreenSocket, type PanelState } from "../net/panel-socket";
import { closePanel, currentInfo, desk, newTerminal, shownPanel } from "../state/app";
import { openTerminal } from "../term/terminal";
import type { Panel, ScreenInput, ScreenMeta } from "../state/types";

/** The terminals and browser pages of the workspace that is shown, side by side with the chat. */
export function Panels() {
  const workspace = currentInfo.value?.workspaceId ?? desk.value?.workspaces[0]?.id ?? "";
  const panels = (desk.value?.panels ?? []).filter((p) => p.workspaceId === workspace);
  const shown = panels.find((p) => p.id === shownPanel.value) ?? panels.at(-1);
  return (
    <aside class="panels" aria-label="Panels">
      <div class="panel-tabs" role="tablist" aria-label="Panels">
        {panels.map((p) => (
          <span class="panel-tab" key={p.id}>
            <button type="button" role="tab" aria-selected={p.id === shown?.id} onClick={() => (shownPanel.value = p.id)}>
              <Icon name={p.kind} /> {p.title || p.kind}
              {p.runtimeState === "exited" && <span class="sub"> ended</span>}
            </button>
            <button type="button" class="plain" aria-label={`Close ${p.title || p.kind}`} onClick={() => void closePanel(p.id)}>
              <Icon name="close" />
            </button>
          </span>
        ))}
        {workspace && (
          <button type="button" class="plain" title="New terminal" aria-label="New terminal" onClick={() => void newTerminal(workspace)}>
            <Icon name="plus" />
          </button>
        )}
      </div>
      {!shown && <p class="hint">Terminals and browser pages that you or an agent open are shown here.</p>}
      {shown?.kind === "terminal" && <TerminalPanel key={shown.id} panel={shown} />}
      {shown?.kind === "browser" && <BrowserPanel key={shown.id} panel={shown} />}
    </aside>
  );
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
    <div class="panel-body terminal" role="tabpanel">
      <div class="xterm-host" ref={ref} />
      {stateWords[state.value] && (
        <p class="panel-state" role="status">
          {stateWords[state.value]}
        </p>
      )}
    </div>
  );
}

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
    <div class="panel-body browser" role="tabpanel">
      <form
        class="address"
        onSubmit={(e) => {
          e.preventDefault();
          act({ type: "navigate", url: address.value });
        }}
      >
        {(["back", "forward", "reload"] as const).map((name) => (
          <button type="button" class="plain" key={name} aria-label={name} title={name} onClick={() => act({ type: "history", key: name })}>
            <Icon name={name} />
          </button>
        ))}
        <input type="text" aria-label="Address" value={address.value} onInput={(e) => (address.value = e.currentTarget.value)} />
      </form>
      <p class="page-title">{meta.value.title}</p>
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
