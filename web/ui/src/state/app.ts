// The page's state and what a person can do with it. Signals are read by the
// components; only the functions here write them.

import { computed, effect, signal } from "@preact/signals";
import { ApiError, login, request } from "../net/api";
import { EventStream, type Link } from "../net/stream";
import { advance, append, emptyConversation, fold, type Conversation } from "./conversation";
import { foldDesk, openDesk, type Desk } from "./desk";
import type { AppState, ConversationInfo, Frame, LogEvent, Receipt, Workspace } from "./types";

export type Place = "chat" | "list" | "panels" | "control";
export type Phase = "starting" | "login" | "ready" | "failed";

export const phase = signal<Phase>("starting");
export const link = signal<Link>("connecting");
export const desk = signal<Desk | null>(null);
export const conversation = signal<Conversation>(emptyConversation);
export const current = signal<string>("");
export const loading = signal(false);
export const place = signal<Place>("chat");
export const shownPanel = signal<string>(sessionStorage.getItem("lomi.panel") ?? "");
export const notice = signal<{ text: string; hint: string } | null>(null);
export const dialog = signal<"" | "new" | "connect">("");
/** What is typed and not sent, by conversation: neither a reload nor a look elsewhere loses it. */
export const draft = signal("");

export const currentInfo = computed<ConversationInfo | null>(
  () => desk.value?.conversations.find((c) => c.id === current.value) ?? null,
);
export const waiting = computed(() => (desk.value?.pairings.length ?? 0) + (desk.value?.approvals.length ?? 0));
// Components that need one of these are not drawn again for each piece of text.
export const turn = computed(() => conversation.value.turn);
export const title = computed(() => conversation.value.title);
export const model = computed(() => conversation.value.model);
export const usage = computed(() => conversation.value.usage);
/** The workspace whose panels are shown. */
export const workspace = computed(() => currentInfo.value?.workspaceId || desk.value?.workspaces[0]?.id || "");
export const panels = computed(() => (desk.value?.panels ?? []).filter((p) => p.workspaceId === workspace.value));
/** What waits for an answer in the conversation that is shown: approvals and questions, oldest first. */
export const open = computed(() =>
  conversation.value.items.filter((i) => (i.type === "approval" && i.outcome === "") || (i.type === "question" && i.answer === null)),
);

const pageOfEvents = 1000;
const lastShown = "lomi.conversation";
let stream: EventStream | null = null;

// A reload shows the panel that was looked at.
effect(() => sessionStorage.setItem("lomi.panel", shownPanel.value));

/** Starts the page: redeems a login link if there is one, reads the state, follows the logs. */
export async function start(): Promise<void> {
  // A link that is opened in a tab which shows the page already.
  window.addEventListener("hashchange", () => {
    if (location.hash.startsWith("#login=")) location.reload();
  });
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
  stream = new EventStream({ frame: take, link: linked, behind: (log) => void readAgain(log) });
  if (!(await readState())) return;
  phase.value = "ready";
  stream.connect();
  const last = localStorage.getItem(lastShown);
  const first = desk.value?.conversations.find((c) => c.id === last) ?? newest(desk.value?.conversations ?? []);
  if (first) await show(first.id, false);
}

/** The conversation in which something happened last. */
export function newest(list: ConversationInfo[]): ConversationInfo | undefined {
  return list.reduce<ConversationInfo | undefined>((best, c) => (!best || c.updatedAt > best.updatedAt ? c : best), undefined);
}

function linked(state: Link): void {
  const again = state === "open" && link.value === "lost";
  link.value = state;
  if (state === "refused") phase.value = "login";
  // The desk's log begins anew with each daemon, and its numbers with it: after
  // a gap the state is the truth. Conversations go on from their last event.
  if (again) {
    notice.value = null; // it said that Lomi does not answer
    void readState();
  }
}

async function readState(): Promise<boolean> {
  try {
    const [state, receipts] = await Promise.all([
      request<AppState>("GET", "/api/state"),
      request<{ receipts: Receipt[] }>("GET", "/api/receipts?limit=100"),
    ]);
    desk.value = openDesk(state, receipts.receipts);
    stream?.follow("desk", state.deskSeq);
    return true;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) phase.value = "login";
    else if (!desk.value) {
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
  if (id === current.value) await show(id, false);
}

function take(frame: Frame): void {
  if (frame.log === "desk") {
    if (frame.event && desk.value) takeDesk(frame.event);
    return;
  }
  if (frame.log !== `conversation:${current.value}`) return;
  if (frame.event) conversation.value = fold(conversation.value, frame.event);
  if (frame.delta && conversation.value.turn?.status) setStatus(""); // whatever it waited for has come
  for (const piece of frame.snapshot?.parts ?? (frame.delta ? [frame.delta] : [])) {
    const { state, fits } = append(conversation.value, piece);
    conversation.value = state;
    if (!fits) stream?.again(frame.log ?? "");
  }
  if (frame.progress) conversation.value = advance(conversation.value, frame.progress);
  if (frame.status) setStatus(frame.status.state);
}

function setStatus(status: string): void {
  const c = conversation.value;
  if (c.turn) conversation.value = { ...c, turn: { ...c.turn, status } };
}

function takeDesk(event: LogEvent): void {
  if (!desk.value) return;
  desk.value = foldDesk(desk.value, event);
  const id = String(event.data["id"] ?? "");
  switch (event.kind) {
    case "panel.added": // what an agent opens comes forward
      if (event.data["workspaceId"] === workspace.value) shownPanel.value = id;
      break;
    case "panel.removed":
      if (id === shownPanel.value) shownPanel.value = "";
      break;
    case "receipt.changed": // and so does what this conversation works in
      if (event.data["state"] === "running" && String(event.data["label"] ?? "").endsWith(` ${current.value}`)) bringForward(String(event.data["resource"] ?? ""));
      break;
    case "models.changed":
      refreshModels().catch(tell);
      break;
    case "conversation.removed":
      if (id === current.value) leave();
  }
}

function bringForward(resource: string): void {
  // Never away from under the hands of a person who works in a panel.
  if (document.activeElement?.closest(".panels")) return;
  const panel = panels.value.find((p) => `${p.kind}:${p.id}` === resource);
  if (panel) shownPanel.value = panel.id;
}

/** Opens a conversation: all of its log, then what comes. */
export async function show(id: string, go = true): Promise<void> {
  if (current.value !== id) {
    if (current.value) stream?.unfollow(`conversation:${current.value}`);
    current.value = id;
    conversation.value = emptyConversation;
    draft.value = sessionStorage.getItem(draftName(id)) ?? "";
    loading.value = true;
  }
  localStorage.setItem(lastShown, id);
  if (go) place.value = "chat";
  const state = await readLog(id);
  if (current.value !== id) return; // another one was opened meanwhile
  loading.value = false;
  if (!state) return;
  conversation.value = state;
  stream?.follow(`conversation:${id}`, state.seq);
}

async function readLog(id: string): Promise<Conversation | null> {
  let state = emptyConversation;
  try {
    for (;;) {
      const { events } = await request<{ events: LogEvent[] | null }>(
        "GET",
        `/api/conversations/${id}/events?after=${state.seq}&limit=${pageOfEvents}`,
      );
      const page = events ?? [];
      state = page.reduce(fold, state);
      if (page.length < pageOfEvents) return state;
    }
  } catch (error) {
    if (error instanceof ApiError && error.status === 404 && current.value === id) leave();
    else tell(error);
    return null;
  }
}

/** Shows no conversation. */
function leave(): void {
  if (current.value) stream?.unfollow(`conversation:${current.value}`);
  current.value = "";
  conversation.value = emptyConversation;
  loading.value = false;
  localStorage.removeItem(lastShown);
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

function draftName(id: string): string {
  return `lomi.draft.${id}`;
}

export function setDraft(text: string): void {
  draft.value = text;
  if (text === "") sessionStorage.removeItem(draftName(current.value));
  else sessionStorage.setItem(draftName(current.value), text);
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
    const made = await request<Workspace>("POST", "/api/projects", { path });
    const begun = await request<ConversationInfo>("POST", "/api/conversations", { workspaceId: made.id, model, domains });
    dialog.value = "";
    await show(begun.id);
  });
}

export function remove(id: string): Promise<boolean> {
  return attempt(async () => {
    await request("DELETE", `/api/conversations/${id}`);
    sessionStorage.removeItem(draftName(id));
    if (current.value === id) leave();
  });
}

export function answer(id: string, text: string): Promise<boolean> {
  return attempt(() => request("POST", `/api/conversations/${current.value}/answers`, { id, answer: text }));
}

export function decide(id: string, yes: boolean, remember = false): Promise<boolean> {
  return attempt(() => request("POST", `/api/approvals/${id}`, { answer: yes ? "yes" : "no", ...(remember ? { remember } : {}) }));
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
  if (desk.value) desk.value = { ...desk.value, connections: connections.map((c) => ({ ...c, models: c.models ?? [] })) };
}
