import { useSignal } from "@preact/signals";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { ApprovalCard, PairingCard, QuestionCard } from "./approvals";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { ModelPicker, NoEngine } from "./models";
import { ToolCard } from "./tool-card";
import { conversation, current, currentInfo, desk, dialog, draft, loading, model, newTerminal, open, panels, send, setDraft, stop, title, turn, workspace } from "../state/app";
import type { EndItem, Item, ReplyItem } from "../state/conversation";

export function Chat() {
  if (!current.value) return <Welcome />;
  const info = currentInfo.value;
  return (
    <section class="chat" aria-label="Conversation">
      <header class="bar">
        <div class="bar-title">
          <h1>{title.value || info?.title || "New conversation"}</h1>
          <span class="sub path" title={info?.projectPath}>
            {info?.projectPath}
          </span>
        </div>
        <ModelPicker />
        {panels.value.length === 0 && (
          <button type="button" class="plain wide-only" title="Open a terminal" aria-label="Open a terminal" onClick={() => void newTerminal(workspace.value)}>
            <Icon name="terminal" />
          </button>
        )}
      </header>
      <Messages key={current.value} />
      <WaitingBar />
      <Composer key={`composer:${current.value}`} />
      <Announcer />
    </section>
  );
}

function Welcome() {
  const usable = desk.value?.connections.some((c) => c.models.length > 0 && c.kind !== "demo") ?? false;
  return (
    <section class="chat" aria-label="Welcome">
      <div class="messages">
        <div class="welcome">
          <img src="/icon.svg" alt="" width="56" height="56" />
          <h1>What shall we do?</h1>
          <p class="lead">
            Lomi talks with a model that works in your terminals and your browser, beside you. You decide what it may do, you can take over at any moment, and
            every effect leaves a receipt.
          </p>
          {!usable && <NoEngine />}
          <button type="button" class={usable ? "primary large" : "large"} onClick={() => (dialog.value = "new")}>
            <Icon name="plus" /> New conversation
          </button>
        </div>
      </div>
    </section>
  );
}

// How many items are drawn at first, and more of at a time. A conversation of
// thousands opens with the ones that fill the window.
const drawn = 120;

/** The messages, held at the end while the person is there, and left alone when not. */
function Messages() {
  const ref = useRef<HTMLDivElement>(null);
  const away = useSignal(false);
  const count = useSignal(drawn);
  const top = useRef(0);
  const before = useRef<number | null>(null); // height below the top, to keep the place
  const items = conversation.value.items;
  const first = Math.max(0, items.length - count.value);
  // Only a person scrolls up: where we put the view, and where the browser moves
  // it when content shrinks, is noted, so that the event that follows is no sign
  // of a person.
  const settle = () => {
    const element = ref.current;
    if (!element) return;
    if (before.current !== null) {
      element.scrollTop = element.scrollHeight - before.current;
      before.current = null;
    } else if (!away.peek()) element.scrollTop = element.scrollHeight;
    top.current = element.scrollTop;
  };
  useLayoutEffect(settle);
  useEffect(() => {
    const element = ref.current;
    if (!element?.firstElementChild) return;
    const watch = new ResizeObserver(settle);
    watch.observe(element);
    watch.observe(element.firstElementChild);
    return () => watch.disconnect();
  }, []);
  const onScroll = () => {
    const element = ref.current;
    if (!element) return;
    const up = element.scrollTop < top.current - 1;
    top.current = element.scrollTop;
    if (element.scrollHeight - element.scrollTop - element.clientHeight < 80) away.value = false;
    else if (up) away.value = true;
  };
  const earlier = () => {
    const element = ref.current;
    if (element) before.current = element.scrollHeight - element.scrollTop;
    count.value += drawn;
  };
  const end = () => {
    away.value = false;
    settle();
    ref.current?.focus();
  };
  return (
    <div class="scroller">
      <div class="messages" ref={ref} onScroll={onScroll} role="log" aria-live="off" aria-label="Messages" tabIndex={0}>
        <div class="column">
          {first > 0 && (
            <button type="button" class="earlier" onClick={earlier}>
              <Icon name="more" /> Show {Math.min(first, drawn)} earlier of {first}
            </button>
          )}
          {loading.value && <p class="hint">Reading the conversation…</p>}
          {!loading.value && items.length === 0 && <Examples />}
          {items.slice(first).map((item) => (
            <ItemView key={`${item.type}:${item.id}`} item={item} />
          ))}
          <Status items={items} />
        </div>
      </div>
      {away.value && (
        <button type="button" class="to-end" onClick={end} aria-label="Go to the newest message">
          <Icon name="down" /> Newest
        </button>
      )}
    </div>
  );
}

/** What the turn does while nothing else shows it: a card that runs or waits speaks for itself. */
function Status({ items }: { items: Item[] }) {
  const last = items.at(-1);
  const call = items.findLast((i) => i.type === "call");
  if (!turn.value || open.value.length > 0 || (call?.type === "call" && call.state === "running")) return null;
  const writing = last?.type === "reply" && last.open && last.parts.some((p) => p.kind === "text" && p.text !== "");
  return (
    <p class="status">
      <span class="dots" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      {turn.value.status || (writing ? "" : "thinking")}
    </p>
  );
}

function Examples() {
  const guide = model.value.startsWith("demo/");
  const examples = guide
    ? ["run ls -l", "open http://localhost:3000", "what can you do?"]
    : ["Run the tests and tell me what fails.", "Start the dev server and open its page.", "What changed in this project lately?"];
  return (
    <div class="examples">
      <p class="hint">Say what you want done, or start with one of these.</p>
      {examples.map((text) => (
        <button type="button" key={text} onClick={() => setDraft(text)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** Says that something waits when it is out of sight, and leads there. */
function WaitingBar() {
  const seen = useSignal(true);
  const waits = open.value;
  const item = waits[0];
  useEffect(() => {
    const card = item && document.getElementById(`ask-${item.id}`);
    seen.value = card !== null;
    if (!card) return;
    const watch = new IntersectionObserver(([entry]) => (seen.value = entry?.isIntersecting ?? false));
    watch.observe(card);
    return () => watch.disconnect();
  }, [item?.id]);
  if (!item || seen.value) return null;
  const go = () => {
    const card = document.getElementById(`ask-${item.id}`);
    card?.scrollIntoView({ block: "center" });
    card?.focus();
  };
  return (
    <div class="waiting-bar">
      <Icon name={item.type === "question" ? "question" : "shield"} />
      <span>{waits.length === 1 ? "The model waits for your answer." : `${waits.length} questions wait for your answer.`}</span>
      <button type="button" onClick={go}>
        Go to it
      </button>
    </div>
  );
}

/** What happens, for people who hear the page: states, not every word of a stream. */
function Announcer() {
  const was = useRef({ working: false });
  const working = turn.value !== null;
  const asked = open.value.length > 0;
  const last = conversation.peek().items.at(-1);
  let text = "";
  if (asked) text = "The model waits for your answer.";
  else if (working) text = "Working.";
  else if (was.current.working) text = last?.type === "end" ? endings[last.stopReason] ?? "The turn ended." : "The answer is complete.";
  useEffect(() => {
    was.current.working = was.current.working || working;
  }, [working]);
  return (
    <p class="unseen" role="status">
      {text}
    </p>
  );
}

const ItemView = memo(function ItemView({ item }: { item: Item }) {
  switch (item.type) {
    case "user":
      return (
        <article class="message user" aria-label="You">
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
    case "note":
      return (
        <p class="settled">
          <Icon name="info" />
          <span class="sub">{item.text}</span>
        </p>
      );
    case "end":
      return <End item={item} />;
  }
});

function Reply({ item }: { item: ReplyItem }) {
  if (item.parts.every((p) => p.text.trim() === "")) return null;
  return (
    <article class="message reply" aria-label="Lomi">
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
  // What an interrupted turn says of itself is in our own words already.
  const error = item.stopReason === "interrupted" ? "" : item.error;
  return (
    <p class={bad ? "ending bad" : "ending"} role={bad ? "alert" : undefined}>
      <Icon name={bad ? "cross" : "stop"} />
      <span>
        <strong>{endings[item.stopReason] ?? "The turn ended."}</strong> {error.charAt(0).toUpperCase() + error.slice(1)}
      </span>
    </p>
  );
}

function Composer() {
  const busy = useSignal(false);
  const ref = useRef<HTMLTextAreaElement>(null);
  const working = turn.value !== null;
  const text = draft.value;
  useLayoutEffect(() => {
    const element = ref.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [text]);
  const submit = async () => {
    const said = text.trim();
    if (said === "" || busy.value || working) return;
    busy.value = true;
    if (await send(said)) setDraft("");
    busy.value = false;
    ref.current?.focus();
  };
  return (
    <form
      class="composer"
      onSubmit={(e) => {
        e.preventDefault();
        void submit();
      }}
    >
      <div class="box">
        <textarea
          ref={ref}
          aria-label="Message"
          placeholder={working ? "Write the next message" : "Say what you want done"}
          rows={1}
          value={text}
          onInput={(e) => setDraft(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
              e.preventDefault();
              void submit();
            }
          }}
        />
        {working ? (
          <button type="button" class="stop" onClick={() => void stop()}>
            <Icon name="stop" /> Stop
          </button>
        ) : (
          <button type="submit" class="primary" disabled={text.trim() === "" || busy.value}>
            <Icon name="send" /> Send
          </button>
        )}
      </div>
    </form>
  );
}
