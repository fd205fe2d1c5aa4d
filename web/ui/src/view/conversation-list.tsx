import { Icon } from "./icons";
import { current, desk, dialog, place, remove, show, waiting } from "../state/app";
import { useSignal } from "@preact/signals";

export function ConversationList() {
  const asking = useSignal("");
  const list = desk.value?.conversations ?? [];
  const sorted = [...list].sort((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
  return (
    <aside class="list" aria-label="Conversations">
      <header>
        <img src="/icon.svg" alt="" width="24" height="24" />
        <strong>Lomi</strong>
        <button type="button" class="plain" title="New conversation" aria-label="New conversation" onClick={() => (dialog.value = "new")}>
          <Icon name="plus" />
        </button>
      </header>
      <ul>
        {sorted.map((c) => (
          <li key={c.id} class={c.id === current.value ? "chosen" : ""}>
            <button type="button" class="plain title" aria-current={c.id === current.value ? "true" : undefined} onClick={() => void show(c.id)}>
              <span class="name">{c.title || "New conversation"}</span>
              <span class="sub">
                {c.turn ? "working · " : ""}
                {folderName(c.projectPath)} · {c.model}
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
              <button type="button" class="plain delete" aria-label={`Delete ${c.title || "conversation"}`} onClick={() => (asking.value = c.id)}>
                <Icon name="trash" />
              </button>
            )}
          </li>
        ))}
        {sorted.length === 0 && <li class="empty">No conversation yet.</li>}
      </ul>
      <footer>
        <button type="button" class="plain wide" aria-current={place.value === "control" ? "page" : undefined} onClick={() => (place.value = place.value === "control" ? "chat" : "control")}>
          <Icon name="shield" /> Agent control
          {waiting.value > 0 && <span class="count">{waiting.value}</span>}
        </button>
        <span class="sub">Lomi {desk.value?.version}</span>
      </footer>
    </aside>
  );
}

export function folderName(path: string): string {
  return path.split("/").filter(Boolean).at(-1) ?? path;
}
