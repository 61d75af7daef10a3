// usage: node client.mjs ask|allow|deny TEXT [SESSION]: say it, show the answer being written, answer permissions.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline";

const [rule, said, given] = process.argv.slice(2);
const daemon = spawn("hermes-daemon", ["stdio"], { stdio: ["pipe", "pipe", "inherit"] });
const asked = [], shown = {}, over = new Set();
let session = given, cursor, turn;

function ask(method, params) {
  daemon.stdin.write(JSON.stringify({ jsonrpc: "2.0", id: asked.push(method) - 1, method, params }) + "\n");
}

function permit({ requestId, toolCall, options }) {
  const answer = (yes) => {
    const { id } = options.find(({ kind }) => kind === (yes ? "allow_once" : "deny"));
    ask("hermes/request/answer", { requestId, answer: { optionId: id } });
  };
  if (rule !== "ask") return answer(rule === "allow");
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  terminal.question(`\n${toolCall.title}? [y/n] `, (reply) => (terminal.close(), answer(reply === "y")));
}

function show({ kind, data, itemId = data.item?.itemId, turnId }) {
  if (data.item?.type === "agentMessage" && !(itemId in shown))
    process.stdout.write(Object.keys(shown).length ? "\n" : ""), (shown[itemId] = []);
  if (itemId in shown) {
    // Offsets count code points, not the halves of which JavaScript's strings are made.
    const text = data.item ? [...data.item.text] : [...shown[itemId].slice(0, data.offset), ...data.text];
    process.stdout.write(text.slice(shown[itemId].length).join(""));
    shown[itemId] = text;
  } else if (kind === "request.opened" && data.kind === "permission") permit(data);
  else if (kind === "turn.ended") over.add(turnId);
}

ask("initialize", { hermes: { client: { name: "client.mjs" }, capabilities: { requests: ["permission"] } } });
createInterface({ input: daemon.stdout }).on("line", (line) => {
  const { id, method = asked[id], params: event, result, error } = JSON.parse(line);
  if (error) console.error(error.message);
  if (method === "hermes/event" && cursor && event.epoch === cursor.epoch && event.prev === cursor.seq) {
    cursor = { epoch: event.epoch, seq: event.seq };
    show(event);
  } else if (["hermes/event", "hermes/desync"].includes(method) && cursor) {
    ask("hermes/session/subscribe", { sessionId: session, since: cursor }); // something is missing
    cursor = undefined; // until it is told again, events are passed over
  } else if (method === "hermes/session/subscribe") {
    const { items = [], inflight = [], openRequests = [], turn: running } = result.snapshot ?? { turn: true };
    cursor = { epoch: result.epoch, seq: result.seq };
    for (const item of [...items, ...inflight.map((row) => ({ ...row.item, text: row.text }))]) show({ data: { item } });
    for (const data of openRequests) show({ kind: "request.opened", data });
    if (!running) for (const item of items) over.add(item.turnId);
    const input = [{ type: "text", text: said }];
    if (!asked.includes("hermes/turn/submit")) ask("hermes/turn/submit", { sessionId: session, key: randomUUID(), input });
  } else if (method === "hermes/turn/submit") turn = result.turnId;
  else if (method === "initialize" && !session) ask("hermes/session/create", { cwd: process.cwd() });
  else if (method === "initialize" || method === "hermes/session/create")
    ask("hermes/session/subscribe", { sessionId: (session ??= result.session.sessionId) });
  if (turn && over.has(turn)) console.log(`\n${session}`), daemon.stdin.end();
});
