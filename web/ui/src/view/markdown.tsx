// Text of models and tools is hostile. It becomes a tree by marked, is cut down
// to a short list of elements by DOMPurify, and enters the page as nodes. No
// picture loads: an address in an answer is a way to carry a secret out.

import DOMPurify from "dompurify";
import { marked } from "marked";
import { useEffect, useRef } from "preact/hooks";
import { highlight } from "./highlight";

const allowedTags = ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "code", "em", "strong", "del", "a", "table", "thead", "tbody", "tr", "th", "td", "span"];

/** Turns markdown into nodes that are safe to show. Pictures become links. */
export function markdownNodes(text: string): DocumentFragment {
  const renderer = new marked.Renderer();
  renderer.image = ({ href, text: alt }) => `<a href="${escape(href)}">${escape(alt || "picture")} (not loaded: ${escape(href)})</a>`;
  // Raw HTML in an answer is text, whatever it imitates.
  renderer.html = ({ text: raw }) => escape(raw);
  const html = marked.parse(text, { async: false, gfm: true, breaks: true, renderer });
  const nodes = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: allowedTags,
    ALLOWED_ATTR: ["href", "class", "start", "align"],
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const a of nodes.querySelectorAll("a")) {
    const href = a.getAttribute("href");
    if (!href) continue;
    a.setAttribute("rel", "noopener noreferrer nofollow");
    a.setAttribute("target", "_blank");
    a.setAttribute("title", href);
  }
  return nodes;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

export function Markdown({ text, live }: { text: string; live: boolean }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    element.replaceChildren(markdownNodes(text));
    if (live) return; // colour it once, when it is whole
    const stop = new AbortController();
    for (const code of element.querySelectorAll<HTMLElement>("pre > code")) void highlight(code, stop.signal);
    return () => stop.abort();
  }, [text, live]);
  return <div class="markdown" ref={ref} />;
}
