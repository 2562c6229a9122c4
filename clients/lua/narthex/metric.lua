--- Counters, gauges and histograms of a worker: an update finds its series' cells and stores a number there.
--
-- An update of a known series allocates nothing and calls nothing that waits. Cells are floats, or integers that are only
-- written: reading one would allocate where code is interpreted.

local labels = require("narthex.labels")
local segment = require("narthex.segment")

local ngx = ngx
local type, tonumber = type, tonumber

local M = {}

local MERGES = { sum = segment.SUM, least = segment.LEAST, greatest = segment.GREATEST, last = segment.LAST,
  each = segment.EACH }
local NOT_INITIALIZED = "counter not initialized! Have you called Prometheus:init() from the init_worker_by_lua_block " ..
  "nginx phase?"

-- How long a series that there was no room for is not tried again.
local RETRY_SECONDS = 10

local finders = {}

--- Returns a function that returns the first cell of a series that was updated before with values of these types.
--
-- It is written out for the number of labels: a loop of few rounds would be compiled by itself, and entering it from each
-- update costs as much as the look-up.
local function finder(count)
  if finders[count] then
    return finders[count]
  end
  local lines = { "local function find(self, values)" }
  if count == 0 then
    lines[#lines + 1] = "if values == nil or values[1] == nil then return self.single end"
  else
    lines[#lines + 1] = "if values == nil then return nil end local at = self.lookup"
    for place = 1, count do
      lines[#lines + 1] = ("at = at[values[%d]] if at == nil then return nil end"):format(place)
    end
    lines[#lines + 1] = ("if values[%d] == nil then return at end"):format(count + 1)
  end
  lines[#lines + 1] = "end return find"
  finders[count] = assert(loadstring(table.concat(lines, "\n"), "=find"))()
  return finders[count]
end

local function remember(self, values, cell)
  local count = self.label_count
  if count == 0 then
    self.single = cell
    return
  end
  if self.leaves > 2 * self.parent.max_series then
    self.lookup, self.leaves = {}, 0
  end
  local at = self.lookup
  for place = 1, count do
    local value = values[place]
    if value ~= value then
      -- NaN is no key.
      return
    end
    if place == count then
      self.leaves = self.leaves + (at[value] and 0 or 1)
      at[value] = cell
    else
      at[value] = at[value] or {}
      at = at[value]
    end
  end
end

--- Writes the metric's record into the segment.
local function publish(self)
  local own = self.parent.segment
  local place, switch = own:metric({
    kind = self.kind,
    merge = self.merge,
    name = self.full_name,
    help = labels.utf8(tostring(self.help or "")),
    bounds = self.buckets,
    age_ms = self.age_ms,
  })
  if place then
    self.place = place
    self.off = own.switches + 2 * switch
    self.cells, self.counts, self.shadow = own.cells, own.counts, own.shadow
  end
  return place, switch
end

--- Counts a series that there is no room for, once, and remembers that it need not be tried soon.
local function refuse(self, rendered, err)
  local parent = self.parent
  if not self.refused[rendered] then
    parent.segment:refuse()
    parent:refuse(self, err)
    parent.refused_count = parent.refused_count + 1
  end
  if parent.refused_count <= parent.max_series then
    self.refused[rendered] = ngx.now() + RETRY_SECONDS
  end
end

--- Whether there are as many values as labels; reports it if not.
local function fits(self, values)
  local count = type(values) == "table" and #values or 0
  if count ~= self.label_count then
    self.parent:log_error(("incorrect label count for metric %s, expected %d, got %d (%s)"):format(
      self.name, self.label_count, count, labels.shown(values)))
  end
  return count == self.label_count
end

--- Finds or adds the series with these values; nil if there is no room, or the values are wrong.
local function create(self, values)
  local parent = self.parent
  if not fits(self, values) then
    return nil
  end
  for place = 1, self.label_count do
    if values[place] == nil then
      parent:log_error(("unexpected nil value for label %s of %s"):format(self.label_names[place], self.name))
      return nil
    end
  end
  local own = parent:open()
  if not own then
    parent:log_error(NOT_INITIALIZED)
    return nil
  end
  local rendered = labels.render(self.label_names, values)
  local cell = self.series[rendered]
  if not cell then
    local again = self.refused[rendered]
    if again and ngx.now() < again then
      return nil
    end
    local place, record, err = self.place, nil, "too many series"
    if parent.series_count < parent.max_series then
      if not place then
        place, err = publish(self)
      end
      if place then
        cell, record = own:series(place, rendered, self.slots)
        err = record
      end
    end
    if not cell then
      refuse(self, rendered, err)
      return nil
    end
    self.refused[rendered] = nil
    parent.series_count = parent.series_count + 1
    parent.key_index.last = parent.series_count
    self.series[rendered], self.records[rendered] = cell, record
  end
  remember(self, values, cell)
  return cell
end

--- Returns a number, also of a string; nil after reporting what is none.
local function to_number(self, value)
  local number = tonumber(value)
  if not number then
    self.parent:log_error_kv(self.name, value, "Value should be a number")
  end
  return number
end

local function inc_counter(self, value, values)
  if value == nil then
    value = 1
  elseif type(value) ~= "number" then
    value = to_number(self, value)
    if not value then
      return
    end
  end
  if not (value >= 0 and value < math.huge) then
    self.parent:log_error_kv(self.name, value, "Value should not be negative")
    return
  end
  local cell = self:find(values) or create(self, values)
  if not cell then
    return
  end
  local off = self.off
  if off[0] ~= 0 or off[1] ~= 0 then
    return
  end
  local cells = self.cells
  cells[cell] = cells[cell] + value
  if self.age_slot then
    self.counts[cell + self.age_slot] = ngx.now() * 1000
  end
  local parent = self.parent
  if not parent.is_used then
    parent:used()
  end
end

local function observe(self, value, values)
  if type(value) ~= "number" then
    if not value then
      self.parent:log_error("No value passed for " .. self.name)
      return
    end
    value = to_number(self, value)
    if not value then
      return
    end
  end
  local cell = self:find(values) or create(self, values)
  if not cell then
    return
  end
  local off = self.off
  if off[0] ~= 0 or off[1] ~= 0 then
    return
  end
  local buckets, bucket, last = self.buckets, 1, self.bucket_count
  while bucket <= last and not (value <= buckets[bucket]) do
    bucket = bucket + 1
  end
  bucket = cell + bucket
  local shadow, cells = self.shadow, self.cells
  local count = shadow[bucket] + 1
  shadow[bucket] = count
  self.counts[bucket] = count
  cells[cell] = cells[cell] + value
  if self.age_slot then
    self.counts[cell + self.age_slot] = ngx.now() * 1000
  end
  local parent = self.parent
  if not parent.is_used then
    parent:used()
  end
end

--- Decides how the workers' values become one, when the first of them uses a gauge: the last one that was set, or the sum
-- of what was added. All workers have to agree, also those of later configurations.
local function decide(self, use)
  local parent = self.parent
  local named = parent.gauge_merge[self.name]
  if named then
    self.merge = MERGES[named] or segment.LAST
    return
  end
  local key = parent.key .. "gauge:" .. self.full_name
  parent.dict:safe_add(key, use)
  local decided = parent.dict:get(key) or use
  self.merge = decided == "inc" and segment.SUM or segment.LAST
  self.is_mixed = decided == "mixed"
end

local function shared_key(self, rendered)
  return self.parent.key .. "value:" .. self.full_name .. "{" .. rendered
end

--- Adds to a gauge that workers set and add to: its value is in the dictionary, and the last to change it shows it.
local function change_shared(self, cell, values, is_set, value)
  local dict = self.parent.dict
  local key = shared_key(self, labels.render(self.label_names, values or {}))
  local ok, err
  if is_set then
    ok, err = dict:set(key, value)
  else
    ok, err = dict:incr(key, value, self.cells[cell])
  end
  local now_ms = math.floor(ngx.now() * 1000)
  local time = ok and dict:incr(key .. "}", 1, now_ms - 1)
  if not time then
    self.parent:log_error_kv(self.name, value, err)
    return
  end
  if time < now_ms then
    dict:set(key .. "}", now_ms)
    time = now_ms
  end
  -- Read after the time was taken: whoever has a later time shows a later value.
  self.cells[cell] = dict:get(key) or value
  self.counts[cell + 1] = time
end

local function change_gauge(self, use, value, values)
  if type(value) ~= "number" then
    value = to_number(self, value)
    if not value then
      return
    end
  end
  if not self.merge then
    decide(self, use)
  end
  if use == "set" and self.merge == segment.SUM and not self.parent.gauge_merge[self.name] then
    self.parent:log_error_kv(self.name, value, "It was added to before it was set; see gauge_merge")
    return
  end
  local cell = self:find(values) or create(self, values)
  if not cell then
    return
  end
  local off = self.off
  if off[0] ~= 0 or off[1] ~= 0 then
    return
  end
  local parent = self.parent
  if not parent.is_used then
    parent:used()
  end
  local cells, merge = self.cells, self.merge
  if merge == segment.LAST and (use == "inc" or self.is_mixed) then
    if not self.is_mixed then
      self.is_mixed = true
      self.parent.dict:set(self.parent.key .. "gauge:" .. self.full_name, "mixed")
    end
    change_shared(self, cell, values, use == "set", value)
    return
  elseif use == "set" then
    cells[cell] = value
  elseif self.counts[cell + 1] == -1 then
    cells[cell] = value
  else
    cells[cell] = cells[cell] + value
  end
  self.counts[cell + 1] = ngx.now() * 1000
end

local function set(self, value, values)
  if not value then
    self.parent:log_error("No value passed for " .. self.name)
    return
  end
  change_gauge(self, "set", value, values)
end

local function inc_gauge(self, value, values)
  change_gauge(self, "inc", value or 1, values)
end

--- Ends a series of this worker. A gauge's cell is used again; a counter's next update begins another series.
function M.drop(self, rendered, before_ms)
  local cell = self.series[rendered]
  if not cell then
    return
  end
  if self.kind == segment.GAUGE then
    if not before_ms or tonumber(self.counts[cell + 1]) <= before_ms then
      self.counts[cell + 1] = -1
      self.cells[cell] = 0
    end
    return
  end
  self.parent.segment:drop(self.records[rendered])
  self.series[rendered], self.records[rendered] = nil, nil
  self.parent.series_count = self.parent.series_count - 1
  self.lookup, self.leaves, self.single = {}, 0, nil
end

function M.drop_all(self, before_ms)
  local all = {}
  for rendered in pairs(self.series) do
    all[#all + 1] = rendered
  end
  for _, rendered in ipairs(all) do
    M.drop(self, rendered, before_ms)
  end
end

--- Ends the series with these values in every worker: in this one at once, in the others within sync_interval.
local function del(self, values)
  if not fits(self, values) then
    return
  end
  local rendered = labels.render(self.label_names, values or {})
  if self.is_mixed then
    self.parent.dict:delete(shared_key(self, rendered))
  end
  M.drop(self, rendered)
  self.parent:announce(self, rendered)
end

--- Ends all series of the metric in every worker, as del().
local function reset(self)
  for rendered in pairs(self.is_mixed and self.series or {}) do
    self.parent.dict:delete(shared_key(self, rendered))
  end
  M.drop_all(self)
  self.parent:announce(self)
end

--- Takes notice when another worker adds to a gauge that this one only sets.
function M.look_whether_mixed(self)
  if self.kind == segment.GAUGE and self.merge == segment.LAST and not self.is_mixed then
    self.is_mixed = self.parent.dict:get(self.parent.key .. "gauge:" .. self.full_name) == "mixed"
  end
end

local function distinct_bounds(buckets)
  local sorted, distinct = {}, {}
  for _, bound in ipairs(buckets) do
    assert(type(bound) == "number", "bucket boundaries should be numeric")
    if bound > -math.huge and bound < math.huge then
      sorted[#sorted + 1] = bound
    end
  end
  table.sort(sorted)
  for _, bound in ipairs(sorted) do
    if bound ~= distinct[#distinct] then
      distinct[#distinct + 1] = bound
    end
  end
  return distinct
end

local METHODS = {
  [segment.COUNTER] = { inc = inc_counter, del = del, reset = reset },
  [segment.GAUGE] = { inc = inc_gauge, set = set, del = del, reset = reset },
  [segment.HISTOGRAM] = { observe = observe, reset = reset },
}

--- Creates a metric of a worker; `spec` has kind, name, help, and if there are any label_names, buckets and exptime.
function M.new(parent, spec)
  local kind, exptime = spec.kind, tonumber(spec.exptime) or 0
  local self = setmetatable({
    parent = parent,
    kind = kind,
    name = spec.name,
    full_name = parent.prefix .. spec.name,
    help = spec.help,
    label_names = spec.label_names or {},
    label_count = spec.label_names and #spec.label_names or 0,
    find = finder(spec.label_names and #spec.label_names or 0),
    -- Label values to the first cell of their series: a tree of tables, one level for each label.
    lookup = {},
    leaves = 0,
    -- Rendered labels to the first cell and to the record of their series.
    series = {},
    records = {},
    -- Rendered labels to when a series that there was no room for may be tried again.
    refused = {},
    age_ms = exptime > 0 and math.ceil(exptime * 1000) or 0,
    slots = kind == segment.GAUGE and 2 or 1,
  }, { __index = METHODS[kind] })
  if kind == segment.HISTOGRAM then
    self.buckets = distinct_bounds(spec.buckets)
    self.bucket_count = #self.buckets
    self.slots = self.bucket_count + 2
  end
  if self.age_ms > 0 and kind ~= segment.GAUGE then
    self.age_slot = self.slots
    self.slots = self.slots + 1
  end
  return self
end

return M
