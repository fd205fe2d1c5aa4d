// The only importer of xterm.js. Bytes in, bytes out; the emulator answers no
// query of the program (the daemon's own screen does), and nothing that a
// program prints reaches the clipboard, the title or a link handler.

import { FitAddon } from "@xterm/addon-fit";
import { Terminal, type IDisposable } from "@xterm/xterm";
import { TerminalSocket, type PanelState } from "../net/panel-socket";

// Device status, device attributes, colour and window queries: swallowed, or
// the program would get two answers, one of them typed as if by the person.
const csiQueries = [{ final: "n" }, { final: "c" }, { prefix: ">", final: "c" }, { prefix: "?", final: "n" }, { final: "t" }, { prefix: "?", intermediates: "$", final: "p" }, { intermediates: "$", final: "p" }, { prefix: ">", final: "q" }];
const oscQueries = [4, 10, 11, 12, 52];

export interface TerminalView {
  fit(): void;
  focus(): void;
  dispose(): void;
}

/** Shows the terminal of a panel in an element until disposed. */
export function openTerminal(element: HTMLElement, panel: string, onState: (state: PanelState) => void): TerminalView {
  const owned: IDisposable[] = [];
  const term = new Terminal({
    cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
    fontFamily: 'ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace',
    fontSize: 13,
    scrollback: 5_000,
    screenReaderMode: false,
    theme: { background: "#14181a", foreground: "#dfe6e3", cursor: "#f4c95d", selectionBackground: "#3a5a50" },
  });
  const fitter = new FitAddon();
  term.loadAddon(fitter);
  for (const id of csiQueries) owned.push(term.parser.registerCsiHandler(id, () => true));
  for (const id of oscQueries) owned.push(term.parser.registerOscHandler(id, () => true));
  term.open(element);
  // Tests and screen readers find the panel's text by this name.
  element.setAttribute("aria-label", "Terminal");

  let replaying = false;
  const socket = new TerminalSocket(panel, {
    size: () => ({ cols: term.cols, rows: term.rows }),
    reset: () => {
      replaying = true;
      term.reset();
    },
    output: (bytes) =>
      term.write(bytes, () => {
        replaying = false;
      }),
    state: onState,
  });
  owned.push(
    term.onData((data) => {
      if (!replaying) socket.type(data);
    }),
    term.onResize(({ cols, rows }) => socket.resize(cols, rows)),
  );
  const fit = () => {
    if (element.clientWidth > 0 && element.clientHeight > 0) fitter.fit();
  };
  const observer = new ResizeObserver(fit);
  observer.observe(element);
  fit();
  socket.connect();
  return {
    fit,
    focus: () => term.focus(),
    dispose: () => {
      observer.disconnect();
      socket.close();
      for (const one of owned) one.dispose();
      term.dispose();
    },
  };
}
