--- What the metrics of one worker have in common: its segment, what workers tell each other, errors, and rendering.

local reader = require("narthex.reader")
local retire = require("narthex.retire")
local segment = require("narthex.segment")
local metrics = require("narthex.metric")
local sys = require("narthex.sys")
local text = require("narthex.text")

local ngx = ngx
local get_phase = ngx.get_phase

-- A worker that nobody uses looks this many times less often for what others tell, but in so many seconds.
local REST_TIMES, REST_SECONDS = 10, 60
-- How long what is removed is announced to the other workers, and how many removals a worker follows at once.
local ANNOUNCED_SECONDS, ANNOUNCED_MAX = 300, 10000
-- Longest time for which rendering keeps requests waiting, and the pause that follows.
local WORK_MS, PAUSE_SECONDS = 0.5, 0.001
-- A reader whose request was aborted is given up after this.
local BUSY_MS = 30000
local CAN_YIELD = { rewrite = true, access = true, content = true, timer = true }

local Worker = {}
Worker.__index = Worker

local M = {}

--- Creates it; the segment is created by its first use.
function M.new(dict, options)
  local prefix = options.prefix or ""
  local app = options.app or prefix:gsub("_+$", "")
  local self = setmetatable({
    dict = dict,
    prefix = prefix,
    options = options,
    app = segment.is_name(app) and app or "nginx",
    sync_interval = options.sync_interval,
    max_series = options.max_series,
    gauge_merge = options.gauge_merge or {},
    registry = {},
    series_count = 0,
    refused_count = 0,
    key_index = { last = 0, deleted = 0 },
    complaints = {},
    own_announcements = {},
    taking_over = { dir = options.dir, unfinished = {} },
  }, Worker)
  self.taking_over.app = self.app
  self.key = "narthex:" .. self.app .. ":"
  self.announced = dict:get(self.key .. "drops") or 0
  return self
end

local function nothing() end

--- Returns a function that lets requests go on when the work between its calls has kept them waiting long enough.
local function pauser()
  if not CAN_YIELD[get_phase()] then
    return nothing
  end
  local calls, began = 0, sys.monotonic_ms()
  return function()
    calls = calls + 1
    if calls % 16 == 0 and sys.monotonic_ms() - began > WORK_MS then
      ngx.sleep(PAUSE_SECONDS)
      began = sys.monotonic_ms()
    end
  end
end

local function take_over(self)
  if self.is_retiring then
    return
  end
  self.is_retiring = true
  local ok, count, err = pcall(retire.run, self.taking_over, pauser())
  self.is_retiring = false
  if not ok or err then
    self:complain("cannot take over the counts of ended workers: ", err or count)
  end
end

--- Follows the other workers: each sync_interval while this one is used or finds news, else seldom, because waking up
-- costs much more than looking.
local function start_timers(self)
  local interval = self.sync_interval
  self.is_used, self.is_awake = false, false
  self.look = function(premature)
    self.is_awake = false
    if not premature then
      local was_used = self.is_used
      self.is_used = false
      if self:follow() or was_used then
        self:wake()
      end
    end
  end
  ngx.timer.every(math.max(interval, math.min(REST_TIMES * interval, REST_SECONDS)), function(premature)
    if not premature and not self.is_awake then
      self.look()
    end
  end)
  if self.segment.fd and ngx.worker.id() == 0 then
    ngx.timer.every(self.options.retire_interval, function(premature)
      if not premature then
        take_over(self)
      end
    end)
  end
end

--- Makes this worker look for what others tell soon.
function Worker:wake()
  if not self.is_awake then
    -- Where there is no timer left, the next rest ends in another attempt.
    self.is_awake = ngx.timer.at(self.sync_interval, self.look) and true or false
  end
end

--- Takes note of the first update since it was looked last.
function Worker:used()
  self.is_used = true
  if self.look then
    self:wake()
  end
end

--- Returns the segment of this worker, which its first use creates; nil before workers are forked. Without room or
-- permission it is in memory of the worker: what it counts is only seen by scrapes that this worker answers.
function Worker:open()
  if self.segment then
    return self.segment
  elseif get_phase() == "init" or self.is_failed then
    return nil
  end
  local options = self.options
  local settings = {
    dir = options.dir,
    app = self.app,
    worker = tostring(ngx.worker.id() or "agent"),
    max_cells = options.max_cells,
    max_label_bytes = options.max_label_bytes,
  }
  local ok, err = sys.is_supported, "not a 64-bit Linux"
  if ok then
    ok, err = sys.mkdir(options.dir, options.dir_mode)
  end
  if ok then
    self.segment, err = segment.create(settings)
  end
  if not self.segment then
    self.segment = segment.in_memory(settings)
    self.is_failed = not self.segment
    self:log_error("no segment in ", options.dir, ": ", tostring(err), "; this worker's metrics are in its own memory")
  end
  if self.segment then
    -- The error metric is shown before there is an error.
    self.errors:inc(0)
    start_timers(self)
  end
  return self.segment
end

-- What workers tell each other

--- Tells the other workers that a series has ended, or all of a metric.
function Worker:announce(metric, rendered)
  local dict = self.dict
  local number, err = dict:incr(self.key .. "drops", 1, 0)
  if number then
    local message = ("%d %s %s"):format(ngx.now() * 1000, metric.name, rendered and "=" .. rendered or "*")
    self.own_announcements[number] = true
    self.key_index.deleted = number
    local _
    _, err = dict:set(self.key .. "drop:" .. number, message, ANNOUNCED_SECONDS)
  end
  if err then
    self:log_error("Error removing series of ", metric.name, ": ", err)
  end
end

--- Does what other workers announced; returns whether there was anything, of this one or of others.
function Worker:follow()
  local dict = self.dict
  local last = dict:get(self.key .. "drops") or 0
  local has_news = last ~= self.announced
  for number = math.max(self.announced, last - ANNOUNCED_MAX) + 1, last do
    local message = not self.own_announcements[number] and dict:get(self.key .. "drop:" .. number)
    self.own_announcements[number] = nil
    local time, name, which = (message or ""):match("^(%d+) (%S+) (.*)$")
    local metric = self.registry[name]
    if metric and which == "*" then
      metrics.drop_all(metric, tonumber(time))
    elseif metric then
      metrics.drop(metric, which:sub(2), tonumber(time))
    end
  end
  self.announced = last
  self.key_index.deleted = last
  for _, metric in pairs(self.registry) do
    metrics.look_whether_mixed(metric)
  end
  return has_news
end

-- Exposition

--- Gives the exposition of all workers to `sink`, in slices between which requests are served.
function Worker:render(sink)
  self:open()
  local pause = pauser()
  local now_ms = sys.monotonic_ms()
  while self.busy_since and now_ms - self.busy_since < BUSY_MS and pause ~= nothing do
    -- Another scrape is being answered.
    ngx.sleep(0.005)
    now_ms = sys.monotonic_ms()
  end
  local own = self.segment
  local source = not self.busy_since and self.reader
    or reader.new(self.options.dir, self.app, own and not own.fd and own or nil)
  self.reader, self.busy_since = source, now_ms
  local ok, err = pcall(function()
    source:read(pause)
    text.render(source, sys.now_ms(), sink, pause)
  end)
  self.busy_since = nil
  if not ok then
    self.reader = nil
    self:log_error("Error rendering metrics: ", tostring(err))
  end
end

-- Errors

local function count_error(self)
  -- An error of the error metric is not counted again.
  if self.segment and not self.is_counting then
    self.is_counting = true
    self.errors:inc(1)
    self.is_counting = false
  end
end

--- Logs an error and counts it.
function Worker:log_error(...)
  ngx.log(ngx.ERR, ...)
  count_error(self)
end

--- Logs and counts an error of an update.
function Worker:log_error_kv(key, value, err)
  self:log_error("Error while setting '", key, "' to '", tostring(value), "': '", tostring(err), "'")
end

--- Logs and counts a reason once.
function Worker:complain(what, reason)
  if not self.complaints[what] then
    self.complaints[what] = true
    self:log_error(what, tostring(reason))
  end
end

--- Counts a series that there was no room for; logs the first of each metric.
function Worker:refuse(metric, reason)
  count_error(self)
  if not self.complaints[metric.name] then
    self.complaints[metric.name] = true
    ngx.log(ngx.ERR, "series of ", metric.full_name, " are not counted: ", reason)
  end
end

return M
