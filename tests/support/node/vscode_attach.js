// vscode-jsonrpc in plain node attaches to a daemon; see tests/support/counterparty.py.
// argv: socket path, folder, model of the session.
const net = require("net");
const rpc = require("vscode-jsonrpc/node");

const [socketPath, cwd, model] = process.argv.slice(2);
const seen = { kinds: [], chain: true };

async function main() {
  const socket = net.createConnection(socketPath);
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(socket),
    new rpc.StreamMessageWriter(socket),
  );
  const ask = (method, params) => connection.sendRequest(method, params);
  let last = null;
  let ended;
  const over = new Promise((resolve) => (ended = resolve));
  connection.onNotification("hermes/event", ({ kind, prev, seq, data }) => {
    seen.chain = seen.chain && prev === last;
    last = seq;
    seen.kinds.push(kind);
    if (kind === "turn.started") Object.assign(seen, { heard: data.input[0].text, by: data.by.name });
    if (kind === "request.opened") {
      const { requestId, toolCall } = data;
      seen.asked = toolCall.args;
      connection.sendNotification("hermes/request/seen", { requestId });
      ask("hermes/request/answer", { requestId, answer: { optionId: "allow_once" } });
    }
    if (kind === "request.resolved") Object.assign(seen, { outcome: data.outcome, resolvedBy: data.by.name });
    if (kind === "item.completed" && data.item.type === "toolCall") seen.output = data.item.output.text;
    if (kind === "turn.ended") ended(data.status);
  });
  connection.listen();
  const hermes = { client: { id: "node", name: "vscode-jsonrpc" }, capabilities: { requests: ["permission"] } };
  const welcome = await ask("initialize", { processId: process.pid, capabilities: {}, initializationOptions: { hermes } });
  seen.version = welcome.capabilities.experimental.hermes.protocolVersion;
  await connection.sendNotification("initialized", {});
  seen.refused = await ask("hermes/session/get", { sessionId: "none" }).catch((error) => error.data.kind);
  const { session } = await ask("hermes/session/create", { cwd, model });
  const { sessionId } = session;
  const subscribed = await ask("hermes/session/subscribe", { sessionId });
  Object.assign(seen, { mode: subscribed.mode, items: subscribed.snapshot.items.length });
  last = subscribed.seq;
  console.log(JSON.stringify({ session: sessionId }));
  seen.status = await over;
  await connection.sendRequest("shutdown");
  await connection.sendNotification("exit");
  await new Promise((resolve) => socket.once("close", resolve));
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
