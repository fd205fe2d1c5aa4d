import { useSignal } from "@preact/signals";
import { attempt, chooseModel, conversation, desk, dialog, refreshModels } from "../state/app";
import type { Connection } from "../state/types";

/** Every model there is, by connection; a model that leaves this machine says so. */
export function modelOptions(connections: Connection[]): { connection: Connection; names: string[] }[] {
  return connections.map((connection) => ({ connection, names: connection.models.map((m) => `${connection.name}/${m.name}`) }));
}

export function ModelSelect({ value, onChange, label }: { value: string; onChange: (model: string) => void; label: string }) {
  const groups = modelOptions(desk.value?.connections ?? []);
  const known = groups.some((g) => g.names.includes(value));
  return (
    <select aria-label={label} value={value} onChange={(e) => onChange(e.currentTarget.value)}>
      {!known && value !== "" && <option value={value}>{value} (not there)</option>}
      {groups.map(({ connection, names }) => (
        <optgroup key={connection.name} label={groupLabel(connection)}>
          {names.map((name) => (
            <option key={name} value={name}>
              {name === "demo/guide" ? "demo/guide (no language model)" : name}
            </option>
          ))}
          {names.length === 0 && <option disabled>{connection.error ?? "no model"}</option>}
        </optgroup>
      ))}
    </select>
  );
}

function groupLabel(c: Connection): string {
  return c.leavesMachine ? `${c.name} — leaves this machine` : c.name;
}

export function ModelPicker() {
  const c = conversation.value;
  const connection = desk.value?.connections.find((x) => c.model.startsWith(`${x.name}/`));
  const info = connection?.models.find((m) => `${connection.name}/${m.name}` === c.model);
  const used = c.usage && c.usage.contextWindow > 0 ? Math.round((c.usage.inputTokens / c.usage.contextWindow) * 100) : null;
  return (
    <div class="picker">
      <ModelSelect label="Model" value={c.model} onChange={(m) => void chooseModel(m)} />
      {connection?.leavesMachine && <span class="mark">leaves this machine</span>}
      {used !== null && (
        <span class="sub" title={`${c.usage?.inputTokens} of ${c.usage?.contextWindow} tokens`}>
          window {used} % full
        </span>
      )}
      {info?.note && <span class="sub">{info.note}</span>}
    </div>
  );
}

/** What a person can do when no model answers. */
export function NoEngine() {
  const busy = useSignal(false);
  const ollama = desk.value?.connections.find((c) => c.kind === "ollama");
  const retry = async () => {
    busy.value = true;
    await attempt(refreshModels);
    busy.value = false;
  };
  return (
    <div class="card" role="group" aria-label="No model engine">
      <h2>No model engine can be reached</h2>
      <p class="sub">{ollama?.error ?? "There is no connection to a model."}</p>
      <ol>
        <li>
          Start Ollama, or install it from ollama.com, then fetch a model: <code>ollama pull qwen3:4b</code>{" "}
          <button type="button" disabled={busy.value} onClick={() => void retry()}>
            {busy.value ? "Looking…" : "Look again"}
          </button>
        </li>
        <li>
          <button type="button" onClick={() => (dialog.value = "connect")}>
            Connect a hosted model
          </button>{" "}
          <span class="sub">What you say then leaves this machine.</span>
        </li>
        <li>
          Try the guide: start a conversation with <code>demo/guide</code>. It is no language model, and uses the same tools.
        </li>
      </ol>
    </div>
  );
}
