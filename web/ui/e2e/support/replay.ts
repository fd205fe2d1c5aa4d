// What an attacker does who holds the cookie: every route, from outside a
// browser, with every header as he likes it, but without the key.

import { createHash, randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { request } from "node:http";
import { fileURLToPath } from "node:url";

/** Every route of the daemon, read from its own table, so that none can be forgotten. */
export function routes(): { method: string; path: string }[] {
  const source = readFileSync(fileURLToPath(new URL("../../../routes.go", import.meta.url)), "utf8");
  return [...source.matchAll(/"(GET|POST|DELETE) (\/(?:api|ws)\/[^"]*)"/g)].map(([, method = "", path = ""]) => ({ method, path }));
}

export interface Answer {
  status: number;
  body: string;
}

export function replay(port: number, method: string, path: string, headers: Record<string, string>): Promise<Answer> {
  return new Promise((done, failed) => {
    const r = request({ host: "127.0.0.1", port, method, path, agent: false, headers: { "content-type": "application/json", ...headers } }, (answer) => {
      let body = "";
      answer.setEncoding("utf8").on("data", (s: string) => (body += s));
      answer.on("end", () => done({ status: answer.statusCode ?? 0, body }));
    });
    r.on("error", failed);
    r.end(method === "POST" ? "{}" : undefined);
  });
}

/** Opens a socket, greets with a key that is none, and gives the close code; 0 when it was not even opened. */
export function replaySocket(port: number, path: string, headers: Record<string, string>): Promise<number> {
  return new Promise((done, failed) => {
    const r = request({
      host: "127.0.0.1",
      port,
      path,
      headers: { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13", "sec-websocket-key": randomBytes(16).toString("base64"), origin: `http://127.0.0.1:${port}`, ...headers },
    });
    r.on("error", failed);
    r.on("response", (answer) => {
      answer.resume();
      done(0);
    });
    r.on("upgrade", (_, socket) => {
      const text = Buffer.from(JSON.stringify({ key: createHash("sha256").update("no key").digest("hex"), subscribe: [{ log: "desk", after: 0 }] }));
      const mask = randomBytes(4);
      const head = text.length < 126 ? Buffer.from([0x81, 0x80 | text.length]) : Buffer.from([0x81, 0xfe, text.length >> 8, text.length & 255]);
      socket.write(Buffer.concat([head, mask, text.map((b, i) => b ^ (mask[i % 4] ?? 0))]));
      let all = Buffer.alloc(0);
      socket.on("data", (b: Buffer) => {
        all = Buffer.concat([all, b]);
        if (all.length < 4) return;
        // The first frame has to be the close, or the socket told something.
        done((all[0] ?? 0) === 0x88 ? all.readUInt16BE(2) : -1);
        socket.destroy();
      });
      socket.on("end", () => done(-1));
    });
    r.end();
  });
}
