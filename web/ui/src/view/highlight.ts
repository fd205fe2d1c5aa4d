import DOMPurify from "dompurify";

// Longer blocks stay plain: nobody reads colour in them, and a regular
// expression must not keep a core busy.
const longest = 30_000;

let worker: Worker | null = null;
let next = 0;
const asked = new Map<number, (html: string | null) => void>();

function ask(language: string, code: string): Promise<string | null> {
  worker ??= start();
  const id = next++;
  return new Promise((resolve) => {
    asked.set(id, resolve);
    worker?.postMessage({ id, language, code });
  });
}

function start(): Worker {
  const w = new Worker(new URL("../worker/highlight.ts", import.meta.url), { type: "module" });
  w.onmessage = (event: MessageEvent<{ id: number; html: string | null }>) => {
    asked.get(event.data.id)?.(event.data.html);
    asked.delete(event.data.id);
  };
  return w;
}

/** Colours one code element in place, unless it is gone by then. */
export async function highlight(code: HTMLElement, language: string, signal: AbortSignal): Promise<void> {
  const text = code.textContent ?? "";
  if (!language || language === "text" || text.length > longest) return;
  const html = await ask(language, text);
  if (html === null || signal.aborted) return;
  code.replaceChildren(DOMPurify.sanitize(html, { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true }));
}
