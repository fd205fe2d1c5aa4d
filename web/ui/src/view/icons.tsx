// A sign and a word always go together: nothing is told by a sign or a colour
// alone.

const paths: Record<string, string> = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  send: "M5 12h13M13 6l6 6-6 6",
  stop: "M7 7h10v10H7z",
  terminal: "M5 7l5 5-5 5M12 17h7",
  browser: "M4 6h16v12H4zM4 10h16",
  shield: "M12 3l7 3v5c0 5-3 8-7 10-4-2-7-5-7-10V6z",
  close: "M6 6l12 12M18 6L6 18",
  chevron: "M9 6l6 6-6 6",
  check: "M5 12l5 5 9-10",
  cross: "M7 7l10 10M17 7L7 17",
  clock: "M12 7v5l3 3M12 3a9 9 0 100 18 9 9 0 000-18z",
  question: "M9.5 9a2.5 2.5 0 113.5 2.3c-.7.4-1 .9-1 1.7M12 17v.5",
  trash: "M5 7h14M9 7V4h6v3M7 7l1 13h8l1-13",
  back: "M15 6l-6 6 6 6",
  forward: "M9 6l6 6-6 6",
  reload: "M19 12a7 7 0 11-2-5M19 4v4h-4",
  chat: "M4 5h16v11H9l-5 4z",
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round">
      <path d={paths[name] ?? ""} />
    </svg>
  );
}
