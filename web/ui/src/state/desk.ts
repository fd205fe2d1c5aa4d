// The desk is a fold over the daemon's other log: panels, pairings, approvals,
// sessions, receipts, conversations.

import type { AppState, Approval, ConversationInfo, Lease, LogEvent, Pairing, Panel, Receipt, Session, Workspace } from "./types";

export interface Desk extends AppState {
  receipts: Receipt[]; // newest first
  leases: Record<string, Lease>; // by resource
}

/** The desk as the daemon states it, before any event. Lists that Go leaves out are empty. */
export function openDesk(state: AppState, receipts: Receipt[]): Desk {
  const leases: Record<string, Lease> = {};
  for (const s of state.sessions ?? []) for (const resource of s.leases ?? []) leases[resource] = { resource, session: s.id, label: s.label };
  return {
    ...state,
    workspaces: state.workspaces ?? [],
    panels: state.panels ?? [],
    connections: (state.connections ?? []).map((c) => ({ ...c, models: c.models ?? [] })),
    conversations: state.conversations ?? [],
    pairings: state.pairings ?? [],
    approvals: state.approvals ?? [],
    sessions: state.sessions ?? [],
    receipts: receipts ?? [],
    leases,
  };
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
  "lease.changed": (s, d) => ({ ...s, leases: lease(s.leases, d as unknown as Lease) }),
  "conversation.added": (s, d) => ({ ...s, conversations: [d as unknown as ConversationInfo, ...drop(s.conversations, d)] }),
  "conversation.changed": (s, d) => ({ ...s, conversations: put(s.conversations, d as unknown as ConversationInfo) }),
  "conversation.removed": (s, d) => ({ ...s, conversations: drop(s.conversations, d) }),
  "control.changed": (s, d) => ({
    ...s,
    yolo: typeof d["yolo"] === "boolean" ? d["yolo"] : s.yolo,
    controlStopped: typeof d["stopped"] === "boolean" ? d["stopped"] : s.controlStopped,
    storage: typeof d["storage"] === "string" ? d["storage"] : "",
  }),
};

// A lease that nobody holds is gone, unless a person took it: that is worth
// showing until an agent has it again.
function lease(all: Record<string, Lease>, one: Lease): Record<string, Lease> {
  const { [one.resource]: _, ...others } = all;
  return one.session || one.person ? { ...others, [one.resource]: one } : others;
}

// Events carry the whole of a thing: a field that is gone from it is gone.
function put<T extends { id: string }>(list: T[], one: T): T[] {
  const i = list.findIndex((x) => x.id === one.id);
  return i < 0 ? [...list, one] : list.map((x, n) => (n === i ? one : x));
}

function drop<T extends { id: string }>(list: T[], data: Record<string, unknown>): T[] {
  return list.filter((x) => x.id !== data["id"]);
}

function newest(list: Receipt[], one: Receipt): Receipt[] {
  const known = list.some((r) => r.id === one.id);
  return known ? put(list, one) : [one, ...list].slice(0, keptReceipts);
}
