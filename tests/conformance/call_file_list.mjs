// Start a server with the official TypeScript client, call file_list, and print what came.
// The argument is the server as a JSON object: command, args, env, cwd.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const client = new Client({ name: "conformance", version: "1.0.0" });
await client.connect(new StdioClientTransport(JSON.parse(process.argv[2])));

const { tools } = await client.listTools();
const { content } = await client.callTool({
  name: "file_list",
  arguments: { pattern: "*.txt", output_format: "json" },
});
console.log(JSON.stringify({ tools: tools.length, files: JSON.parse(content[0].text).files }));
await client.close();
