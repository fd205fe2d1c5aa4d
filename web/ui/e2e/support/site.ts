// A small site on another port, for the browser panel and for attacks.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Site {
  port: number;
  origin: string;
  close(): Promise<void>;
}

export async function site(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Site> {
  const server: Server = createServer(answer);
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((down) => {
        server.closeAllConnections();
        server.close(() => down());
      }),
  };
}

export function html(response: ServerResponse, body: string): void {
  response.writeHead(200, { "content-type": "text/html; charset=utf-8" });
  response.end(`<!doctype html><html lang="en">${body}</html>`);
}

/** The shop that the guide looks at. */
export function shop(): Promise<Site> {
  return site((_, response) =>
    html(
      response,
      `<head><title>Corner shop</title><style>
        body { font: 18px/1.5 system-ui, "DejaVu Sans", sans-serif; margin: 0; background: #fdf8ef; color: #33291c; }
        header { background: #7a4b1f; color: #fff; padding: 26px 48px; font-size: 30px; font-weight: 700; }
        main { padding: 32px 48px; display: grid; grid-template-columns: repeat(3, 1fr); gap: 24px; }
        article { background: #fff; border: 1px solid #e6d9c4; border-radius: 14px; padding: 22px; }
        b { font-size: 21px; } i { display: block; height: 110px; border-radius: 8px; margin-bottom: 14px; }
        button { font: inherit; padding: 8px 18px; border: 0; border-radius: 8px; background: #7a4b1f; color: #fff; }
      </style></head><body><header>Corner shop</header><main>
        <article><i style="background:#f3c98b"></i><b>Sourdough</b><p>4.20</p><button>Add bread</button></article>
        <article><i style="background:#b8d8a0"></i><b>Pears</b><p>2.80</p><button>Add pears</button></article>
        <article><i style="background:#e5a3a3"></i><b>Jam</b><p>3.50</p><button onclick="document.title='In the basket'">Add jam</button></article>
      </main></body>`,
    ),
  );
}
