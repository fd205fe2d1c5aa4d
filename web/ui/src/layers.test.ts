import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { expect, it } from "vitest";

// Which folder may import which. Imports point down only: what draws may know
// what is stored, never the other way round.
const allowed: Record<string, string[]> = {
  "": ["view", "state"], // main.tsx puts the page together
  view: ["term", "state", "net", "worker"], // net: pictures, and the socket of a screen that is drawn
  term: ["net"], // a terminal owns its socket
  state: ["net"],
  net: ["state/types"], // the words of the wire, no state
  worker: [],
};
// Packages that one folder keeps to itself.
const owners: Record<string, string> = { "@xterm/": "term", dompurify: "view", marked: "view", "highlight.js": "worker" };

const src = import.meta.dirname;
const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((f) => /\.tsx?$/.test(f) && !/\.test\.tsx?$/.test(f));

function imports(file: string): string[] {
  const text = readFileSync(join(src, file), "utf8");
  return [...text.matchAll(/(?:from|import)\s+"([^"]+)"/g), ...text.matchAll(/new URL\("([^"]+)"/g)].map((m) => m[1] ?? "");
}

function folder(path: string): string {
  return path.includes("/") ? (path.split("/")[0] ?? "") : "";
}

it("imports point down only", () => {
  const wrong: string[] = [];
  for (const file of files) {
    const from = folder(file);
    for (const name of imports(file)) {
      if (name.startsWith(".")) {
        if (name.endsWith(".css")) continue;
        const to = relative(src, resolve(src, dirname(file), name));
        const fine = folder(to) === from || (allowed[from] ?? []).some((a) => to === a || to.startsWith(`${a}/`));
        if (!fine) wrong.push(`${file} imports ${to}`);
        continue;
      }
      const owner = Object.entries(owners).find(([p]) => name.startsWith(p));
      if (owner && owner[1] !== from && !name.endsWith(".css")) wrong.push(`${file} imports ${name}, which is ${owner[1]}'s`);
    }
  }
  expect(wrong).toEqual([]);
  expect(files.length).toBeGreaterThan(15);
});

it("no text becomes markup, nobody is asked by a box of the browser, nothing is exported as default", () => {
  const banned = [/\binnerHTML\b/, /\bouterHTML\b/, /insertAdjacentHTML/, /dangerouslySetInnerHTML/, /\b(?:alert|confirm|prompt)\(/, /\beval\(/, /export default/, /: any\b/, /document\.write/];
  const found = files.flatMap((f) => banned.filter((b) => b.test(readFileSync(join(src, f), "utf8"))).map((b) => `${f}: ${b}`));
  expect(found).toEqual([]);
});

it("only net talks to the daemon", () => {
  const found = files.filter((f) => folder(f) !== "net" && /\bfetch\(|new WebSocket\(|XMLHttpRequest|sendBeacon|EventSource/.test(readFileSync(join(src, f), "utf8")));
  expect(found).toEqual([]);
});
