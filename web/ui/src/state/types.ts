// What the daemon says, as the page reads it. Kinds and field names are those
// of the Go side.

export interface LogEvent {
  seq: number;
  kind: string;
  time: string;
  data: Record<string, unknown>;
}

export interface Piece {
  message: string;
  part: number;
  kind: "text" | "thinking";
  offset: number; // in bytes of UTF-8
  text: string;
}

export interface Progress {
  call: string;
  state: string;
  elapsedMs: number;
  tail: string;
}

export interface Frame {
  log?: string;
  event?: LogEvent;
  snapshot?: { parts: Piece[] };
  delta?: Piece;
  progress?: Progress;
  status?: { turn: string; state: string };
  behind?: boolean;
  ping?: boolean;
}

export interface Workspace {
  id: string;
  name: string;
  projectId: string;
  projectName: string;
  projectPath: string;
}

export interface Panel {
  id: string;
  workspaceId: string;
  kind: "terminal" | "browser";
  title: string;
  runtimeState: string;
}

export interface ConversationInfo {
  id: string;
  title: string;
  model: string;
  projectPath: string;
  workspaceId: string;
  createdAt: string;
  updatedAt: string;
  lastSeq: number;
  turn?: string;
  domains: string[];
  policy?: string;
}

export interface Pairing {
  id: string;
  label: string; // what the client calls itself
  pid?: number;
  certificateSha256: string;
  requested: string;
  expires: string;
  outcome?: string; // in pairing.settled: approved, rejected, expired
}

export interface Approval {
  id: string; // of the receipt that waits
  kind: "origin" | "risk";
  session: string;
  label: string;
  tool: string;
  title: string;
  workspaceId?: string;
  resource?: string;
  summary: string;
  reason: string;
  command?: string;
  origin?: string;
  rule?: string; // what "do not ask again" would cover
  arguments?: unknown;
  requested: string;
  expires: string;
  outcome?: string; // in approval.settled: approved, denied, expired, withdrawn
}

export interface Session {
  id: string;
  label: string;
  pid?: number;
  opened: string;
  scopes: string[];
  workspaces: string[];
  origins: string[];
  rules: string[]; // commands that no longer ask
  policy: string;
  yolo?: boolean;
  leases: string[]; // resources that it may type or click on
  running: number;
}

export interface Receipt {
  id: string;
  session: string;
  label?: string; // while the session lives
  tool: string;
  title: string;
  summary: string;
  state: string;
  effect: string;
  code?: string;
  message?: string;
  created: string;
  updated: string;
}

/** Who may type or click on a panel now: a session, a person, or nobody. */
export interface Lease {
  resource: string; // "terminal:ID" or "browser:ID"
  session?: string;
  label?: string;
  person?: boolean;
}

export interface ModelInfo {
  name: string;
  window: number; // 0 unknown
  tools: boolean;
  thinking: boolean;
  vision: boolean;
  size?: number; // bytes on disk
  loaded?: boolean;
  remote?: boolean; // what is said to it leaves this machine
  note?: string;
}

export interface Connection {
  name: string;
  kind: string;
  baseURL?: string;
  leavesMachine: boolean;
  hasKey: boolean;
  error?: string;
  models: ModelInfo[];
}

export interface AppState {
  version: string;
  instance: string;
  yolo: boolean;
  controlStopped: boolean;
  storage?: string; // why the ledger takes nothing
  cwd: string;
  deskSeq: number;
  workspaces: Workspace[];
  panels: Panel[];
  connections: Connection[];
  conversations: ConversationInfo[];
  pairings: Pairing[];
  approvals: Approval[];
  sessions: Session[];
}

export interface ScreenMeta {
  url: string;
  title: string;
  width: number;
  height: number;
}

export interface ScreenInput {
  type: "mouse" | "wheel" | "key" | "text" | "navigate" | "history";
  action?: "down" | "up" | "move";
  button?: "left" | "middle" | "right";
  buttons?: number;
  clicks?: number;
  x?: number;
  y?: number;
  deltaX?: number;
  deltaY?: number;
  key?: string;
  code?: string;
  keyCode?: number;
  text?: string;
  url?: string;
  modifiers?: number;
}
