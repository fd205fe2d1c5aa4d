// A sign and a word always go together: nothing is told by a sign or a colour
// alone.

const paths: Record<string, string> = {
  folder: "M3 7a1 1 0 011-1h5l2 2h8a1 1 0 011 1v9a1 1 0 01-1 1H4a1 1 0 01-1-1z",
  tool: "M14.5 6.5a4 4 0 00-5.3 5L4 16.7 7.3 20l5.2-5.2a4 4 0 005-5.3l-2.6 2.6-2.9-.6-.6-2.9z",
  down: "M12 5v14M6 13l6 6 6-6",
  more: "M12 19V5M6 11l6-6 6 6",
  person: "M12 12a4 4 0 100-8 4 4 0 000 8zM4.5 20a7.5 7.5 0 0115 0",
  info: "M12 11v6M12 7.5v.5M12 3a9 9 0 100 18 9 9 0 000-18z",
  external: "M14 4h6v6M20 4l-9 9M18 14v5a1 1 0 01-1 1H5a1 1 0 01-1-1V7a1 1 0 011-1h5",
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
  question: "M12 3a9 9 0 100 18 9 9 0 000-18zM9.7 9.6a2.4 2.4 0 113.3 2.2c-.7.3-1 .8-1 1.5M12 16.4v.4",
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
