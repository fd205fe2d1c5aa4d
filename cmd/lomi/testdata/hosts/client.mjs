// A host made with the TypeScript SDK: it starts the server that its arguments
// name and calls the tools that its input asks for, one JSON line each, all at
// once. Each answer is one line with the same id.
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: 'typescript-sdk', version: '1.32.2' });
await client.connect(new StdioClientTransport({ command, args, stderr: 'inherit' }));
const { tools } = await client.listTools();
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
say({ id: 0, server: client.getServerVersion(), tools: tools.length });

for await (const line of createInterface({ input: process.stdin })) {
  const { id, tool, arguments: input } = JSON.parse(line);
  client.callTool({ name: tool, arguments: input }).then(
    (result) => say({ id, result }),
    (error) => say({ id, error: String(error) }),
  );
}
await client.close();
