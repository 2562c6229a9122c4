--- Metrics of nginx workers, with the interface of nginx-lua-prometheus, kept in shared memory for another process.
--
-- Each worker writes a segment of its own (docs/format/segment.md), which a Narthex server copies: nothing is rendered in
-- the gateway. An update is a look-up and a store; it takes no lock, waits for nothing, and allocates nothing once its
-- series is known. The shared dictionary is only used for what workers have to agree on, never for counts.
-- How to use it: README.md.

local fetch = require("narthex.fetch")
local labels = require("narthex.labels")
local metrics = require("narthex.metric")
local segment = require("narthex.segment")
local workers = require("narthex.worker")

local ngx = ngx

local Prometheus = {}
local prometheus_mt = { __index = Prometheus }

local ERROR_METRIC = "nginx_metric_errors_total"
local BUCKETS = { 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 4, 5, 10 }
local NOT_INITIALIZED = "Prometheus module has not been initialized"

local defaults = {
  dir = "/dev/shm/narthex",
  -- 02770: the server's user may be another one of the group.
  dir_mode = 1528,
  max_series = 250000,
  sync_interval = 1,
  -- Seconds between looks for workers that ended, whose counts are taken over unless a server does it.
  retire_interval = 10,
  error_metric_name = ERROR_METRIC,
}

--- Sets options for callers of init() that cannot give any: those that pass a prefix, as APISIX does.
function Prometheus.configure(options)
  for name, value in pairs(options) do
    defaults[name] = value
  end
end

--- Creates the object with which metrics are registered. `dict_name` names a lua_shared_dict, of any size; the second
-- argument is a prefix of all names, or a table of options (README.md).
function Prometheus.init(dict_name, options_or_prefix)
  local phase = ngx.get_phase()
  if phase ~= "init" and phase ~= "init_worker" then
    error("Prometheus.init can only be called from init_by_lua_block or init_worker_by_lua_block", 2)
  end
  dict_name = dict_name or "prometheus_metrics"
  local dict = ngx.shared[dict_name]
  if dict == nil then
    error("Dictionary '" .. dict_name .. "' does not seem to exist. " ..
      "Please define the dictionary using `lua_shared_dict`.", 2)
  end
  local given = type(options_or_prefix) == "table" and options_or_prefix or { prefix = options_or_prefix }
  local options = setmetatable({}, { __index = function(_, name)
    if given[name] ~= nil then
      return given[name]
    end
    return defaults[name]
  end })
  local worker = workers.new(dict, options)
  local self = setmetatable({
    _worker = worker,
    dict_name = dict_name,
    dict = dict,
    prefix = worker.prefix,
    error_metric_name = options.error_metric_name,
    sync_interval = options.sync_interval,
    registry = worker.registry,
    key_index = worker.key_index,
    metrics_url = options.metrics_url,
    initialized = true,
  }, prometheus_mt)
  worker.errors = self:counter(self.error_metric_name, "Number of nginx-lua-prometheus errors")
  if phase == "init_worker" then
    self:init_worker(self.sync_interval)
  end
  return self
end

--- Begins to count in this worker; init() does so itself in init_worker_by_lua_block.
function Prometheus:init_worker(sync_interval)
  if ngx.get_phase() ~= "init_worker" then
    error("Prometheus:init_worker can only be called in init_worker_by_lua_block", 2)
  end
  if self.is_begun then
    ngx.log(ngx.WARN, "init_worker() has been called twice. Please do not explicitly call init_worker. " ..
      "Instead, call Prometheus:init() in the init_worker_by_lua_block")
    return
  end
  self.is_begun = true
  self.sync_interval = sync_interval or self.sync_interval
  self._worker.sync_interval = self.sync_interval
  self._worker:open()
end

local function is_taken(registry, name, kind)
  if registry[name] then
    return true
  elseif kind == segment.HISTOGRAM then
    return registry[name .. "_count"] or registry[name .. "_sum"] or registry[name .. "_bucket"]
  end
  return registry[(name:gsub("_bucket$", ""):gsub("_count$", ""):gsub("_sum$", ""))]
end

local function register(self, spec)
  if not self.initialized then
    ngx.log(ngx.ERR, NOT_INITIALIZED)
    return
  end
  local err = labels.check(spec.name, spec.label_names) or labels.check(self.prefix .. spec.name)
  if not err and is_taken(self.registry, spec.name, spec.kind) then
    err = "Duplicate metric " .. spec.name
  end
  if err then
    self:log_error(err)
    return
  end
  local metric = metrics.new(self._worker, spec)
  self.registry[spec.name] = metric
  return metric
end

--- Registers a counter. Series that are not updated for `exptime` seconds are not shown.
function Prometheus:counter(name, help, label_names, exptime)
  return register(self, { kind = segment.COUNTER, name = name, help = help, label_names = label_names, exptime = exptime })
end

--- Registers a gauge; see counter().
function Prometheus:gauge(name, help, label_names, exptime)
  return register(self, { kind = segment.GAUGE, name = name, help = help, label_names = label_names, exptime = exptime })
end

--- Registers a histogram; see counter().
function Prometheus:histogram(name, help, label_names, buckets, exptime)
  return register(self, {
    kind = segment.HISTOGRAM, name = name, help = help, label_names = label_names, buckets = buckets or BUCKETS,
    exptime = exptime,
  })
end

--- Returns the exposition of all workers in the text format, as an array of strings.
function Prometheus:metric_data()
  if not self.initialized then
    ngx.log(ngx.ERR, NOT_INITIALIZED)
    return
  end
  local pieces = {}
  self._worker:render(function(piece)
    pieces[#pieces + 1] = piece
  end)
  return pieces
end

local function send(piece)
  ngx.print(piece)
  ngx.flush(true)
end

--- Answers a scrape: with the page at metrics_url, if one is set and can be had, else with what the workers' segments say.
function Prometheus:collect()
  if not self.initialized then
    ngx.log(ngx.ERR, NOT_INITIALIZED)
    return
  end
  ngx.header.content_type = "text/plain; version=0.0.4; charset=utf-8"
  if self.metrics_url then
    local ok, err, has_sent = fetch.stream(self.metrics_url, send)
    if ok or has_sent then
      return
    end
    self:log_error("cannot read ", self.metrics_url, ": ", tostring(err))
  end
  self._worker:render(send)
end

--- Logs an error and counts it.
function Prometheus:log_error(...)
  self._worker:log_error(...)
end

--- Logs and counts an error of an update.
function Prometheus:log_error_kv(key, value, err)
  self._worker:log_error_kv(key, value, err)
end

return Prometheus
