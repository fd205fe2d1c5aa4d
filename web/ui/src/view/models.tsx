import { useSignal } from "@preact/signals";
import { attempt, chooseModel, create, desk, dialog, model, refreshModels, usage } from "../state/app";
import type { Connection, ModelInfo } from "../state/types";

export function ModelSelect({ value, onChange, label }: { value: string; onChange: (model: string) => void; label: string }) {
  const connections = desk.value?.connections ?? [];
  const known = connections.some((c) => c.models.some((m) => `${c.name}/${m.name}` === value));
  return (
    <select aria-label={label} value={value} onChange={(e) => onChange(e.currentTarget.value)}>
      {!known && value !== "" && <option value={value}>{value} (not there)</option>}
      {connections.map((c) => (
        <optgroup key={c.name} label={groupWords(c)}>
          {c.models.map((m) => (
            <option key={m.name} value={`${c.name}/${m.name}`}>
              {modelWords(c, m)}
            </option>
          ))}
          {c.models.length === 0 && <option disabled>{c.error ? "cannot be reached" : "no model"}</option>}
        </optgroup>
      ))}
    </select>
  );
}

function groupWords(c: Connection): string {
  if (c.kind === "demo") return `${c.name} (no language model)`;
  return c.leavesMachine ? `${c.name} (leaves this machine)` : c.name;
}

/** A model's name with what a person should know before choosing it. */
export function modelWords(c: Connection, m: ModelInfo): string {
  const marks = [];
  if (!m.tools) marks.push("cannot use tools");
  if (m.remote && !c.leavesMachine) marks.push("leaves this machine");
  return `${c.name}/${m.name}${marks.length > 0 ? ` (${marks.join(", ")})` : ""}`;
}

export function ModelPicker() {
  const name = model.value;
  const connection = desk.value?.connections.find((x) => name.startsWith(`${x.name}/`));
  const info = connection?.models.find((m) => `${connection.name}/${m.name}` === name);
  const u = usage.value;
  const used = u && u.contextWindow > 0 ? Math.round((u.inputTokens / u.contextWindow) * 100) : null;
  return (
    <div class="picker">
      {(connection?.leavesMachine || info?.remote) && <span class="mark">leaves this machine</span>}
      {connection?.kind === "demo" && <span class="mark quiet">no language model</span>}
      {used !== null && (
        <span class="sub gauge" title={`${u?.inputTokens} of ${u?.contextWindow} tokens`}>
          <meter min={0} max={100} high={80} value={used} aria-label="The model's window" /> {used} %
        </span>
      )}
      <span title={info?.note}>
        <ModelSelect label="Model" value={name} onChange={(m) => void chooseModel(m)} />
      </span>
    </div>
  );
}

function engineWords(ollama: Connection | undefined): string {
  if (!ollama?.baseURL) return "There is no connection to a model.";
  return ollama.error ? `Ollama does not answer at ${ollama.baseURL}.` : `Ollama answers at ${ollama.baseURL}, and has nothing to run.`;
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
  const answers = ollama !== undefined && !ollama.error;
  const guide = () => void create(desk.value?.workspaces[0]?.projectPath ?? desk.value?.cwd ?? "", "demo/guide", ["terminal", "browser"]);
  return (
    <section class="card" role="group" aria-label="No model engine">
      <h2>{answers ? "Ollama has no model yet" : "No model engine can be reached"}</h2>
      <p class="sub" title={ollama?.error}>
        {engineWords(ollama)} There are three ways on:
      </p>
      <ol class="ways">
        <li>
          <div>
            <strong>{answers ? "Fetch a model" : "Start or install Ollama"}</strong>
            <span class="sub">
              {answers ? "In a terminal: " : "From ollama.com; then fetch a model: "}
              <code>ollama pull qwen3:4b</code>
            </span>
          </div>
          <button type="button" disabled={busy.value} onClick={() => void retry()}>
            {busy.value ? "Looking…" : "Look again"}
          </button>
        </li>
        <li>
          <div>
            <strong>Connect a hosted model</strong>
            <span class="sub">What you say then leaves this machine.</span>
          </div>
          <button type="button" onClick={() => (dialog.value = "connect")}>
            Connect…
          </button>
        </li>
        <li>
          <div>
            <strong>Try the guide</strong>
            <span class="sub">A few fixed phrases and no language model, with the same tools.</span>
          </div>
          <button type="button" class="primary" onClick={guide}>
            Try it
          </button>
        </li>
      </ol>
    </section>
  );
}
