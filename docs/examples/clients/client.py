"""usage: python client.py ask|allow|deny TEXT [SESSION]: say it, show the answer being written, answer permissions."""

import json
import os
import subprocess
import sys

rule, said, *session = sys.argv[1:]
daemon = subprocess.Popen(["hermes-daemon", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
asked, shown, over, cursor, turn, words = [], {}, set(), None, None, {"type": "text", "text": said}


def ask(method, **params):
    frame = {"jsonrpc": "2.0", "id": len(asked), "method": method, "params": params}
    asked.append(method)
    print(json.dumps(frame), file=daemon.stdin, flush=True)


ask("initialize", hermes={"client": {"name": "client.py"}, "capabilities": {"requests": ["permission"]}})
while turn is None or turn not in over:
    frame = json.loads(daemon.stdout.readline())
    print(frame.get("error", {}).get("message", ""), end="", file=sys.stderr)
    event, result, news = frame.get("params", {}), frame.get("result", {}), []
    match frame.get("method") or asked[frame["id"]]:
        case "hermes/event" if cursor == {"epoch": event["epoch"], "seq": event["prev"]}:
            cursor, news = {"epoch": event["epoch"], "seq": event["seq"]}, [event]
        case "hermes/event" | "hermes/desync" if cursor:  # something is missing: ask, and pass over the rest
            ask("hermes/session/subscribe", sessionId=session, since=cursor)
            cursor = None
        case "hermes/session/subscribe":
            cursor, snapshot = {"epoch": result["epoch"], "seq": result["seq"]}, result.get("snapshot", {})
            items = snapshot.get("items", []) + [row["item"] | row for row in snapshot.get("inflight", [])]
            news = [{"kind": "item", "data": {"item": item}, "turnId": item.get("turnId")} for item in items]
            news += [{"kind": "request.opened", "data": request} for request in snapshot.get("openRequests", [])]
            over.update(item.get("turnId") for item in items if "turn" not in snapshot)
            if "hermes/turn/submit" not in asked:
                ask("hermes/turn/submit", sessionId=session, key=os.urandom(8).hex(), input=[words])
        case "hermes/turn/submit":
            turn = result["turnId"]
        case "initialize" if not session:
            ask("hermes/session/create", cwd=os.getcwd())
        case "initialize" | "hermes/session/create":
            session = result["session"]["sessionId"] if "session" in result else session[0]
            ask("hermes/session/subscribe", sessionId=session)
    for event in news:
        data, item = event["data"], event["data"].get("item", {})
        if item.get("type") == "agentMessage" and item["itemId"] not in shown:
            print(end="\n" if shown else "")
            shown[item["itemId"]] = ""
        if (id := item.get("itemId") or event.get("itemId")) in shown:
            text = shown[id][: data["offset"]] + data["text"] if "offset" in data else item["text"]
            print(text[len(shown[id]) :], end="", flush=True)
            shown[id] = text
        elif event["kind"] == "request.opened" and data["kind"] == "permission":
            yes = rule == "allow" or (rule == "ask" and input(f"\n{data['toolCall']['title']}? [y/n] ") == "y")
            option = next(row["id"] for row in data["options"] if row["kind"] == ("allow_once" if yes else "deny"))
            ask("hermes/request/answer", requestId=data["requestId"], answer={"optionId": option})
        elif event["kind"] == "turn.ended":
            over.add(event["turnId"])
print(f"\n{session}")
