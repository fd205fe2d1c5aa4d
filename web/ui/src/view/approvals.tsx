// What a person decides. A card shows who asks, for what, and for how long;
// its buttons take nothing for half a second after it appeared, because keys
// and clicks meant for something else must not answer it.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Icon } from "./icons";
import { answer, approvePairing, currentInfo, decide, desk, rejectPairing } from "../state/app";
import type { ApprovalItem, QuestionItem } from "../state/conversation";

const quietMs = 500;

export function useQuiet(): boolean {
  const ready = useSignal(false);
  useEffect(() => {
    const timer = setTimeout(() => (ready.value = true), quietMs);
    return () => clearTimeout(timer);
  }, []);
  return ready.value;
}

const outcomes: Record<string, string> = {
  approved: "You allowed this.",
  denied: "You did not allow this.",
  expired: "Nobody answered in time.",
  cancelled: "This is not asked any more.",
};

function Card({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section class="card" role="group" aria-label={title}>
      <h2>
        <Icon name="shield" /> {title}
      </h2>
      {children}
    </section>
  );
}

export function ApprovalCard({ item }: { item: ApprovalItem }) {
  const title = item.kind === "origin" ? "Open a new site?" : "Allow this?";
  if (item.outcome !== "") return <Settled summary={item.summary} outcome={item.outcome} />;
  return (
    <Card title={title}>
      <pre class="summary">{item.summary}</pre>
      <YesNo onYes={() => void decide(item.id, true)} onNo={() => void decide(item.id, false)} yes="Allow once" />
    </Card>
  );
}

export function YesNo({ yes, onYes, onNo }: { yes: string; onYes: () => void; onNo: () => void }) {
  const ready = useQuiet();
  return (
    <div class="buttons">
      <button type="button" disabled={!ready} onClick={onNo}>
        Do not allow
      </button>
      <button type="button" class="primary" disabled={!ready} onClick={onYes}>
        {yes}
      </button>
    </div>
  );
}

function Settled({ summary, outcome }: { summary: string; outcome: string }) {
  return (
    <p class="ending">
      <Icon name={outcome === "approved" ? "check" : "cross"} /> {summary} — {outcomes[outcome] ?? outcome}
    </p>
  );
}

/** The pairing of this conversation's own session. */
export function PairingCard({ item }: { item: ApprovalItem }) {
  if (item.outcome !== "") return <Settled summary={item.summary} outcome={item.outcome} />;
  const workspace = currentInfo.value?.workspaceId;
  return (
    <Card title="Let this conversation act?">
      <p>{item.summary}</p>
      <GrantForm id={item.id} workspaces={workspace ? [workspace] : []} domains={currentInfo.value?.domains ?? ["terminal", "browser"]} />
    </Card>
  );
}

const domainWords: Record<string, string> = {
  terminal: "Terminal: open terminals, run commands, read their output",
  browser: "Browser: open pages, read them, click and type, take pictures",
};

const policies: [string, string][] = [
  ["ask_for_risk", "Ask me before anything risky"],
  ["ask_always", "Ask me before everything"],
  ["grant", "Do not ask: run what is allowed above"],
];

/** Everything that a grant holds, in plain words. */
export function GrantForm({ id, workspaces, domains }: { id: string; workspaces: string[]; domains: string[] }) {
  const chosen = useSignal(new Set(domains));
  const where = useSignal(new Set(workspaces));
  const policy = useSignal("ask_for_risk");
  const origins = useSignal("");
  const ready = useQuiet();
  const all = desk.value?.workspaces ?? [];
  const toggle = (set: typeof chosen, value: string) => {
    const next = new Set(set.value);
    if (!next.delete(value)) next.add(value);
    set.value = next;
  };
  const approve = () =>
    approvePairing(id, {
      domains: [...chosen.value],
      workspaces: [...where.value],
      origins: origins.value.split(/[\s,]+/).filter(Boolean),
      policy: policy.value,
    });
  return (
    <div class="grant">
      <fieldset>
        <legend>It may use</legend>
        {Object.entries(domainWords).map(([name, text]) => (
          <label key={name}>
            <input type="checkbox" checked={chosen.value.has(name)} onChange={() => toggle(chosen, name)} /> {text}
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>In</legend>
        {all.map((w) => (
          <label key={w.id}>
            <input type="checkbox" checked={where.value.has(w.id)} onChange={() => toggle(where, w.id)} /> {w.projectPath} <span class="sub">{w.name}</span>
          </label>
        ))}
      </fieldset>
      {chosen.value.has("browser") && (
        <label class="row">
          Sites it may open without asking
          <input type="text" placeholder="http://localhost:3000" value={origins.value} onInput={(e) => (origins.value = e.currentTarget.value)} />
        </label>
      )}
      <label class="row">
        While it works
        <select value={policy.value} onChange={(e) => (policy.value = e.currentTarget.value)}>
          {policies.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <p class="sub">Commands run as you, without a sandbox. The grant ends when the connection does, or when you end it in Agent control.</p>
      <div class="buttons">
        <button type="button" disabled={!ready} onClick={() => void rejectPairing(id)}>
          Do not allow
        </button>
        <button type="button" class="primary" disabled={!ready || where.value.size === 0 || chosen.value.size === 0} onClick={() => void approve()}>
          Allow
        </button>
      </div>
    </div>
  );
}

export function QuestionCard({ item }: { item: QuestionItem }) {
  const text = useSignal("");
  const ready = useQuiet();
  if (item.answer !== null) {
    return (
      <p class="ending">
        <Icon name="question" /> {item.question} — <strong>{item.answer}</strong>
      </p>
    );
  }
  return (
    <Card title="The model asks you">
      <p class="text">{item.question}</p>
      {item.options.length > 0 ? (
        <div class="buttons">
          {item.options.map((option) => (
            <button type="button" key={option} disabled={!ready} onClick={() => void answer(item.id, option)}>
              {option}
            </button>
          ))}
        </div>
      ) : (
        <form
          class="buttons"
          onSubmit={(e) => {
            e.preventDefault();
            if (ready && text.value.trim()) void answer(item.id, text.value.trim());
          }}
        >
          <input type="text" aria-label="Answer" value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
          <button type="submit" class="primary" disabled={!ready || text.value.trim() === ""}>
            Answer
          </button>
        </form>
      )}
    </Card>
  );
}
