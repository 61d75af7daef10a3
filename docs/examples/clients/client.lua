-- usage: nvim -l client.lua ask|allow|deny TEXT [SESSION]: say it, show the answer being written, answer permissions.
local rule, said, session = arg[1], arg[2], arg[3]
local shown, over, cursor, turn, client = {}, {}, nil, nil, nil

local function ask(method, params, and_then)
  client.request(method, params, function(err, result)
    if err then io.stderr:write(err.message .. "\n") end
    if result and and_then then and_then(result) end
  end)
end

local function show(event)
  local data, item = event.data, event.data.item or {}
  local id = item.itemId or event.itemId
  if item.type == "agentMessage" and not shown[id] then
    io.stdout:write(next(shown) and "\n" or "")
    shown[id] = ""
  end
  if shown[id] then -- offsets count characters, Lua's strings are bytes
    local text = item.text or vim.fn.strcharpart(shown[id], 0, data.offset) .. data.text
    io.stdout:write(text:sub(#shown[id] + 1))
    shown[id] = text
  elseif event.kind == "request.opened" and data.kind == "permission" then
    if rule == "ask" then io.stdout:write("\n" .. data.toolCall.title .. "? [y/n] ") end
    local yes = rule == "allow" or rule == "ask" and io.read() == "y"
    for _, option in ipairs(data.options) do
      local answer = { requestId = data.requestId, answer = { optionId = option.id } }
      if option.kind == (yes and "allow_once" or "deny") then ask("hermes/request/answer", answer) end
    end
  end
  over[event.kind == "turn.ended" and event.turnId or ""] = true
end

local function subscribe(since)
  cursor = nil -- until the answer, events are passed over
  ask("hermes/session/subscribe", { sessionId = session, since = since }, function(answer)
    cursor = { epoch = answer.epoch, seq = answer.seq }
    local now = answer.snapshot or { items = {}, inflight = {}, openRequests = {} }
    for _, item in ipairs(now.items) do
      show({ data = { item = item }, kind = not now.turn and "turn.ended", turnId = item.turnId })
    end
    for _, row in ipairs(now.inflight) do show({ data = { item = vim.tbl_extend("force", row.item, row) } }) end
    for _, request in ipairs(now.openRequests) do show({ kind = "request.opened", data = request }) end
    local words = { sessionId = session, key = vim.fn.tempname(), input = { { type = "text", text = said } } }
    if not since then ask("hermes/turn/submit", words, function(result) turn = result.turnId end) end
  end)
end

io.stdout:setvbuf("no")
client = vim.lsp.rpc.start({ "hermes-daemon", "stdio" }, { notification = function(method, event)
  local follows = method == "hermes/event" and cursor and cursor.epoch == event.epoch and cursor.seq == event.prev
  if follows then cursor = { epoch = event.epoch, seq = event.seq } show(event)
  elseif (method == "hermes/event" or method == "hermes/desync") and cursor then subscribe(cursor) end
end })
ask("initialize", { hermes = { client = { name = "client.lua" }, capabilities = { requests = { "permission" } } } })
if session then subscribe() else
  ask("hermes/session/create", { cwd = vim.uv.cwd() }, function(made) session = made.session.sessionId subscribe() end)
end
vim.wait(1e9, function() return turn and over[turn] end, 10)
io.stdout:write("\n" .. session .. "\n")
