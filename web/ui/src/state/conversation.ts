// A conversation is a fold over its log: (state, event) -> state. The same
// fixtures are replayed by the Go tests.

import type { LogEvent, Piece, Progress } from "./types";

export interface TextPart {
  kind: "text" | "thinking";
  text: string;
}

export interface UserItem {
  type: "user";
  id: string;
  text: string;
}

export interface ReplyItem {
  type: "reply";
  id: string;
  parts: TextPart[];
  open: boolean;
}

export interface ImageRef {
  mediaType: string;
  artifact: string;
}

export interface CallItem {
  type: "call";
  id: string;
  name: string;
  title: string;
  arguments: unknown;
  state: "running" | "waiting" | "done";
  startedAt: string;
  progress: Progress | null;
  outcome: string;
  isError: boolean;
  text: string;
  images: ImageRef[];
  receipt: string;
  durationMs: number;
}

export interface ApprovalItem {
  type: "approval";
  id: string;
  kind: string;
  summary: string;
  detail: string;
  call: string;
  outcome: string; // "" while it waits
}

export interface QuestionItem {
  type: "question";
  id: string;
  question: string;
  options: string[];
  answer: string | null;
}

export interface EndItem {
  type: "end";
  id: string;
  stopReason: string;
  error: string;
}

/** Something that the person should know and need not act on. */
export interface NoteItem {
  type: "note";
  id: string;
  text: string;
}

export type Item = UserItem | ReplyItem | CallItem | ApprovalItem | QuestionItem | EndItem | NoteItem;

export interface Conversation {
  seq: number;
  title: string;
  model: string;
  items: Item[];
  turn: { id: string; model: string; startedAt: string; status: string } | null;
  usage: { inputTokens: number; outputTokens: number; contextWindow: number } | null;
}

export const emptyConversation: Conversation = { seq: 0, title: "", model: "", items: [], turn: null, usage: null };

/** Applies one event. An event of a kind that is not known changes only the number. */
export function fold(state: Conversation, event: LogEvent): Conversation {
  if (event.seq <= state.seq) return state;
  const step = steps[event.kind];
  const next = step ? step(state, event) : state;
  return { ...next, seq: event.seq };
}

type Step = (state: Conversation, event: LogEvent) => Conversation;

const steps: Record<string, Step> = {
  "conversation.created": (s, e) => ({ ...s, title: str(e.data["title"]), model: str(e.data["model"]) }),
  "conversation.changed": (s, e) => ({
    ...s,
    title: e.data["title"] === undefined ? s.title : str(e.data["title"]),
    model: e.data["model"] === undefined ? s.model : str(e.data["model"]),
  }),
  "message.added": (s, e) => add(s, { type: "user", id: str(e.data["message"]), text: partsText(e.data["parts"]) }),
  "turn.started": (s, e) => ({
    ...s,
    turn: { id: str(e.data["turn"]), model: str(e.data["model"]), startedAt: e.time, status: "" },
  }),
  "turn.ended": (s, e) => {
    const stopReason = str(e.data["stopReason"]);
    const next = { ...s, turn: null, usage: (e.data["usage"] as Conversation["usage"]) ?? s.usage };
    const error = str(e.data["error"]);
    if (stopReason === "end_turn" && error === "") return next;
    return add(next, { type: "end", id: str(e.data["turn"]), stopReason, error });
  },
  "reply.started": (s, e) => add(s, { type: "reply", id: str(e.data["message"]), parts: [], open: true }),
  "text.appended": (s, e) => append(s, e.data as unknown as Piece).state,
  "reply.ended": (s, e) =>
    change(s, "reply", str(e.data["message"]), (reply) => ({ ...reply, open: false, parts: textParts(e.data["parts"]) })),
  "call.started": (s, e) =>
    add(s.turn ? { ...s, turn: { ...s.turn, status: "" } } : s, {
      type: "call",
      id: str(e.data["call"]),
      name: str(e.data["name"]),
      title: str(e.data["title"]),
      arguments: e.data["arguments"],
      state: "running",
      startedAt: e.time,
      progress: null,
      outcome: "",
      isError: false,
      text: "",
      images: [],
      receipt: "",
      durationMs: 0,
    }),
  "call.ended": (s, e) =>
    change(s, "call", str(e.data["call"]), (call) => ({
      ...call,
      state: "done",
      progress: null,
      outcome: str(e.data["outcome"]),
      isError: e.data["isError"] === true,
      text: str(e.data["text"]),
      images: (e.data["images"] as ImageRef[] | undefined) ?? [],
      receipt: str(e.data["receipt"]),
      durationMs: num(e.data["durationMs"]),
    })),
  "approval.requested": (s, e) =>
    add(waits(s, str(e.data["call"]), true), {
      type: "approval",
      id: str(e.data["id"]),
      kind: str(e.data["kind"]),
      summary: str(e.data["summary"]),
      detail: str(e.data["detail"]),
      call: str(e.data["call"]),
      outcome: "",
    }),
  "approval.settled": (s, e) =>
    waits(
      change(s, "approval", str(e.data["id"]), (a) => ({ ...a, outcome: str(e.data["outcome"]) || "settled" })),
      str(e.data["call"]),
      false,
    ),
  "question.asked": (s, e) =>
    add(waits(s, str(e.data["call"]), true), {
      type: "question",
      id: str(e.data["id"]),
      question: str(e.data["question"]),
      options: (e.data["options"] as string[] | undefined) ?? [],
      answer: null,
    }),
  "question.answered": (s, e) => change(s, "question", str(e.data["id"]), (q) => ({ ...q, answer: str(e.data["answer"]) })),
  "context.compacted": (s, e) => add(s, { type: "note", id: String(e.seq), text: str(e.data["note"]) }),
  "notice.added": (s, e) => add(s, { type: "note", id: String(e.seq), text: str(e.data["text"]) }),
};

/**
 * Puts a piece of text where it belongs. fits is false when text before it is
 * missing, and the part has to be asked for again.
 */
export function append(state: Conversation, piece: Piece): { state: Conversation; fits: boolean } {
  const i = lastIndex(state, "reply", piece.message);
  const reply = state.items[i];
  if (reply?.type !== "reply" || !reply.open) return { state, fits: true };
  const part = reply.parts[piece.part] ?? { kind: piece.kind, text: "" };
  const have = byteLength(part.text);
  if (piece.offset > have) return { state, fits: false };
  const added = byteLength(piece.text);
  if (piece.offset + added <= have) return { state, fits: true };
  const text = part.text + dropBytes(piece.text, have - piece.offset);
  const parts = reply.parts.slice();
  for (let n = parts.length; n < piece.part; n++) parts[n] = { kind: "text", text: "" };
  parts[piece.part] = { kind: piece.kind, text };
  return { state: replace(state, i, { ...reply, parts }), fits: true };
}

/** Notes how far a call is. */
export function advance(state: Conversation, progress: Progress): Conversation {
  const i = lastIndex(state, "call", progress.call);
  const call = state.items[i];
  if (call?.type !== "call" || call.state === "done") return state;
  return replace(state, i, { ...call, state: progress.state === "awaiting_user" ? "waiting" : call.state, progress });
}

/** Marks a call as one that waits for the person, or no longer does. */
function waits(state: Conversation, id: string, waiting: boolean): Conversation {
  const i = lastIndex(state, "call", id);
  const call = state.items[i];
  if (call?.type !== "call" || call.state === "done") return state;
  return replace(state, i, { ...call, state: waiting ? "waiting" : "running" });
}

function add(state: Conversation, item: Item): Conversation {
  return { ...state, items: [...state.items, item] };
}

function replace(state: Conversation, i: number, item: Item): Conversation {
  const items = state.items.slice();
  items[i] = item;
  return { ...state, items };
}

function lastIndex(state: Conversation, type: Item["type"], id: string): number {
  return state.items.findLastIndex((item) => item.type === type && item.id === id);
}

function change<T extends Item["type"]>(
  state: Conversation,
  type: T,
  id: string,
  f: (item: Extract<Item, { type: T }>) => Item,
): Conversation {
  const i = lastIndex(state, type, id);
  const item = state.items[i];
  return item ? replace(state, i, f(item as Extract<Item, { type: T }>)) : state;
}

function textParts(parts: unknown): TextPart[] {
  if (!Array.isArray(parts)) return [];
  return (parts as { kind: string; text?: string }[]).map((p) => ({
    kind: p.kind === "thinking" ? "thinking" : "text",
    text: p.kind === "text" || p.kind === "thinking" ? (p.text ?? "") : "",
  }));
}

function partsText(parts: unknown): string {
  return textParts(parts)
    .map((p) => p.text)
    .join("");
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function byteLength(text: string): number {
  return encoder.encode(text).length;
}

function dropBytes(text: string, n: number): string {
  return n <= 0 ? text : decoder.decode(encoder.encode(text).subarray(n));
}

function str(v: unknown): string {
  return typeof v === "string" ? v : "";
}

function num(v: unknown): number {
  return typeof v === "number" ? v : 0;
}
