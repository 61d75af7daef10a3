// A web client: the WebSocket of node itself, or of the package ws. Prints what it saw as one JSON object.
// argv: builtin|ws, URL, token, folder to work in, model of the session.
const [kind, url, token, cwd, model] = process.argv.slice(2);
const WebSocketOf = kind === "builtin" ? globalThis.WebSocket : require("ws");
const seen = { kinds: [], chain: true, binary: false };
const waiting = [];
const answers = new Map();
let last = null;
let next = 0;

const event = (kind, wanted = () => true) =>
  new Promise((resolve) => waiting.push({ kind, wanted, resolve }));

async function main() {
  const socket = new WebSocketOf(url, ["hermes", `token.${token}`]);
  socket.addEventListener("message", ({ data }) => {
    seen.binary = seen.binary || typeof data !== "string";
    const message = JSON.parse(data);
    if (message.id !== undefined) {
      const { resolve, reject } = answers.get(message.id);
      message.error ? reject(new Error(JSON.stringify(message.error))) : resolve(message.result);
    } else if (message.method === "hermes/event") {
      const { params } = message;
      if (last !== null) {
        seen.chain = seen.chain && params.prev === last;
        last = params.seq;
      }
      seen.kinds.push(params.kind);
      for (const one of waiting.filter((w) => w.kind === params.kind && w.wanted(params))) {
        waiting.splice(waiting.indexOf(one), 1);
        one.resolve(params);
      }
    }
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", (error) => reject(new Error(error.message || "refused")));
  });
  seen.protocol = socket.protocol;
  seen.extensions = socket.extensions;
  const ask = (method, params = {}) =>
    new Promise((resolve, reject) => {
      const id = ++next;
      answers.set(id, { resolve, reject });
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });

  await ask("initialize", {
    hermes: { client: { id: "web", name: "web" }, capabilities: { requests: ["permission"] } },
  });
  const { session } = await ask("hermes/session/create", { cwd, model });
  const { sessionId } = session;
  const subscribed = await ask("hermes/session/subscribe", { sessionId });
  seen.mode = subscribed.mode;
  last = subscribed.seq;
  const opened = event("request.opened");
  const ended = event("turn.ended");
  await ask("hermes/turn/submit", { sessionId, key: "1", input: [{ type: "text", text: "run it" }] });
  const { data } = await opened;
  await ask("hermes/request/answer", { requestId: data.requestId, answer: { optionId: "allow_once" } });
  seen.status = (await ended).data.status;

  const theirs = event("item.completed", (p) => p.data.item.type === "userMessage");
  console.log(JSON.stringify({ sessionId }));
  seen.heard = (await theirs).data.item.text;

  const big = "0123456789abcdef 🎈 ".repeat(20000);
  seen.echo = (await ask("hermes/daemon/ping", { echo: big })).echo === big;
  const closed = new Promise((resolve) => socket.addEventListener("close", ({ code }) => resolve(code)));
  socket.close(1000, "done");
  seen.code = await closed;
  console.log(JSON.stringify(seen));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
