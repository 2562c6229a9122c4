--- The part of nginx' Lua interface that the library uses, for tests without nginx.

local Dict = {}
Dict.__index = Dict
function Dict:get(key) return self.values[key] end
function Dict:set(key, value) self.values[key] = value; return true end
function Dict:safe_add(key, value)
  if self.values[key] ~= nil then return nil, "exists" end
  self.values[key] = value
  return true
end
function Dict:delete(key) self.values[key] = nil end
function Dict:incr(key, value, init)
  self.values[key] = (self.values[key] or init) + value
  return self.values[key]
end

local M = { timers = {}, soon = {}, logs = {}, phase = "init_worker", time = 1700000000, printed = {} }

function M.new_dict()
  return setmetatable({ values = {} }, Dict)
end

ngx = {
  ERR = 4, WARN = 5, INFO = 7,
  shared = { metrics = M.new_dict() },
  header = {},
  worker = { id = function() return 0 end },
  timer = {
    every = function(delay, run) M.timers[#M.timers + 1] = { delay = delay, run = run }; return true end,
    at = function(delay, run)
      if M.is_full then return nil, "too many pending timers" end
      M.soon[#M.soon + 1] = { delay = delay, run = run }
      return true
    end,
  },
  get_phase = function() return M.phase end,
  now = function() return M.time end,
  sleep = function() end,
  flush = function() end,
  print = function(text) M.printed[#M.printed + 1] = text end,
  log = function(_, ...)
    local parts = {}
    for at = 1, select("#", ...) do parts[at] = tostring((select(at, ...))) end
    M.logs[#M.logs + 1] = table.concat(parts)
  end,
}

--- Loads another copy of the library, as another worker has.
function M.library()
  for name in pairs(package.loaded) do
    if name == "prometheus" then package.loaded[name] = nil end
  end
  return require("prometheus")
end

return M
