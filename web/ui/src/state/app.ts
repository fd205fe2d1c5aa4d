// The page's state and what a person can do with it. Signals are read by the
// components; only the functions here write them.

import { computed, signal } from "@preact/signals";
import { ApiError, login, request } from "../net/api";
import { EventStream, type Link } from "../net/stream";
import { advance, append, emptyConversation, fold, type Conversation } from "./conversation";
import { foldDesk, type Desk } from "./desk";
import type { AppState, ConversationInfo, Frame, LogEvent, Receipt, Workspace } from "./types";

export type Place = "chat" | "list" | "panels" | "control";
export type Phase = "starting" | "login" | "ready" | "failed";

export const phase = signal<Phase>("starting");
export const link = signal<Link>("connecting");
export const desk = signal<Desk | null>(null);
export const conversation = signal<Conversation>(emptyConversation);
export const current = signal<string>("");
export const place = signal<Place>("chat");
export const shownPanel = signal<string>("");
export const notice = signal<{ text: string; hint: string } | null>(null);
export const dialog = signal<"" | "new" | "connect">("");

export const currentInfo = computed<ConversationInfo | null>(
  () => desk.value?.conversations.find((c) => c.id === current.value) ?? null,
);
export const waiting = computed(() => (desk.value?.pairings.length ?? 0) + (desk.value?.approvals.length ?? 0));

const pageOfEvents = 500;
let stream: EventStream | null = null;

/** Starts the page: redeems a login link if there is one, reads the state, follows the logs. */
export async function start(): Promise<void> {
  const code = /^#login=([0-9a-f]{64})$/.exec(location.hash)?.[1];
  if (code) {
    // The code is worth nothing from here on, and must not stay in the address.
    history.replaceState(null, "", "/");
    try {
      await login(code);
    } catch (error) {
      phase.value = "login";
      tell(error);
      return;
    }
  }
  stream = new EventStream({
    frame: take,
    link: (state) => {
      link.value = state;
      if (state === "refused") phase.value = "login";
    },
    behind: (log) => void readAgain(log),
  });
  if (!(await readState())) return;
  phase.value = "ready";
  stream.connect();
  const last = localStorage.getItem("lomi.conversation");
  const first = desk.value?.conversations.find((c) => c.id === last) ?? desk.value?.conversations[0];
  if (first) await show(first.id);
}

async function readState(): Promise<boolean> {
  try {
    const [state, receipts] = await Promise.all([
      request<AppState>("GET", "/api/state"),
      request<{ receipts: Receipt[] }>("GET", "/api/receipts?limit=100"),
    ]);
    desk.value = { ...state, receipts: receipts.receipts ?? [] };
    stream?.follow("desk", state.deskSeq);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) phase.value = "login";
    else {
      phase.value = "failed";
      tell(error);
    }
    return false;
  }
}

async function readAgain(log: string): Promise<void> {
  if (log === "desk") {
    await readState();
    return;
  }
  const id = log.slice("conversation:".length);
  if (id === current.value) await show(id);
}

function take(frame: Frame): void {
  if (frame.log === "desk") {
    if (frame.event && desk.value) {
      desk.value = foldDesk(desk.value, frame.event);
      followPanels(frame.event);
    }
    return;
  }
  if (frame.log !== `conversation:${current.value}`) return;
  if (frame.event) conversation.value = fold(conversation.value, frame.event);
  for (const piece of frame.snapshot?.parts ?? (frame.delta ? [frame.delta] : [])) {
    const { state, fits } = append(conversation.value, piece);
    conversation.value = state;
    if (!fits) stream?.again(frame.log ?? "");
  }
  if (frame.progress) conversation.value = advance(conversation.value, frame.progress);
  if (frame.status && conversation.value.turn) {
    conversation.value = { ...conversation.value, turn: { ...conversation.value.turn, status: frame.status.state } };
  }
}

/** Brings a panel forward that an agent just opened in the workspace that is shown. */
function followPanels(event: LogEvent): void {
  if (event.kind === "panel.added" && event.data["workspaceId"] === currentInfo.value?.workspaceId) {
    shownPanel.value = String(event.data["id"]);
  }
  if (event.kind === "panel.removed" && event.data["id"] === shownPanel.value) shownPanel.value = "";
}

/** Opens a conversation: all of its log, then what comes. */
export async function show(id: string): Promise<void> {
  if (current.value && current.value !== id) stream?.unfollow(`conversation:${current.value}`);
  current.value = id;
  localStorage.setItem("lomi.conversation", id);
  place.value = "chat";
  let state = emptyConversation;
  try {
    for (;;) {
      const { events } = await request<{ events: LogEvent[] | null }>(
        "GET",
        `/api/conversations/${id}/events?after=${state.seq}&limit=${pageOfEvents}`,
      );
      const page = events ?? [];
      state = page.reduce(fold, state);
      if (page.length < pageOfEvents) break;
    }
  } catch (error) {
    tell(error);
    return;
  }
  if (current.value !== id) return; // another one was opened meanwhile
  conversation.value = state;
  stream?.follow(`conversation:${id}`, state.seq);
}

/** Runs something a person asked for; a refusal is shown in words. */
export async function attempt(f: () => Promise<unknown>): Promise<boolean> {
  try {
    await f();
    notice.value = null;
    return true;
  } catch (error) {
    tell(error);
    return false;
  }
}

function tell(error: unknown): void {
  const known = error instanceof ApiError;
  notice.value = { text: known ? error.message : "Something in this page failed.", hint: known ? error.hint : String(error) };
}

export function send(text: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/conversations/${current.value}/messages`, { text }));
}

export function stop(): Promise<boolean> {
  return attempt(() => request("POST", `/api/conversations/${current.value}/stop`));
}

export function chooseModel(model: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/conversations/${current.value}/settings`, { model }));
}

export function create(path: string, model: string, domains: string[]): Promise<boolean> {
  return attempt(async () => {
    const workspace = await request<Workspace>("POST", "/api/projects", { path });
    const made = await request<ConversationInfo>("POST", "/api/conversations", { workspaceId: workspace.id, model, domains });
    dialog.value = "";
    await show(made.id);
  });
}

export function remove(id: string): Promise<boolean> {
  return attempt(async () => {
    await request("DELETE", `/api/conversations/${id}`);
    if (current.value === id) {
      current.value = "";
      conversation.value = emptyConversation;
      localStorage.removeItem("lomi.conversation");
    }
  });
}

export function answer(id: string, text: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/conversations/${current.value}/answers`, { id, answer: text }));
}

export function decide(id: string, yes: boolean): Promise<boolean> {
  return attempt(() => request("POST", `/api/approvals/${id}`, { answer: yes ? "yes" : "no" }));
}

export interface Grant {
  domains: string[];
  workspaces: string[];
  origins: string[];
  policy: string;
}

export function approvePairing(id: string, grant: Grant): Promise<boolean> {
  return attempt(() => request("POST", `/api/pairings/${id}/approve`, grant));
}

export function rejectPairing(id: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/pairings/${id}/reject`));
}

export function revoke(session: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/sessions/${session}/revoke`));
}

export function setPolicy(session: string, policy: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/sessions/${session}/policy`, { policy }));
}

export function stopControl(): Promise<boolean> {
  return attempt(() => request("POST", "/api/control/stop"));
}

export function resumeControl(): Promise<boolean> {
  return attempt(() => request("POST", "/api/control/resume"));
}

export function newTerminal(workspaceId: string): Promise<boolean> {
  return attempt(() => request("POST", "/api/terminals", { workspaceId }));
}

export function closePanel(id: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/panels/${id}/close`));
}

export interface NewConnection {
  name: string;
  kind: string;
  baseURL: string;
  key: string;
}

export function connect(c: NewConnection): Promise<boolean> {
  return attempt(async () => {
    await request("POST", "/api/models/connect", c);
    await refreshModels();
    dialog.value = "";
  });
}

/** Asks every engine again what it has. */
export async function refreshModels(): Promise<void> {
  const { connections } = await request<{ connections: AppState["connections"] }>("GET", "/api/models");
  if (desk.value) desk.value = { ...desk.value, connections };
}
