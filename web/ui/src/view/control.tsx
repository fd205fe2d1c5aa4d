import { useSignal } from "@preact/signals";
import { Card, Decision, GrantForm } from "./approvals";
import { Icon } from "./icons";
import { shortLabel } from "./panels";
import { desk, place, resumeControl, revoke, setPolicy, stopControl } from "../state/app";
import type { Pairing, Receipt, Session } from "../state/types";

/** Agent control: who is connected, what waits, what was done, and how to end it. */
export function Control() {
  const d = desk.value;
  if (!d) return null;
  return (
    <section class="control" aria-label="Agent control">
      <header class="bar">
        <div class="bar-title">
          <h1>Agent control</h1>
          <span class="sub">Who may act here, what waits for you, and what was done</span>
        </div>
        {d.controlStopped ? (
          <button type="button" class="primary" onClick={() => void resumeControl()}>
            Turn on
          </button>
        ) : (
          <button type="button" class="stop" onClick={() => void stopControl()}>
            <Icon name="stop" /> Stop everything
          </button>
        )}
        <button type="button" class="wide-only" onClick={() => (place.value = "chat")}>
          Back to the chat
        </button>
      </header>
      <div class="control-body">
        <div class="column">
          <h2>Waiting for you</h2>
          {d.pairings.length + d.approvals.length === 0 && <p class="sub nothing">Nothing waits.</p>}
          {d.pairings.map((p) => (
            <PairingRequest key={p.id} pairing={p} />
          ))}
          {d.approvals.map((a) => (
            <Decision key={a.id} approval={a} who={shortLabel(a.label)} />
          ))}
          <h2>Connected</h2>
          {d.sessions.length === 0 && <p class="sub nothing">Nothing is connected.</p>}
          {d.sessions.map((s) => (
            <SessionCard key={s.id} session={s} />
          ))}
          <h2>What was done</h2>
          <Receipts list={d.receipts} />
        </div>
      </div>
    </section>
  );
}

function PairingRequest({ pairing: p }: { pairing: Pairing }) {
  return (
    <Card id={p.id} icon="shield" title={`${shortLabel(p.label)} wants to connect`} expires={p.expires}>
      <p class="lead">A name proves nothing: allow it only if you started this client just now and it shows the same request number.</p>
      <dl class="facts">
        <dt>Request</dt>
        <dd>
          <code>{p.id}</code>
        </dd>
        {p.pid ? (
          <>
            <dt>Process</dt>
            <dd>
              <code>{p.pid}</code>
            </dd>
          </>
        ) : null}
        <dt>Certificate</dt>
        <dd>
          <code>{p.certificateSha256}</code>
        </dd>
      </dl>
      <GrantForm id={p.id} workspaces={(desk.value?.workspaces ?? []).slice(0, 1).map((w) => w.id)} domains={["terminal", "browser"]} />
    </Card>
  );
}

function SessionCard({ session: s }: { session: Session }) {
  const sure = useSignal(false);
  const paths = (desk.value?.workspaces ?? []).filter((w) => s.workspaces?.includes(w.id)).map((w) => w.projectPath);
  const scopes = s.scopes ?? [];
  const families = [...new Set(scopes.map((x) => x.split(".")[0] ?? ""))].filter((x) => x !== "workspace" && x !== "panel");
  return (
    <article class="card session" aria-label={`Session ${s.label}`}>
      <header>
        <Icon name="shield" />
        <h3>{shortLabel(s.label)}</h3>
        {s.yolo && <span class="mark">YOLO</span>}
        {s.running > 0 && <span class="sub">{s.running} running</span>}
        <span class="sub">since {time(s.opened)}</span>
      </header>
      <dl class="facts">
        <dt>May use</dt>
        <dd>{families.join(", ")}</dd>
        <dt>In</dt>
        <dd>
          {paths.map((p) => (
            <code key={p}>{p}</code>
          ))}
        </dd>
        {(s.origins?.length ?? 0) > 0 && (
          <>
            <dt>Sites</dt>
            <dd>{s.origins.join(", ")}</dd>
          </>
        )}
        {(s.rules?.length ?? 0) > 0 && (
          <>
            <dt>Not asked</dt>
            <dd>
              {s.rules.map((r) => (
                <code key={r}>{r}</code>
              ))}
            </dd>
          </>
        )}
      </dl>
      <details class="exact">
        <summary>All {scopes.length} scopes</summary>
        <p class="sub">{scopes.join(", ")}</p>
      </details>
      <div class="buttons">
        <select aria-label={`When ${shortLabel(s.label)} asks`} value={s.policy} onChange={(e) => void setPolicy(s.id, e.currentTarget.value)}>
          <option value="ask_for_risk">Asks before anything risky</option>
          <option value="ask_always">Asks before every effect</option>
          <option value="grant">Does not ask</option>
        </select>
        <span class="gap" />
        {sure.value ? (
          <>
            <button type="button" onClick={() => (sure.value = false)}>
              Keep it
            </button>
            <button type="button" class="danger" onClick={() => void revoke(s.id)}>
              End it now
            </button>
          </>
        ) : (
          <button type="button" class="danger" onClick={() => (sure.value = true)}>
            End it
          </button>
        )}
      </div>
    </article>
  );
}

const states: Record<string, { icon: string; text: string }> = {
  queued: { icon: "clock", text: "queued" },
  awaiting_user: { icon: "question", text: "waits for you" },
  running: { icon: "clock", text: "running" },
  cancelling: { icon: "clock", text: "cancelling" },
  succeeded: { icon: "check", text: "done" },
  failed: { icon: "cross", text: "failed" },
  cancelled: { icon: "stop", text: "cancelled" },
  outcome_unknown: { icon: "question", text: "outcome unknown" },
};

const effects: Record<string, string> = { none: "none", partial: "in part", complete: "whole", unknown: "unknown" };

function Receipts({ list }: { list: Receipt[] }) {
  const filter = useSignal("");
  const words = filter.value.toLowerCase();
  const shown = list.filter((r) => `${r.tool} ${r.state} ${r.summary} ${r.label ?? ""}`.toLowerCase().includes(words));
  if (list.length === 0) return <p class="sub nothing">Nothing yet. Every effect that happens is listed here.</p>;
  return (
    <>
      {list.length > 5 && <input type="search" class="filter" aria-label="Filter what was done" placeholder="Filter" value={filter.value} onInput={(e) => (filter.value = e.currentTarget.value)} />}
      <ul class="receipts">
        {shown.map((r) => (
          <ReceiptRow key={r.id} receipt={r} />
        ))}
        {shown.length === 0 && <li class="sub">Nothing fits.</li>}
      </ul>
    </>
  );
}

function ReceiptRow({ receipt: r }: { receipt: Receipt }) {
  const state = states[r.state] ?? { icon: "question", text: r.state };
  return (
    <li class={`receipt ${r.state}`}>
      <span class="receipt-state">
        <Icon name={state.icon} /> {state.text}
      </span>
      <code class="receipt-what" title={r.tool}>
        {r.summary || r.title || r.tool}
      </code>
      <span class="sub receipt-who">
        {shortLabel(r.label || "a connection that ended")} · {r.title || r.tool} · effect: {effects[r.effect] ?? r.effect}
        {r.message ? ` · ${r.message}` : ""}
      </span>
      <time class="sub" dateTime={r.created} title={r.id}>
        {time(r.created)}
      </time>
    </li>
  );
}

function time(at: string): string {
  return new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}
