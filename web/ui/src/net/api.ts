// The one way in which the page asks the daemon for something. The key lives in
// localStorage, which a browser binds to the port; the cookie alone, which it
// does not, opens nothing.

const keyName = "lomi.key";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint: string,
  ) {
    super(message);
  }
}

export function pageKey(): string {
  return localStorage.getItem(keyName) ?? "";
}

/** Turns the one-time code of a login link into this page's key. */
export async function login(code: string): Promise<void> {
  const { key } = await request<{ key: string }>("POST", "/api/login", { code });
  localStorage.setItem(keyName, key);
}

export function forgetKey(): void {
  localStorage.removeItem(keyName);
}

/** Sends one request; a refusal is thrown as an ApiError with words for a person. */
export async function request<T>(method: "GET" | "POST" | "DELETE", path: string, body?: unknown): Promise<T> {
  const response = await send(method, path, body);
  const text = await response.text();
  let parsed: unknown = null;
  try {
    parsed = text === "" ? null : JSON.parse(text);
  } catch {
    parsed = null;
  }
  if (!response.ok) throw refusal(response.status, parsed);
  return parsed as T;
}

/** Fetches a picture; the caller revokes the address when it is done with it. */
export async function picture(id: string): Promise<string> {
  const response = await send("GET", `/api/artifacts/${encodeURIComponent(id)}`);
  if (!response.ok) throw refusal(response.status, null);
  return URL.createObjectURL(await response.blob());
}

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  const init: RequestInit = { method, headers: { "X-Lomi-Key": pageKey() }, signal: AbortSignal.timeout(65_000) };
  if (method !== "GET") {
    init.headers = { "X-Lomi-Key": pageKey(), "Content-Type": "application/json" };
    init.body = JSON.stringify(body ?? {});
  }
  try {
    return await fetch(path, init);
  } catch {
    throw new ApiError(0, "unreachable", "Lomi does not answer.", "Is the daemon still running? Start it with lomi serve.");
  }
}

function refusal(status: number, body: unknown): ApiError {
  const error = (body as { error?: { code?: string; message?: string; hint?: string } } | null)?.error;
  return new ApiError(status, error?.code ?? "failed", error?.message ?? `The daemon answered with status ${status}.`, error?.hint ?? "");
}
