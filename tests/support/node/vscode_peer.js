// An independent peer: vscode-jsonrpc in plain node over a unix socket. Prints what it saw as one JSON object.
// argv: socket path, folder to work in, model of the session.
const net = require("net");
const rpc = require("vscode-jsonrpc/node");

const [socketPath, cwd, model] = process.argv.slice(2);
const seen = { kinds: [], chain: true, desyncs: 0 };
const waiting = [];

function event(kind, wanted = () => true) {
  return new Promise((resolve) => waiting.push({ kind, wanted, resolve }));
}

async function main() {
  const socket = net.createConnection(socketPath);
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(socket),
    new rpc.StreamMessageWriter(socket),
  );
  let last = null;
  connection.onNotification("hermes/desync", () => (seen.desyncs += 1));
  connection.onNotification("hermes/event", (params) => {
    if (last !== null) {
      seen.chain = seen.chain && params.prev === last;
      last = params.seq;
    }
    seen.kinds.push(params.kind);
    for (const one of waiting.filter((w) => w.kind === params.kind && w.wanted(params))) {
      waiting.splice(waiting.indexOf(one), 1);
      one.resolve(params);
    }
  });
  connection.listen();
  // An argument that is undefined would make the params positional.
  const ask = (...given) => connection.sendRequest(...given.filter((argument) => argument !== undefined));
  const refused = (promise) => promise.then(() => null, (error) => ({ code: error.code, kind: error.data?.kind }));

  seen.early = await refused(ask("hermes/daemon/ping", {}));
  const welcome = await ask("initialize", {
    processId: process.pid,
    capabilities: {},
    initializationOptions: {
      hermes: {
        client: { id: "node", name: "vscode-jsonrpc" },
        capabilities: { requests: ["permission"], maxFrameBytes: 16777216 },
      },
    },
  });
  seen.version = welcome.capabilities.experimental.hermes.protocolVersion;
  await connection.sendNotification("initialized", {});
  seen.unknown = await refused(ask("hermes/no/such", {}));
  seen.positional = await refused(connection.sendRequest("hermes/session/get", "a", "b"));

  const { session } = await ask("hermes/session/create", { cwd, model });
  const sessionId = session.sessionId;
  last = (await ask("hermes/session/subscribe", { sessionId })).seq;

  const opened = event("request.opened");
  const ended = event("turn.ended");
  await ask("hermes/turn/submit", { sessionId, key: "1", input: [{ type: "text", text: "run it" }] });
  const { data } = await opened;
  seen.answer = (await ask("hermes/request/answer", {
    requestId: data.requestId,
    answer: { optionId: "allow_once" },
  })).outcome;
  seen.status = (await ended).data.status;

  const source = new rpc.CancellationTokenSource();
  const wait = ask("hermes/session/wait", { sessionId, until: "seq", seq: 1e9 }, source.token);
  source.cancel();
  seen.cancelled = await refused(wait);

  await ask("hermes/session/setOption", { sessionId, id: "model", value: "scripted/words?n=3&context=9000000" });
  const big = "0123456789abcdef 🎈 ".repeat(150000);
  const answered = event("item.completed", (p) => p.data.item.type === "userMessage");
  const over = event("turn.ended");
  await ask("hermes/turn/submit", { sessionId, key: "2", input: [{ type: "text", text: big }] });
  seen.echoed = (await answered).data.item.text === big;
  seen.bytes = Buffer.byteLength(big);
  await over;
  seen.echo = (await ask("hermes/daemon/ping", { echo: big })).echo === big;

  const hang = event("turn.ended");
  await ask("hermes/session/setOption", { sessionId, id: "model", value: "scripted/hang" });
  const { turnId } = await ask("hermes/turn/submit", { sessionId, key: "3", input: [{ type: "text", text: "hang" }] });
  seen.interrupt = (await ask("hermes/turn/interrupt", { sessionId, turnId })).status;
  seen.interrupted = (await hang).data.status;
  seen.shutdown = await ask("shutdown");
  seen.late = await refused(ask("hermes/daemon/ping", {}));
  await connection.sendNotification("exit");
  await new Promise((resolve) => socket.once("close", resolve));
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
