// Text of models and tools is hostile. It becomes a tree by marked, is cut down
// to a short list of elements by DOMPurify, and enters the page as nodes. No
// picture loads: an address in an answer is a way to carry a secret out.

import { useComputed, useSignal } from "@preact/signals";
import DOMPurify from "dompurify";
import { lexer, parser, Renderer, type Token } from "marked";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { highlight } from "./highlight";

const allowedTags = ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td", "span"];
const options = { gfm: true, breaks: true, renderer: hostile() };

function hostile(): Renderer {
  const renderer = new Renderer();
  renderer.image = ({ href, text }) => `<a href="${escape(href)}">${escape(text || "picture")} (not loaded: ${escape(href)})</a>`;
  // Raw HTML in an answer is text, whatever it imitates.
  renderer.html = ({ text }) => escape(text);
  renderer.checkbox = ({ checked }) => (checked ? "☑ " : "☐ ");
  return renderer;
}

/** Turns markdown into nodes that are safe to show. Pictures become links. */
export function markdownNodes(text: string): DocumentFragment {
  return nodesOf(lexer(text, options));
}

function nodesOf(tokens: Token[]): DocumentFragment {
  const nodes = DOMPurify.sanitize(parser(tokens, options), {
    ALLOWED_TAGS: allowedTags,
    ALLOWED_ATTR: ["href", "class", "start", "align"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const element of nodes.querySelectorAll("[class]")) {
    // Only the language of a code block: a class of the page's own would dress
    // an answer up as a card of ours.
    const language = element.localName === "code" ? /language-[\w+#-]+/.exec(element.className)?.[0] : undefined;
    if (language) element.className = language;
    else element.removeAttribute("class");
  }
  for (const a of nodes.querySelectorAll("a")) {
    const href = a.getAttribute("href");
    // A second look at what the sanitiser let pass: only addresses that a click
    // may leave for, and never one relative to this page.
    if (!href || !/^(?:https?:\/\/|mailto:)/i.test(href)) {
      a.removeAttribute("href");
      continue;
    }
    a.setAttribute("rel", "noopener noreferrer nofollow");
    a.setAttribute("target", "_blank");
    a.setAttribute("title", href);
  }
  return nodes;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/**
 * Shows markdown block by block, so that a growing answer redraws only its last
 * block and a selection in the others survives.
 */
export function Markdown({ text, live }: { text: string; live: boolean }) {
  const blocks = lexer(text, options).filter((t) => t.type !== "space" && t.type !== "def");
  return (
    <div class="markdown">
      {blocks.map((token, i) =>
        token.type === "code" ? (
          <CodeBlock key={i} code={String(token["text"])} language={String(token["lang"] ?? "")} live={live && i === blocks.length - 1} />
        ) : (
          <Block key={i} token={token} raw={token.raw} live={live} />
        ),
      )}
    </div>
  );
}

// Reference links may be defined at the end: when the text is whole, every
// block is drawn once more.
const Block = memo(
  function Block({ token }: { token: Token; raw: string; live: boolean }) {
    const ref = useRef<HTMLDivElement>(null);
    // Before it is painted: a block that is empty for a moment makes the page jump.
    useLayoutEffect(() => ref.current?.replaceChildren(nodesOf([token])), [token]);
    return <div class="block" ref={ref} />;
  },
  (a, b) => a.raw === b.raw && a.live === b.live,
);

const CodeBlock = memo(function CodeBlock({ code, language, live }: { code: string; language: string; live: boolean }) {
  const ref = useRef<HTMLElement>(null);
  const copied = useSignal(false);
  const label = useComputed(() => (copied.value ? "Copied" : "Copy"));
  const name = /^[\w+#-]*/.exec(language)?.[0] ?? "";
  useLayoutEffect(() => {
    if (ref.current) ref.current.textContent = code;
  }, [code]);
  useEffect(() => {
    const element = ref.current;
    if (!element || live) return; // it is coloured once, when it is whole
    const stop = new AbortController();
    void highlight(element, name, stop.signal);
    return () => stop.abort();
  }, [code, live]);
  const copy = () =>
    void navigator.clipboard.writeText(code).then(
      () => (copied.value = true),
      () => (copied.value = false),
    );
  return (
    <div class="code">
      <div class="code-tools">
        {name !== "" && name !== "text" && <span>{name}</span>}
        <button type="button" class="plain" onClick={copy} onBlur={() => (copied.value = false)}>
          {label}
        </button>
      </div>
      <pre tabIndex={0}>
        <code ref={ref} />
      </pre>
    </div>
  );
});
