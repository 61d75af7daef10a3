-- Neovim's own JSON-RPC client (vim.lsp.rpc) attaches to a daemon; see tests/support/counterparty.py.
-- arg: a socket's path, or host and port; then the folder and the model of the session.
local model, cwd = table.remove(arg), table.remove(arg)
local seen = { kinds = {}, chain = true }
local last, session, over
local client

local function show(line)
  io.stdout:write(vim.json.encode(line) .. "\n")
  io.stdout:flush()
end

local function ask(method, params)
  local answer
  client.request(method, params, function(err, result)
    answer = { err = err, result = result }
  end)
  assert(vim.wait(30000, function() return answer ~= nil end, 5), method .. ": no answer")
  return answer.result, answer.err
end

local on = {
  ["turn.started"] = function(event)
    seen.heard, seen.by = event.data.input[1].text, event.data.by.name
  end,
  ["request.opened"] = function(event)
    seen.asked = event.data.toolCall.args
    client.notify("hermes/request/seen", { requestId = event.data.requestId })
    local answer = { optionId = "allow_once" }
    client.request("hermes/request/answer", { requestId = event.data.requestId, answer = answer }, function() end)
  end,
  ["request.resolved"] = function(event)
    seen.outcome, seen.resolvedBy = event.data.outcome, event.data.by.name
  end,
  ["item.completed"] = function(event)
    if event.data.item.type == "toolCall" then
      seen.output = event.data.item.output.text
    end
  end,
  ["turn.ended"] = function(event)
    seen.status, over = event.data.status, true
  end,
}

client = vim.lsp.rpc.connect(arg[1], tonumber(arg[2]))({
  notification = function(method, event)
    if method ~= "hermes/event" then
      return
    end
    seen.chain = seen.chain and event.prev == last
    last = event.seq
    table.insert(seen.kinds, event.kind)
    if on[event.kind] then
      on[event.kind](event)
    end
  end,
  server_request = function() return nil, vim.lsp.rpc.rpc_response_error(-32601) end,
  on_error = function(code, err) error(vim.inspect({ code, err })) end,
  on_exit = function() end,
})

local welcome = ask("initialize", {
  processId = vim.fn.getpid(),
  capabilities = vim.empty_dict(),
  initializationOptions = {
    hermes = {
      client = { id = "nvim", name = "neovim" },
      capabilities = { requests = { "permission" } },
      auth = vim.env.HERMES_TOKEN and { token = vim.env.HERMES_TOKEN } or nil,
    },
  },
})
seen.version = welcome.capabilities.experimental.hermes.protocolVersion
client.notify("initialized", vim.empty_dict())
local _, err = ask("hermes/session/get", { sessionId = "none" })
seen.refused = err.data.kind
session = ask("hermes/session/create", { cwd = cwd, model = model }).session.sessionId
local subscribed = ask("hermes/session/subscribe", { sessionId = session })
seen.mode, seen.items, last = subscribed.mode, #subscribed.snapshot.items, subscribed.seq
show({ session = session })
assert(vim.wait(30000, function() return over end, 5), "the turn did not end")
ask("shutdown", vim.empty_dict())
client.notify("exit", vim.empty_dict())
show(seen)
