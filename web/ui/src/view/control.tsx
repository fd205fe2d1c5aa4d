import { useSignal } from "@preact/signals";
import { GrantForm, YesNo } from "./approvals";
import { Icon } from "./icons";
import { decide, desk, place, resumeControl, revoke, setPolicy, stopControl } from "../state/app";
import type { Receipt, Session } from "../state/types";

/** Agent control: who is connected, what waits, what was done, and how to end it. */
export function Control() {
  const d = desk.value;
  if (!d) return null;
  return (
    <section class="control" aria-label="Agent control">
      <header class="chat-header">
        <h1>Agent control</h1>
        <div class="buttons">
          {d.controlStopped ? (
            <button type="button" class="primary" onClick={() => void resumeControl()}>
              Turn on
            </button>
          ) : (
            <button type="button" class="stop" onClick={() => void stopControl()}>
              <Icon name="stop" /> Stop everything
            </button>
          )}
          <button type="button" onClick={() => (place.value = "chat")}>
            Back to the chat
          </button>
        </div>
      </header>
      <div class="control-body">
        <h2>Waiting for you</h2>
        {d.pairings.length + d.approvals.length === 0 && <p class="sub">Nothing waits.</p>}
        {d.pairings.map((p) => (
          <section class="card" key={p.id} role="group" aria-label={`Pairing of ${p.label}`}>
            <h2>
              <Icon name="shield" /> {p.label} wants to connect
            </h2>
            <p class="sub">
              Request <code>{p.id}</code>. The client shows the same number; its name proves nothing.
              <br />
              Certificate <code>{p.certificateSha256}</code>
            </p>
            <GrantForm id={p.id} workspaces={d.workspaces.slice(0, 1).map((w) => w.id)} domains={["terminal", "browser"]} />
          </section>
        ))}
        {d.approvals.map((a) => (
          <section class="card" key={a.id} role="group" aria-label="Approval">
            <h2>
              <Icon name="question" /> {a.label} asks
            </h2>
            <pre class="summary">{a.summary}</pre>
            <YesNo yes="Allow once" onYes={() => void decide(a.id, true)} onNo={() => void decide(a.id, false)} />
          </section>
        ))}
        <h2>Connected</h2>
        {d.sessions.length === 0 && <p class="sub">Nothing is connected.</p>}
        {d.sessions.map((s) => (
          <SessionCard key={s.id} session={s} />
        ))}
        <h2>What was done</h2>
        <Receipts list={d.receipts} />
      </div>
    </section>
  );
}

function SessionCard({ session: s }: { session: Session }) {
  const paths = (desk.value?.workspaces ?? []).filter((w) => s.workspaces?.includes(w.id)).map((w) => w.projectPath);
  return (
    <article class="card" aria-label={`Session ${s.label}`}>
      <h2>{s.label}</h2>
      <p class="sub">
        {paths.join(", ")} · {s.scopes?.length ?? 0} scopes{s.origins?.length ? ` · ${s.origins.join(", ")}` : ""}
      </p>
      <details>
        <summary>Scopes</summary>
        <p class="sub">{s.scopes?.join(", ")}</p>
      </details>
      <div class="buttons">
        <select aria-label="Policy" value={s.policy} onChange={(e) => void setPolicy(s.id, e.currentTarget.value)}>
          <option value="ask_for_risk">Asks before anything risky</option>
          <option value="ask_always">Asks before everything</option>
          <option value="grant">Does not ask</option>
        </select>
        <button type="button" class="danger" onClick={() => void revoke(s.id)}>
          End it
        </button>
      </div>
    </article>
  );
}

function Receipts({ list }: { list: Receipt[] }) {
  const filter = useSignal("");
  const shown = list.filter((r) => `${r.tool} ${r.state} ${r.summary} ${r.label}`.toLowerCase().includes(filter.value.toLowerCase()));
  if (list.length === 0) return <p class="sub">Nothing yet. Every effect that happens is listed here.</p>;
  return (
    <>
      <input type="search" aria-label="Filter receipts" placeholder="Filter" value={filter.value} onInput={(e) => (filter.value = e.currentTarget.value)} />
      <div class="table">
        <table>
          <thead>
            <tr>
              <th>When</th>
              <th>Who</th>
              <th>What</th>
              <th>State</th>
              <th>Effect</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((r) => (
              <tr key={r.id}>
                <td>{new Date(r.created).toLocaleTimeString()}</td>
                <td>{r.label}</td>
                <td title={r.id}>{r.summary || r.tool}</td>
                <td class={`state-${r.state}`}>{r.state.replace("_", " ")}</td>
                <td>{r.effect}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
