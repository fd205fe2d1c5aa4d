import { useSignal } from "@preact/signals";
import { Icon } from "./icons";
import { current, desk, dialog, place, remove, show, waiting } from "../state/app";
import type { ConversationInfo } from "../state/types";

export function ConversationList() {
  const asking = useSignal("");
  const sorted = [...(desk.value?.conversations ?? [])].sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
  return (
    <aside class="list" aria-label="Conversations">
      <header>
        <img src="/icon.svg" alt="" width="26" height="26" />
        <strong>Lomi</strong>
        <button type="button" class="new" onClick={() => (dialog.value = "new")}>
          <Icon name="plus" /> New
        </button>
      </header>
      <ul>
        {sorted.map((c) => (
          <li key={c.id} class={c.id === current.value && place.value !== "control" ? "chosen" : ""}>
            <button type="button" class="plain title" aria-current={c.id === current.value ? "true" : undefined} onClick={() => void show(c.id)}>
              <span class="name">{c.title || "New conversation"}</span>
              <span class="sub">
                {c.turn ? <span class="working">working</span> : age(c)} · {folderName(c.projectPath)}
              </span>
            </button>
            {asking.value === c.id ? (
              <span class="sure">
                <button type="button" class="danger" onClick={() => void remove(c.id)}>
                  Delete
                </button>
                <button type="button" onClick={() => (asking.value = "")}>
                  Keep
                </button>
              </span>
            ) : (
              <button type="button" class="plain delete" title="Delete" aria-label={`Delete ${c.title || "conversation"}`} onClick={() => (asking.value = c.id)}>
                <Icon name="trash" />
              </button>
            )}
          </li>
        ))}
        {sorted.length === 0 && <li class="empty">No conversation yet.</li>}
      </ul>
      <footer>
        <button type="button" class={`plain wide ${waiting.value > 0 ? "calls" : ""}`} aria-current={place.value === "control" ? "page" : undefined} onClick={() => (place.value = place.value === "control" ? "chat" : "control")}>
          <Icon name="shield" /> Agent control
          {waiting.value > 0 && (
            <span class="count" aria-label={`${waiting.value} waiting`}>
              {waiting.value}
            </span>
          )}
        </button>
        <span class="sub version">Lomi {desk.value?.version}</span>
      </footer>
    </aside>
  );
}

function age(c: ConversationInfo): string {
  const at = new Date(c.updatedAt);
  const today = new Date();
  if (at.toDateString() === today.toDateString()) return at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return at.toLocaleDateString([], { day: "numeric", month: "short" });
}

export function folderName(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? path;
}
