// What a person decides. A card shows who asks, for what, and for how long;
// its buttons take nothing for half a second after it appeared, because keys
// and clicks meant for something else must not answer it.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Icon } from "./icons";
import { answer, approvePairing, currentInfo, decide, desk, rejectPairing } from "../state/app";
import type { ApprovalItem, QuestionItem } from "../state/conversation";
import type { Approval } from "../state/types";

export const quietMs = 500;

/**
 * A button that does nothing until its card is ready. It can be reached by Tab
 * meanwhile: a button that is disabled would be passed over.
 */
function Answer({ ready, onAnswer, ...rest }: { ready: boolean; onAnswer: () => void; class?: string; disabled?: boolean; children: ComponentChildren }) {
  return <button type="button" {...rest} aria-disabled={!ready} onClick={() => ready && onAnswer()} />;
}

/** False until a card has been on the screen for long enough to be read. */
export function useQuiet(): boolean {
  const ready = useSignal(false);
  useEffect(() => {
    const timer = setTimeout(() => (ready.value = true), quietMs);
    return () => clearTimeout(timer);
  }, []);
  return ready.value;
}

interface CardProps {
  id: string;
  icon: string;
  title: string;
  expires?: string | undefined;
  children: ComponentChildren;
}

export function Card({ id, icon, title, expires, children }: CardProps) {
  return (
    <section class="card decision" role="group" aria-labelledby={`title-${id}`} id={`ask-${id}`} tabIndex={-1}>
      <header>
        <Icon name={icon} />
        <h2 id={`title-${id}`}>{title}</h2>
        {expires && <Remaining until={expires} />}
      </header>
      {children}
    </section>
  );
}

/** How long a question still waits. It is not read out each second. */
function Remaining({ until }: { until: string }) {
  const left = () => Math.max(0, Math.ceil((Date.parse(until) - Date.now()) / 1000));
  const seconds = useSignal(left());
  useEffect(() => {
    const timer = setInterval(() => (seconds.value = left()), 1000);
    return () => clearInterval(timer);
  }, [until]);
  return (
    <span class="remaining" title="Then it counts as not answered, and nothing is done">
      <Icon name="clock" /> {clock(seconds.value)}
    </span>
  );
}

export function clock(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

const outcomes: Record<string, { icon: string; text: string }> = {
  approved: { icon: "check", text: "You allowed it" },
  denied: { icon: "cross", text: "You did not allow it" },
  expired: { icon: "clock", text: "Nobody answered in time" },
};

function Settled({ summary, outcome }: { summary: string; outcome: string }) {
  const o = outcomes[outcome] ?? { icon: "stop", text: "No longer asked" };
  return (
    <p class="settled">
      <Icon name={o.icon} />
      <span>
        <strong>{o.text}</strong> · <span class="sub">{summary}</span>
      </span>
    </p>
  );
}

/** A question of the broker about one exact plan, in the conversation that waits for it. */
export function ApprovalCard({ item }: { item: ApprovalItem }) {
  if (item.outcome !== "") return <Settled summary={item.summary} outcome={item.outcome} />;
  const known = desk.value?.approvals.find((a) => a.id === item.id);
  if (known) return <Decision approval={known} />;
  return (
    <Card id={item.id} icon="shield" title={titles[item.kind] ?? "Allow this?"}>
      <pre class="plan">{item.summary}</pre>
      <YesNo yes="Allow once" onYes={() => void decide(item.id, true)} onNo={() => void decide(item.id, false)} />
    </Card>
  );
}

const titles: Record<string, string> = { origin: "Open a new site?", risk: "Allow this?" };

/** Everything there is to know about a plan, and the answers to it. */
export function Decision({ approval: a, who }: { approval: Approval; who?: string }) {
  const yes = (remember: boolean) => void decide(a.id, true, remember);
  const title = a.kind === "origin" ? "Open a new site?" : a.command ? "Run this command?" : "Allow this?";
  return (
    <Card id={a.id} icon={a.kind === "origin" ? "browser" : "shield"} title={who ? `${who}: ${title.toLowerCase()}` : title} expires={a.expires}>
      <pre class="plan">{a.command || a.origin || a.summary}</pre>
      <p class="sub">
        {a.reason ? `${sentence(a.reason)} ` : ""}
        {a.kind === "origin" ? "Your answer holds for this site until the connection ends." : "Your answer holds for exactly this, once."}
      </p>
      {a.arguments !== undefined && (
        <details class="exact">
          <summary>The exact input of {a.tool}</summary>
          <pre class="output">{JSON.stringify(a.arguments, null, 2)}</pre>
        </details>
      )}
      <YesNo
        yes={a.kind === "origin" ? "Open it" : "Allow once"}
        onYes={() => yes(false)}
        onNo={() => void decide(a.id, false)}
        {...(a.rule ? { rule: a.rule, onAlways: () => yes(true) } : {})}
      />
    </Card>
  );
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

interface YesNoProps {
  yes: string;
  onYes: () => void;
  onNo: () => void;
  rule?: string;
  onAlways?: () => void;
}

export function YesNo({ yes, onYes, onNo, rule, onAlways }: YesNoProps) {
  const ready = useQuiet();
  return (
    <>
      <div class="buttons">
        <Answer ready={ready} onAnswer={onNo}>
          Do not allow
        </Answer>
        <span class="gap" />
        <Answer class="primary" ready={ready} onAnswer={onYes}>
          {yes}
        </Answer>
      </div>
      {rule && onAlways && (
        <Answer class="always" ready={ready} onAnswer={onAlways}>
          <span>
            Allow, and do not ask again for <code>{rule}</code>
          </span>
        </Answer>
      )}
    </>
  );
}

/** The pairing of this conversation's own session. */
export function PairingCard({ item }: { item: ApprovalItem }) {
  if (item.outcome !== "") return <Settled summary={item.summary} outcome={item.outcome} />;
  const info = currentInfo.value;
  const pairing = desk.value?.pairings.find((p) => p.id === item.id);
  return (
    <Card id={item.id} icon="shield" title="Let this conversation act?" expires={pairing?.expires}>
      <p class="lead">The model asks to use tools for the first time. It gets what you allow here, until you end it.</p>
      <GrantForm id={item.id} workspaces={info?.workspaceId ? [info.workspaceId] : []} domains={info?.domains.length ? info.domains : ["terminal", "browser"]} policy={info?.policy} only />
    </Card>
  );
}

const domainWords: Record<string, { icon: string; name: string; text: string }> = {
  terminal: { icon: "terminal", name: "Terminal", text: "open terminals, run commands, read their output" },
  browser: { icon: "browser", name: "Browser", text: "open pages, read them, click and type, take pictures" },
};

const policies: [string, string][] = [
  ["ask_for_risk", "Ask me before anything risky"],
  ["ask_always", "Ask me before every effect"],
  ["grant", "Do not ask: run what is allowed above"],
];

interface GrantProps {
  id: string;
  workspaces: string[];
  domains: string[];
  only?: boolean; // the workspace is clear from where the question is shown
  policy?: string | undefined; // what the conversation was begun with
}

/** Everything that a grant holds, in plain words. */
export function GrantForm({ id, workspaces, domains, only, policy: wanted }: GrantProps) {
  const chosen = useSignal(new Set(domains));
  const where = useSignal(new Set(workspaces));
  const policy = useSignal(wanted || "ask_for_risk");
  const origins = useSignal("");
  const ready = useQuiet();
  const all = (desk.value?.workspaces ?? []).filter((w) => !only || workspaces.includes(w.id));
  const toggle = (set: typeof chosen, value: string) => {
    const next = new Set(set.value);
    if (!next.delete(value)) next.add(value);
    set.value = next;
  };
  const approve = () =>
    approvePairing(id, {
      domains: [...chosen.value],
      workspaces: [...where.value],
      origins: chosen.value.has("browser") ? origins.value.split(/[\s,]+/).filter(Boolean) : [],
      policy: policy.value,
    });
  return (
    <div class="grant">
      <fieldset>
        <legend>It may use</legend>
        {Object.entries(domainWords).map(([name, d]) => (
          <label key={name} class="choice">
            <input type="checkbox" checked={chosen.value.has(name)} onChange={() => toggle(chosen, name)} />
            <Icon name={d.icon} />
            <span>
              {d.name}: <span class="sub">{d.text}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <fieldset>
        <legend>In</legend>
        {all.map((w) => (
          <label key={w.id} class="choice">
            <input type="checkbox" checked={where.value.has(w.id)} onChange={() => toggle(where, w.id)} />
            <Icon name="folder" />
            <code>{w.projectPath}</code>
          </label>
        ))}
        {all.length === 0 && <p class="sub">No project is open. Start a conversation in one first.</p>}
      </fieldset>
      <div class="fields">
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
        {chosen.value.has("browser") && (
          <label class="row">
            Sites it may open without asking
            <input type="text" placeholder="none; for example http://localhost:3000" value={origins.value} onInput={(e) => (origins.value = e.currentTarget.value)} />
          </label>
        )}
      </div>
      <p class="sub">Commands run as you, without a sandbox. You can end this at any time in Agent control.</p>
      <div class="buttons">
        <Answer ready={ready} onAnswer={() => void rejectPairing(id)}>
          Do not allow
        </Answer>
        <span class="gap" />
        <Answer class="primary" ready={ready} disabled={where.value.size === 0 || chosen.value.size === 0} onAnswer={() => void approve()}>
          Allow
        </Answer>
      </div>
    </div>
  );
}

export function QuestionCard({ item }: { item: QuestionItem }) {
  const text = useSignal("");
  const ready = useQuiet();
  if (item.answer !== null) {
    return (
      <p class="settled">
        <Icon name="question" />
        <span>
          {item.question} · <strong>{item.answer === "" ? "Not answered" : item.answer}</strong>
        </span>
      </p>
    );
  }
  return (
    <Card id={item.id} icon="question" title="The model asks you">
      <p class="text lead">{item.question}</p>
      {item.options.length > 0 ? (
        <div class="buttons start">
          {item.options.map((option) => (
            <Answer key={option} ready={ready} onAnswer={() => void answer(item.id, option)}>
              {option}
            </Answer>
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
          <input type="text" class="grow" aria-label="Answer" value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
          <button type="submit" class="primary" disabled={!ready || text.value.trim() === ""}>
            Answer
          </button>
        </form>
      )}
    </Card>
  );
}
