import { useSignal } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect, useRef } from "preact/hooks";
import { ApprovalCard, PairingCard, QuestionCard } from "./approvals";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { ModelPicker, NoEngine } from "./models";
import { ToolCard } from "./tool-card";
import { conversation, current, currentInfo, desk, dialog, send, stop } from "../state/app";
import type { EndItem, Item, ReplyItem } from "../state/conversation";

export function Chat() {
  const c = conversation.value;
  if (!current.value) return <Welcome />;
  return (
    <section class="chat" aria-label="Conversation">
      <header class="chat-header">
        <div>
          <h1>{c.title || "New conversation"}</h1>
          <span class="sub">{currentInfo.value?.projectPath}</span>
        </div>
        <ModelPicker />
      </header>
      <Messages />
      <Composer />
    </section>
  );
}

function Welcome() {
  const usable = desk.value?.connections.some((c) => c.models.length > 0 && c.kind !== "demo") ?? false;
  return (
    <section class="chat">
      <div class="messages">
        <div class="welcome">
          <h1>What shall we do?</h1>
          <p>Lomi talks with a model that works in your terminals and browser. You decide what it may do, and every effect has a receipt.</p>
          {!usable && <NoEngine />}
          <button type="button" class="primary" onClick={() => (dialog.value = "new")}>
            New conversation
          </button>
        </div>
      </div>
    </section>
  );
}

/** The messages, held at the end while the person is there, and left alone when not. */
function Messages() {
  const ref = useRef<HTMLDivElement>(null);
  const atEnd = useRef(true);
  const c = conversation.value;
  useEffect(() => {
    atEnd.current = true;
  }, [current.value]);
  useEffect(() => {
    const element = ref.current;
    if (element && atEnd.current) element.scrollTop = element.scrollHeight;
  });
  const onScroll = () => {
    const element = ref.current;
    if (element) atEnd.current = element.scrollHeight - element.scrollTop - element.clientHeight < 60;
  };
  return (
    <div class="messages" ref={ref} onScroll={onScroll} role="log" aria-live="polite" aria-label="Messages" tabIndex={0}>
      {c.items.length === 0 && <p class="hint">Say what you want done. For example: “run the tests and tell me what fails”.</p>}
      {c.items.map((item) => (
        <ItemView key={`${item.type}:${item.id}`} item={item} />
      ))}
      {c.turn && (
        <p class="status" role="status">
          <span class="dots" aria-hidden="true" /> {c.turn.status || "thinking"}
        </p>
      )}
    </div>
  );
}

const ItemView = memo(function ItemView({ item }: { item: Item }) {
  switch (item.type) {
    case "user":
      return (
        <article class="message user">
          <h2 class="who">You</h2>
          <p class="text">{item.text}</p>
        </article>
      );
    case "reply":
      return <Reply item={item} />;
    case "call":
      return <ToolCard call={item} />;
    case "approval":
      return item.kind === "pairing" ? <PairingCard item={item} /> : <ApprovalCard item={item} />;
    case "question":
      return <QuestionCard item={item} />;
    case "end":
      return <End item={item} />;
  }
});

function Reply({ item }: { item: ReplyItem }) {
  if (!item.open && item.parts.every((p) => p.text.trim() === "")) return null;
  return (
    <article class="message reply">
      <h2 class="who">Lomi</h2>
      {item.parts.map((part, i) =>
        part.text.trim() === "" ? null : part.kind === "thinking" ? (
          <details key={i} class="thinking" open={item.open && i === item.parts.length - 1}>
            <summary>Thinking</summary>
            <p class="text">{part.text}</p>
          </details>
        ) : (
          <Markdown key={i} text={part.text} live={item.open} />
        ),
      )}
    </article>
  );
}

const endings: Record<string, string> = {
  cancelled: "You stopped this turn.",
  interrupted: "This turn was interrupted: Lomi was stopped while it ran. Say “go on” to continue.",
  budget: "This turn reached its budget. Say “go on” to continue.",
  max_steps: "This turn took as many steps as one may. Say “go on” to continue.",
  max_tokens: "The answer was cut off at the model's limit.",
  refusal: "The model refused to answer.",
  failed: "This turn failed.",
};

function End({ item }: { item: EndItem }) {
  const bad = item.stopReason === "failed";
  return (
    <p class={bad ? "ending bad" : "ending"} role={bad ? "alert" : undefined}>
      <Icon name={bad ? "cross" : "stop"} /> {endings[item.stopReason] ?? ""} {item.error}
    </p>
  );
}

function Composer() {
  const text = useSignal("");
  const busy = useSignal(false);
  const turn = conversation.value.turn;
  const submit = async () => {
    const said = text.value.trim();
    if (said === "" || busy.value || turn) return;
    busy.value = true;
    if (await send(said)) text.value = "";
    busy.value = false;
  };
  return (
    <form
      class="composer"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <textarea
        aria-label="Message"
        placeholder="Say what you want done"
        rows={Math.min(8, Math.max(1, text.value.split("\n").length))}
        value={text.value}
        onInput={(e) => (text.value = e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
            e.preventDefault();
            void submit();
          }
        }}
      />
      {turn ? (
        <button type="button" class="stop" onClick={() => void stop()}>
          <Icon name="stop" /> Stop
        </button>
      ) : (
        <button type="submit" class="primary" disabled={text.value.trim() === "" || busy.value}>
          <Icon name="send" /> Send
        </button>
      )}
    </form>
  );
}
