import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icons";
import { ModelSelect } from "./models";
import { connect, create, desk, dialog } from "../state/app";

function Dialog({ title, children }: { title: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = ref.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={ref} aria-label={title} onClose={() => (dialog.value = "")}>
      <header>
        <h2>{title}</h2>
        <button type="button" class="plain" aria-label="Close" onClick={() => ref.current?.close()}>
          <Icon name="close" />
        </button>
      </header>
      {children}
    </dialog>
  );
}

/** The model that a new conversation starts with: a real one before the guide. */
function firstModel(): string {
  const connections = desk.value?.connections ?? [];
  const real = connections.find((c) => c.kind !== "demo" && c.models.length > 0) ?? connections.find((c) => c.models.length > 0);
  const tools = real?.models.find((m) => m.tools) ?? real?.models[0];
  return real && tools ? `${real.name}/${tools.name}` : "demo/guide";
}

export function NewDialog() {
  const path = useSignal(desk.value?.workspaces[0]?.projectPath ?? desk.value?.cwd ?? "");
  const model = useSignal(firstModel());
  const domains = useSignal(new Set(["terminal", "browser"]));
  const busy = useSignal(false);
  const toggle = (name: string) => {
    const next = new Set(domains.value);
    if (!next.delete(name)) next.add(name);
    domains.value = next;
  };
  const submit = async () => {
    busy.value = true;
    await create(path.value.trim(), model.value, [...domains.value]);
    busy.value = false;
  };
  return (
    <Dialog title="New conversation">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        <label class="row">
          Project folder
          <input type="text" required list="projects" value={path.value} onInput={(e) => (path.value = e.currentTarget.value)} />
          <datalist id="projects">
            {[...new Set((desk.value?.workspaces ?? []).map((w) => w.projectPath))].map((p) => (
              <option key={p} value={p} />
            ))}
          </datalist>
        </label>
        <label class="row">
          Model
          <ModelSelect label="Model for the conversation" value={model.value} onChange={(m) => (model.value = m)} />
        </label>
        <p class="sub">
          <button type="button" class="plain link" onClick={() => (dialog.value = "connect")}>
            Connect another model…
          </button>
        </p>
        <fieldset>
          <legend>Tools to offer</legend>
          {["terminal", "browser"].map((name) => (
            <label key={name} class="choice">
              <input type="checkbox" checked={domains.value.has(name)} onChange={() => toggle(name)} />
              <Icon name={name} />
              <span>{name === "terminal" ? "Terminal" : "Browser"}</span>
            </label>
          ))}
          <p class="sub">Nothing is allowed yet: you are asked when the model first uses one.</p>
        </fieldset>
        <div class="buttons">
          <button type="submit" class="primary" disabled={busy.value || path.value.trim() === ""}>
            Start
          </button>
        </div>
      </form>
    </Dialog>
  );
}

export function ConnectDialog() {
  const name = useSignal("openai");
  const kind = useSignal("openai");
  const url = useSignal("");
  const key = useSignal("");
  const busy = useSignal(false);
  const submit = async () => {
    busy.value = true;
    await connect({ name: name.value.trim(), kind: kind.value, baseURL: url.value.trim(), key: key.value });
    key.value = "";
    busy.value = false;
  };
  return (
    <Dialog title="Connect a model">
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void submit();
        }}
      >
        <label class="row">
          Kind
          <select value={kind.value} onChange={(e) => (kind.value = e.currentTarget.value)}>
            <option value="openai">OpenAI</option>
            <option value="openai-compatible">Any OpenAI-compatible server (vLLM, llama.cpp, LM Studio)</option>
            <option value="ollama">Ollama on another address</option>
          </select>
        </label>
        <label class="row">
          Name
          <input type="text" required pattern="[A-Za-z0-9_-]{1,40}" value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} />
        </label>
        {kind.value !== "openai" && (
          <label class="row">
            Address
            <input type="url" required placeholder="http://127.0.0.1:8000/v1" value={url.value} onInput={(e) => (url.value = e.currentTarget.value)} />
          </label>
        )}
        {kind.value !== "ollama" && (
          <label class="row">
            Key
            <input type="password" autocomplete="off" required={kind.value === "openai"} value={key.value} onInput={(e) => (key.value = e.currentTarget.value)} />
          </label>
        )}
        <p class="sub">The key is kept in this computer's key store, or only until Lomi stops. What you say to a hosted model leaves this machine.</p>
        <div class="buttons">
          <button type="submit" class="primary" disabled={busy.value}>
            Connect
          </button>
        </div>
      </form>
    </Dialog>
  );
}
