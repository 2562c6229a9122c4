--- What all workers of an application count together, read from their segments. Bytes: docs/format/segment.md
--
-- Files are copied, never mapped: one that another process shortens is an error, not a signal. Every offset is compared
-- with what the file says it has, every record has a checksum; a bad file costs its own series. Records are parsed
-- once; a round only adds up numbers.

local ffi = require("ffi")
local bit = require("bit")
local segment = require("narthex.segment")
local sys = require("narthex.sys")

local HEADER = 4096
local MARKS_END = 288
local CELLS_MAX, RECORDS_MAX = 8388608, 268435456
-- Bytes copied without looking at the clock.
local PIECE = 262144
-- Series added up without looking at the clock.
local SOME = 2048
-- Time of a gauge that was removed.
local REMOVED = -1LL

local M = {}
local Reader = {}
Reader.__index = Reader

local u8 = ffi.typeof("uint8_t *")
local u16 = ffi.typeof("const uint16_t *")
local u32 = ffi.typeof("const uint32_t *")
local i64 = ffi.typeof("const int64_t *")
local f64 = ffi.typeof("const double *")

--- A list of integers out of the garbage collector's sight.
local function push(list, value)
  if list.len == list.capacity then
    local capacity = math.max(16, 2 * list.capacity)
    local data = ffi.new("int32_t[?]", capacity)
    ffi.copy(data, list.data, 4 * list.len)
    list.data, list.capacity = data, capacity
  end
  list.data[list.len] = value
  list.len = list.len + 1
end

local function new_list()
  return { data = ffi.new("int32_t[16]"), len = 0, capacity = 16 }
end

--- Creates a reader of an application's segments. `pause` is called from time to time, between which nothing is waited
-- for; `own` is a segment of this process that is not in the directory, if there is one.
function M.new(dir, app, own)
  return setmetatable({
    dir = dir,
    app = app,
    own = own,
    families = {},
    names = {},
    sources = {},
    contained = {},
    buffer = ffi.new("uint8_t[?]", PIECE),
    buffer_len = PIECE,
    began_ms = sys.monotonic_ms(),
  }, Reader)
end

local function header(fd, bytes)
  if not sys.pread(fd, bytes, MARKS_END, 0) or ffi.string(bytes, 8) ~= "NRTHXSEG" then
    return nil
  end
  local sum = sys.checksum(bytes, 16, 20, 256)
  local words, longs = ffi.cast(u32, bytes), ffi.cast(i64, bytes)
  if words[2] ~= 1 or words[3] ~= 0x01020304 or ffi.cast("int32_t *", bytes)[4] ~= sum then
    return nil
  end
  local app_len, worker_len = ffi.cast(u16, bytes + 108)[0], ffi.cast(u16, bytes + 110)[0]
  local found = {
    fixed = ffi.string(bytes, 256),
    id = ffi.string(bytes + 56, 8),
    role = words[26],
    cells_max = tonumber(longs[4]),
    records_at = tonumber(longs[5]),
    records_max = tonumber(longs[6]),
    app = ffi.string(bytes + 128, math.min(app_len, 64)),
    worker = ffi.string(bytes + 192, math.min(worker_len, 64)),
  }
  local fits = found.cells_max >= 0 and found.cells_max <= CELLS_MAX and found.records_max >= 0
    and found.records_max <= RECORDS_MAX and found.records_at >= HEADER + 8 * found.cells_max
    and segment.is_name(found.app)
  return fits and found or nil
end

--- Makes a source of which nothing is parsed.
local function unread(source)
  source.parsed, source.metrics, source.by_place, source.series, source.drops = 0, {}, {}, {}, {}
  source.cells_used, source.records_used, source.free_cell = 0, 0, 0
  return source
end

--- Opens a file; nil unless it is a segment of the application.
local function open(self, path)
  local fd = sys.open(path, bit.bor(sys.O_RDONLY, sys.O_NOFOLLOW, sys.O_NONBLOCK))
  if not fd then
    return nil
  end
  local head = header(fd, self.buffer)
  if not head or head.app ~= self.app then
    sys.close(fd)
    return nil
  end
  head.fd = fd
  return unread(head)
end

local function close(source)
  if source.fd then
    sys.close(source.fd)
    source.fd = nil
  end
end

local KINDS = { [1] = "counter", [2] = "counter", [3] = "gauge", [4] = "histogram" }

local function slots(kind, bounds, age_ms)
  if kind == 3 then
    return 2
  end
  return (kind == 4 and #bounds + 2 or 1) + (age_ms > 0 and 1 or 0)
end

local function same(family, other)
  if family.kind ~= other.kind or family.merge ~= other.merge or #family.bounds ~= #other.bounds then
    return false
  end
  for at, bound in ipairs(family.bounds) do
    if bound ~= other.bounds[at] then
      return false
    end
  end
  return family.age_ms == other.age_ms
end

--- Parses a metric; nil if it is malformed, false if it is not one that is rendered.
local function metric(self, bytes, len)
  local lens, longs = ffi.cast(u16, bytes), ffi.cast(i64, bytes)
  local name_len, unit_len, help_len, count = lens[8], lens[9], lens[10], lens[11]
  local at = 40 + 8 * count
  if at + name_len + unit_len + help_len > len or count > 1024 then
    return nil
  end
  local kind = bytes[9]
  local name = ffi.string(bytes + at, name_len)
  if not name:find("^[%a_:][%w_:]*$") then
    return nil
  end
  local bounds = {}
  for bound = 1, kind == 4 and count or 0 do
    bounds[bound] = ffi.cast(f64, bytes + 40)[bound - 1]
  end
  local family = {
    name = name,
    kind = kind,
    merge = bytes[10],
    bounds = bounds,
    age_ms = math.max(0, tonumber(longs[4])),
    help = ffi.string(bytes + at + name_len + unit_len, help_len),
  }
  if not KINDS[kind] then
    return false
  end
  family.slots = slots(kind, bounds, family.age_ms)
  local known = self.families[name]
  if known then
    if same(known, family) then
      return known
    end
    -- Another form of a metric waits until everything is read anew.
    self.has_conflict = true
    return false
  end
  family.len, family.capacity, family.by_labels = 0, 0, {}
  family.dropped = {}
  family.ends, family.text, family.text_len, family.text_capacity = new_list(), ffi.new("uint8_t[1]"), 0, 0
  self.families[name] = family
  self.names[#self.names + 1] = name
  self.is_unsorted = true
  return family
end

--- Returns the place of a series in its family, which it joins if it is new there. Sums are filled after all are known.
local function target(family, labels)
  local known = family.by_labels[labels]
  if known then
    return known
  end
  local at = family.len
  if at == family.capacity then
    family.capacity = math.max(64, 2 * at)
    family.sums = ffi.new("double[?]", family.capacity * family.slots)
    family.seen = ffi.new("uint8_t[?]", family.capacity)
  end
  family.by_labels[labels] = at
  family.len = at + 1
  if family.text_len + #labels > family.text_capacity then
    family.text_capacity = math.max(4096, 2 * family.text_capacity, family.text_len + #labels)
    local text = ffi.new("uint8_t[?]", family.text_capacity)
    ffi.copy(text, family.text, family.text_len)
    family.text = text
  end
  ffi.copy(family.text + family.text_len, labels, #labels)
  family.text_len = family.text_len + #labels
  push(family.ends, family.text_len)
  return at
end

local function series(source, bytes, len, place)
  local words = ffi.cast(u32, bytes)
  local owner, first, text_len = source.by_place[words[3]], words[4], words[5]
  if owner == nil or 24 + text_len > len then
    return nil
  end
  local labels = ffi.string(bytes + 24, text_len)
  if labels:find("\n", 1, true) then
    return nil
  end
  local family = owner.family
  if not family then
    return true
  end
  if first < source.free_cell or first + family.slots > source.cells_used then
    return nil
  end
  source.free_cell = first + family.slots
  if family.kind == 3 and family.merge == segment.EACH then
    local label = 'worker="' .. source.worker .. '"'
    labels = labels == "" and label or labels .. "," .. label
  end
  source.series[place] = { owner, owner.first.len }
  push(owner.first, first)
  push(owner.target, target(family, labels))
  return true
end

local function drop(source, place)
  local dropped = source.series[place]
  if dropped then
    local owner, at = dropped[1], dropped[2]
    local ended = owner.target.data[at]
    if ended >= 0 then
      source.drops[#source.drops + 1] = { owner.family, ended }
      owner.target.data[at] = -1
    end
  end
end

--- Parses a record; returns nil if it is malformed.
local function parse(self, source, bytes, len, place)
  local kind = bytes[8]
  if kind == segment.KIND_METRIC then
    local family = metric(self, bytes, len)
    if family == nil then
      return nil
    end
    local switch = ffi.cast(u32, bytes)[3]
    if switch < source.free_cell or switch >= source.cells_used then
      return nil
    end
    source.free_cell = switch + 1
    local owner = { family = family, switch = switch, first = new_list(), target = new_list() }
    source.by_place[place] = owner
    source.metrics[#source.metrics + 1] = owner
    return true
  end
  if kind == segment.KIND_SERIES then
    return series(source, bytes, len, place)
  end
  if kind == segment.KIND_DROPPED then
    drop(source, ffi.cast(u32, bytes)[3])
  elseif kind == segment.KIND_FOLDED then
    for at = 0, math.min(ffi.cast(u32, bytes)[3], (len - 16) / 8) - 1 do
      self.contained[ffi.string(bytes + 16 + 8 * at, 8)] = true
    end
  end
  return true
end

local function marks(source, bytes)
  if source.memory then
    local own = source.memory.marks
    source.records_used, source.cells_used = tonumber(own[1]), tonumber(own[2])
    return true
  end
  if not sys.pread(source.fd, bytes, MARKS_END, 0) or ffi.string(bytes, 256) ~= source.fixed then
    return false
  end
  local found = ffi.cast(i64, bytes + 256)
  local records, cells = tonumber(found[1]), tonumber(found[2])
  local fits = records >= source.parsed and records <= source.records_max
    and cells >= source.cells_used and cells <= source.cells_max
    and sys.length(source.fd) >= source.records_at + records
  if not fits then
    return false
  end
  source.is_closed = tonumber(found[0]) == 2
  source.records_used, source.cells_used = records, cells
  return true
end

--- Copies a part of a source into the buffer; returns where it is.
local function copy(self, source, at, len, pause)
  if source.memory then
    return ffi.cast(u8, source.memory.map + at)
  end
  if len > self.buffer_len then
    self.buffer_len = math.max(len, 2 * self.buffer_len)
    self.buffer = ffi.new("uint8_t[?]", self.buffer_len)
  end
  for done = 0, len - 1, PIECE do
    if not sys.pread(source.fd, self.buffer + done, math.min(PIECE, len - done), at + done) then
      return nil
    end
    pause()
  end
  return self.buffer
end

--- Parses the records that were added. A malformed one may be unfinished: it is tried again in the next round.
local function extend(self, source, pause)
  local len = source.records_used - source.parsed
  local bytes = len > 0 and copy(self, source, source.records_at + source.parsed, len, pause)
  local at = 0
  while bytes and at < len do
    local one = bytes + at
    local size = tonumber(ffi.cast(u32, one)[0])
    if len - at < 16 or size < 16 or size % 8 ~= 0 or size > len - at or size > 1048576 then
      return
    end
    if ffi.cast("int32_t *", one)[1] ~= sys.checksum(one, 4, 8, size) or not parse(self, source, one, size, source.parsed / 8) then
      return
    end
    source.parsed = source.parsed + size
    at = at + size
    pause()
  end
end

local function add_counters(owner, family, values, counts, from, to_end)
  local first, target, sums, seen = owner.first.data, owner.target.data, family.sums, family.seen
  local slots, is_whole, has_age = family.slots, family.kind == 2, family.age_ms > 0
  for at = from, to_end do
    local to, cell = target[at], first[at]
    if to >= 0 then
      local value = is_whole and tonumber(counts[cell]) or values[cell]
      if value >= 0 and value < math.huge then
        sums[to * slots] = sums[to * slots] + value
        seen[to] = 1
      end
      if has_age then
        sums[to * slots + 1] = math.max(sums[to * slots + 1], tonumber(counts[cell + 1]))
      end
    end
  end
end

local function add_histograms(owner, family, values, counts, from, to_end)
  local first, target, sums, seen = owner.first.data, owner.target.data, family.sums, family.seen
  local slots, has_age = family.slots, family.age_ms > 0
  local last = has_age and slots - 2 or slots - 1
  for at = from, to_end do
    local to, cell = target[at], first[at]
    if to >= 0 then
      local base = to * slots
      sums[base] = sums[base] + values[cell]
      for bucket = 1, last do
        sums[base + bucket] = sums[base + bucket] + tonumber(counts[cell + bucket])
      end
      if has_age then
        sums[base + slots - 1] = math.max(sums[base + slots - 1], tonumber(counts[cell + slots - 1]))
      end
      seen[to] = 1
    end
  end
end

local function replaces(merge, value, before, time, before_time)
  if merge == segment.LEAST then
    return value < before or before ~= before
  elseif merge == segment.GREATEST then
    return value > before or before ~= before
  end
  return merge == segment.LAST and time > before_time
end

local function add_gauges(owner, family, values, counts, from, to_end)
  local first, target, sums, seen = owner.first.data, owner.target.data, family.sums, family.seen
  for at = from, to_end do
    local to, cell = target[at], first[at]
    if to >= 0 and counts[cell + 1] ~= REMOVED then
      local value, time, base = values[cell], tonumber(counts[cell + 1]), 2 * to
      if seen[to] == 0 or replaces(family.merge, value, sums[base], time, sums[base + 1]) then
        sums[base], sums[base + 1] = value, time
      elseif family.merge == segment.SUM then
        sums[base] = sums[base] + value
        sums[base + 1] = math.max(sums[base + 1], time)
      end
      seen[to] = 1
    end
  end
end

local ADD = { add_counters, add_counters, add_gauges, add_histograms }

--- Adds a source's cells to the sums; gauges only of a live writer.
local function add(self, source, is_dead, pause)
  local bytes = copy(self, source, HEADER, 8 * source.cells_used, pause)
  if not bytes then
    return
  end
  local values, counts, switches = ffi.cast(f64, bytes), ffi.cast(i64, bytes), ffi.cast(u32, bytes)
  for _, owner in ipairs(source.metrics) do
    local family = owner.family
    local is_on = switches[2 * owner.switch] == 0 and switches[2 * owner.switch + 1] == 0
    if family and is_on and not (is_dead and family.kind == 3) then
      local add_some = ADD[family.kind]
      for from = 0, owner.first.len - 1, SOME do
        add_some(owner, family, values, counts, from, math.min(from + SOME, owner.first.len) - 1)
        pause()
      end
    end
  end
end

--- Copies header and new records of a source; returns whether it is one.
local function update(self, source, pause)
  if not marks(source, self.buffer) then
    return false
  end
  extend(self, source, pause)
  return true
end

local function forget(self, name)
  local source = self.sources[name]
  if source then
    close(source)
    self.sources[name] = nil
  end
end

--- Whether the writer of an open segment has ended: it holds its lock as long as it lives.
local function is_dead(source)
  if sys.flock(source.fd, sys.LOCK_SH) then
    sys.flock(source.fd, sys.LOCK_UN)
    return true
  end
  return false
end

--- Reads the retired counts again if they were replaced.
local function read_retired(self, pause)
  local source = open(self, self.dir .. "/" .. self.app .. ".retired")
  local known = self.retired
  if source and known and source.fixed == known.fixed then
    close(source)
    return
  end
  if known then
    close(known)
  end
  self.retired, self.contained = source, {}
  if source and not (source.role == 1 and update(self, source, pause)) then
    close(source)
    self.retired = nil
  end
end

--- Returns what tells one file of retired counts from the next.
local function retired_identity(self)
  local source = open(self, self.dir .. "/" .. self.app .. ".retired")
  if source then
    close(source)
    return source.fixed
  end
end

--- Opens segments that appeared, and closes those that are gone.
local function look(self, pause)
  local found = {}
  for _, name in ipairs(sys.names(self.dir, self.app .. "-", ".segment")) do
    if not self.only or self.only[name] then
      found[name] = true
      self.sources[name] = self.sources[name] or open(self, self.dir .. "/" .. name)
    end
  end
  for name in pairs(self.sources) do
    if not found[name] then
      forget(self, name)
    end
  end
  local live, dead = {}, {}
  for name, source in pairs(self.sources) do
    source.is_dead = is_dead(source)
    local list = source.is_dead and dead or live
    list[#list + 1] = name
  end
  -- Where metrics differ, those of live writers are shown.
  for _, list in ipairs({ live, dead }) do
    for _, name in ipairs(list) do
      local source = self.sources[name]
      local is_good = update(self, source, pause)
      source.is_dead = source.is_dead or source.is_closed
      if not is_good then
        forget(self, name)
      end
    end
  end
end

local function clear(self)
  for _, family in pairs(self.families) do
    if family.capacity > 0 then
      ffi.fill(family.sums, 8 * family.capacity * family.slots)
      ffi.fill(family.seen, family.capacity)
    end
    family.dropped = {}
  end
end

local function add_retired(self, pause)
  local source = self.retired
  if not source then
    return
  end
  for _, other in pairs(self.sources) do
    for _, dropped in ipairs(other.drops) do
      if dropped[1] then
        dropped[1].dropped[dropped[2]] = true
      end
    end
  end
  for _, owner in ipairs(source.metrics) do
    local dropped = owner.family and owner.family.dropped
    for at = 0, owner.target.len - 1 do
      if dropped and dropped[owner.target.data[at]] then
        owner.target.data[at] = -1
      end
    end
  end
  add(self, source, true, pause)
end

--- Forgets everything that was parsed, so that metrics may have another form.
local function begin_anew(self)
  self:close()
  self.families, self.names, self.sources, self.contained = {}, {}, {}, {}
  self.own_source, self.retired, self.has_conflict = nil, nil, false
  self.began_ms = sys.monotonic_ms()
end

--- Reads every segment once. Counts that are moved to the retired ones meanwhile are neither missed nor counted twice.
function Reader:read(pause)
  if self.has_conflict and sys.monotonic_ms() - self.began_ms > 10000 then
    begin_anew(self)
  end
  for _ = 1, 3 do
    local before = retired_identity(self)
    look(self, pause)
    read_retired(self, pause)
    clear(self)
    add_retired(self, pause)
    for _, source in pairs(self.sources) do
      if not self.contained[source.id] then
        add(self, source, source.is_dead, pause)
      end
    end
    if self.own then
      self.own_source = self.own_source
        or unread({ memory = self.own, worker = "", records_at = self.own.record_area.offset })
      update(self, self.own_source, pause)
      add(self, self.own_source, false, pause)
    end
    if retired_identity(self) == before then
      break
    end
  end
end

--- Returns the names of the segments of an application whose writers have ended, as a set.
function M.dead(dir, app)
  local self, dead = M.new(dir, app), {}
  for _, name in ipairs(sys.names(dir, app .. "-", ".segment")) do
    local source = open(self, dir .. "/" .. name)
    if source then
      dead[name] = is_dead(source) or (marks(source, self.buffer) and source.is_closed) or nil
      close(source)
    end
  end
  return dead
end

--- Closes all files.
function Reader:close()
  for name in pairs(self.sources) do
    forget(self, name)
  end
  if self.retired then
    close(self.retired)
  end
end

--- Returns the families by name; each has `len` series, of which `seen` says which were found in the last round.
function Reader:sorted()
  if self.is_unsorted then
    table.sort(self.names)
    self.is_unsorted = false
  end
  return self.names, self.families
end

M.KINDS = KINDS
return M
