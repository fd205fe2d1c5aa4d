// The desk is a fold over the daemon's other log: panels, pairings, approvals,
// sessions, receipts, conversations.

import type { AppState, Approval, ConversationInfo, LogEvent, Pairing, Panel, Receipt, Session, Workspace } from "./types";

export interface Desk extends AppState {
  receipts: Receipt[]; // newest first
}

const keptReceipts = 200;

export function foldDesk(state: Desk, event: LogEvent): Desk {
  if (event.seq <= state.deskSeq) return state;
  const step = steps[event.kind];
  return { ...(step ? step(state, event.data) : state), deskSeq: event.seq };
}

type Step = (state: Desk, data: Record<string, unknown>) => Desk;

const steps: Record<string, Step> = {
  "workspace.added": (s, d) => ({ ...s, workspaces: put(s.workspaces, d as unknown as Workspace) }),
  "workspace.changed": (s, d) => ({ ...s, workspaces: put(s.workspaces, d as unknown as Workspace) }),
  "panel.added": (s, d) => ({ ...s, panels: put(s.panels, d as unknown as Panel) }),
  "panel.changed": (s, d) => ({ ...s, panels: put(s.panels, d as unknown as Panel) }),
  "panel.removed": (s, d) => ({ ...s, panels: drop(s.panels, d) }),
  "pairing.requested": (s, d) => ({ ...s, pairings: put(s.pairings, d as unknown as Pairing) }),
  "pairing.settled": (s, d) => ({ ...s, pairings: drop(s.pairings, d) }),
  "approval.requested": (s, d) => ({ ...s, approvals: put(s.approvals, d as unknown as Approval) }),
  "approval.settled": (s, d) => ({ ...s, approvals: drop(s.approvals, d) }),
  "session.opened": (s, d) => ({ ...s, sessions: put(s.sessions, d as unknown as Session) }),
  "session.changed": (s, d) => ({ ...s, sessions: put(s.sessions, d as unknown as Session) }),
  "session.closed": (s, d) => ({ ...s, sessions: drop(s.sessions, d) }),
  "receipt.changed": (s, d) => ({ ...s, receipts: newest(s.receipts, d as unknown as Receipt) }),
  "conversation.added": (s, d) => ({ ...s, conversations: [d as unknown as ConversationInfo, ...drop(s.conversations, d)] }),
  "conversation.changed": (s, d) => ({ ...s, conversations: put(s.conversations, d as unknown as ConversationInfo) }),
  "conversation.removed": (s, d) => ({ ...s, conversations: drop(s.conversations, d) }),
  "control.changed": (s, d) => ({
    ...s,
    yolo: typeof d["yolo"] === "boolean" ? d["yolo"] : s.yolo,
    controlStopped: typeof d["stopped"] === "boolean" ? d["stopped"] : s.controlStopped,
  }),
};

function put<T extends { id: string }>(list: T[], one: T): T[] {
  const i = list.findIndex((x) => x.id === one.id);
  return i < 0 ? [...list, one] : list.map((x, n) => (n === i ? { ...x, ...one } : x));
}

function drop<T extends { id: string }>(list: T[], data: Record<string, unknown>): T[] {
  return list.filter((x) => x.id !== data["id"]);
}

function newest(list: Receipt[], one: Receipt): Receipt[] {
  const known = list.some((r) => r.id === one.id);
  return known ? put(list, one) : [one, ...list].slice(0, keptReceipts);
}
