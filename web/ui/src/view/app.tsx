import { Chat } from "./chat";
import { ConversationList } from "./conversation-list";
import { Control } from "./control";
import { ConnectDialog, NewDialog } from "./dialogs";
import { Icon } from "./icons";
import { Panels } from "./panels";
import { desk, dialog, link, notice, panels, phase, place, waiting, type Place } from "../state/app";

export function App() {
  if (phase.value === "starting") return <p class="center">Opening Lomi…</p>;
  if (phase.value === "login") return <LoginNeeded />;
  if (phase.value === "failed") {
    return (
      <div class="center">
        <Notice />
        <button type="button" class="primary" onClick={() => location.reload()}>
          Try again
        </button>
      </div>
    );
  }
  return (
    <div class="app" data-place={place.value} data-panels={panels.value.length > 0 && place.value !== "control" ? "some" : "none"}>
      <Banner />
      <ConversationList />
      <main class="middle">{place.value === "control" ? <Control /> : <Chat />}</main>
      <Panels />
      <Tabs />
      {dialog.value === "new" && <NewDialog />}
      {dialog.value === "connect" && <ConnectDialog />}
      <Notice />
    </div>
  );
}

function LoginNeeded() {
  return (
    <div class="center">
      <img src="/icon.svg" alt="" width="48" height="48" />
      <h1>This page is not logged in</h1>
      <Notice />
      <p>In a terminal, run</p>
      <pre>lomi open</pre>
      <p>and follow the link that it prints. A link works once, for 2 minutes.</p>
    </div>
  );
}

/** What a person must know on every page: YOLO, a lost link, control turned off. */
function Banner() {
  const d = desk.value;
  if (!d) return null;
  return (
    <div class="banners" role="status">
      {d.yolo && (
        <p class="banner danger">
          <Icon name="shield" /> YOLO is on: every client and every command runs without asking.
        </p>
      )}
      {d.storage && (
        <p class="banner danger">
          <Icon name="cross" /> No effect can be recorded, so none is carried out: {d.storage}
        </p>
      )}
      {d.controlStopped && (
        <p class="banner">
          <Icon name="stop" /> Agent control is off. Nothing can connect or run until you turn it on in Agent control.
        </p>
      )}
      {link.value === "lost" && (
        <p class="banner">
          <Icon name="reload" /> Connecting to Lomi again… If it was stopped, start it with lomi serve.
        </p>
      )}
    </div>
  );
}

function Notice() {
  const n = notice.value;
  if (!n) return null;
  return (
    <div class="notice" role="alert">
      <p>
        <strong>{n.text}</strong> {n.hint}
      </p>
      <button type="button" class="plain" aria-label="Dismiss" onClick={() => (notice.value = null)}>
        <Icon name="close" />
      </button>
    </div>
  );
}

/** The places of a narrow window, one at a time. */
function Tabs() {
  const tab = (name: Place, label: string, icon: string) => (
    <button
      type="button"
      class="tab"
      aria-current={place.value === name ? "page" : undefined}
      onClick={() => (place.value = name)}
    >
      <Icon name={icon} />
      <span>{label}</span>
      {name === "control" && waiting.value > 0 && (
        <span class="count" aria-label={`${waiting.value} waiting`}>
          {waiting.value}
        </span>
      )}
    </button>
  );
  return (
    <nav class="tabs" aria-label="Places">
      {tab("list", "Chats", "menu")}
      {tab("chat", "Chat", "chat")}
      {tab("panels", "Panels", "terminal")}
      {tab("control", "Control", "shield")}
    </nav>
  );
}
