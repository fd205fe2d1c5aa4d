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
  updatedAt: string;
  lastSeq: number;
  turn?: string;
  domains?: string[];
}

export interface Pairing {
  id: string;
  label: string;
  certificateSha256: string;
  expires: string;
}

export interface Approval {
  id: string;
  kind: string;
  summary: string;
  session: string;
  label: string;
  tool: string;
  expires: string;
}

export interface Session {
  id: string;
  label: string;
  scopes: string[];
  workspaces: string[];
  origins: string[];
  policy: string;
  opened: string;
}

export interface Receipt {
  id: string;
  tool: string;
  state: string;
  effect: string;
  summary: string;
  label: string;
  session: string;
  created: string;
  message?: string;
}

export interface ModelInfo {
  name: string;
  window: number;
  tools: boolean;
  thinking: boolean;
  vision: boolean;
  note?: string;
}

export interface Connection {
  name: string;
  kind: string;
  baseURL?: string;
  leavesMachine: boolean;
  error?: string;
  models: ModelInfo[];
}

export interface AppState {
  version: string;
  instance: string;
  yolo: boolean;
  controlStopped: boolean;
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
