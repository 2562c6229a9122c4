--- The segment of this process: metrics in a file that other processes copy. Bytes: docs/format/segment.md
--
-- One process writes it, from one thread, each cell with one store of 8 bytes. Without a file it is memory of this
-- process, laid out alike, so that what counts never looks at which it is.

local ffi = require("ffi")
local bit = require("bit")
local sys = require("narthex.sys")

local HEADER = 4096
-- Room is taken in pieces of this size.
local STEP = 65536
local RECORD_MAX = 1048576
local HELP_MAX = 32768

local M = { COUNTER = 1, GAUGE = 3, HISTOGRAM = 4, SUM = 0, LEAST = 1, GREATEST = 2, LAST = 3, EACH = 4 }
M.KIND_METRIC, M.KIND_SERIES, M.KIND_FOLDED, M.KIND_DROPPED = 1, 2, 3, 4

local Segment = {}
Segment.__index = Segment

local u8 = ffi.typeof("uint8_t *")
local u16 = ffi.typeof("uint16_t *")
local u32 = ffi.typeof("uint32_t *")
local i64 = ffi.typeof("int64_t *")
local f64 = ffi.typeof("double *")

local function put(kind, at, value)
  ffi.cast(kind, at)[0] = value
end

local function rounded(len, step)
  return math.ceil(len / step) * step
end

--- Makes room in an area; returns nil and why not.
local function grow(self, area, len)
  local needed = area.used + len
  if needed <= area.allocated then
    return true
  end
  if needed > area.reserved then
    return nil, "the segment is full"
  end
  local target = math.min(rounded(needed, STEP), area.reserved)
  if self.fd then
    local ok, err = sys.allocate(self.fd, area.offset + area.allocated, target - area.allocated)
    if not ok then
      return nil, err
    end
  end
  area.allocated = target
  return true
end

local function area(offset, reserved)
  return { offset = offset, used = 0, allocated = 0, reserved = reserved }
end

local function write_header(self, options)
  local map, process = self.map, sys.process()
  ffi.copy(map, "NRTHXSEG", 8)
  put(u32, map + 8, 1)
  put(u32, map + 12, 0x01020304)
  put(i64, map + 24, HEADER)
  put(i64, map + 32, self.cell_area.reserved / 8)
  put(i64, map + 40, self.record_area.offset)
  put(i64, map + 48, self.record_area.reserved)
  put(i64, map + 64, sys.now_ms())
  put(u32, map + 104, options.role or 0)
  if not options.role then
    put(u32, map + 20, process.pid)
    ffi.copy(map + 56, self.id, 8)
    put(i64, map + 72, process.start)
    put(i64, map + 80, process.namespace)
    ffi.copy(map + 88, process.boot, 16)
  end
  local worker = options.worker or ""
  put(u16, map + 108, #options.app)
  put(u16, map + 110, #worker)
  ffi.copy(map + 128, options.app, #options.app)
  ffi.copy(map + 192, worker, #worker)
  put("int32_t *", map + 16, sys.checksum(ffi.cast(u8, map), 16, 20, 256))
  self.marks[0] = 1
end

--- Whether a name may be a part of a file's name.
function M.is_name(name)
  return #name <= 64 and name:find("^[%w_-][%w_.-]*$") ~= nil
end

local function new(options)
  local cells = rounded(8 * (options.max_cells or 2097152), STEP)
  local records = rounded(options.max_label_bytes or 67108864, STEP)
  return setmetatable({
    cell_area = area(HEADER, math.min(cells, 67108864)),
    record_area = area(HEADER + math.min(cells, 67108864), math.min(records, 268435456)),
  }, Segment)
end

--- Maps the areas; a file's are allocated before anything is written to them.
local function fill(self, options)
  self.len = self.record_area.offset + self.record_area.reserved
  if self.fd then
    local ok, err = sys.truncate(self.fd, self.len)
    if ok then
      ok, err = sys.allocate(self.fd, 0, HEADER)
    end
    if not ok then
      return nil, err
    end
  end
  for _, one in ipairs({ self.cell_area, self.record_area }) do
    local ok, err = grow(self, one, 1)
    if not ok then
      return nil, err
    end
  end
  local map, err = sys.map(self.fd, self.len)
  if not map then
    return nil, err
  end
  self.map = map
  -- What bucket cells hold, as floats: reading an integer cell would allocate where it is not compiled.
  local shadow = sys.map(nil, self.cell_area.reserved)
  if not shadow then
    return nil, "no memory"
  end
  self.shadow = ffi.cast(f64, shadow)
  self.cells = ffi.cast(f64, map + HEADER)
  self.counts = ffi.cast(i64, map + HEADER)
  self.switches = ffi.cast("int32_t *", map + HEADER)
  self.marks = ffi.cast(i64, map + 256)
  write_header(self, options)
  return true
end

--- Creates a segment in options.dir for options.app; nil and why not if there is no room or no permission.
function M.create(options)
  local self = new(options)
  self.id = ffi.new("uint8_t[8]")
  if not sys.random(self.id) then
    return nil, "no random numbers"
  end
  local id = ffi.string(self.id, 8):gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
  local pid = sys.process().pid
  self.path = ("%s/%s-%d-%s.segment"):format(options.dir, options.app, pid, id)
  local temporary = self.path .. ".new"
  local flags = bit.bor(sys.O_RDWR, sys.O_CREAT, sys.O_EXCL)
  local fd, err = sys.open(temporary, flags, options.mode or 416)
  if not fd then
    return nil, err
  end
  self.fd = fd
  local ok = sys.flock(fd, sys.LOCK_EX)
  if ok then
    ok, err = fill(self, options)
  end
  if ok then
    ok, err = sys.rename(temporary, self.path)
  end
  if not ok then
    sys.unlink(temporary)
    sys.close(fd)
    return nil, err or "it is locked"
  end
  return self
end

--- Creates one in memory of this process, which no other process reads.
function M.in_memory(options)
  local self = new(options)
  self.id = ffi.new("uint8_t[8]")
  local ok, err = fill(self, options)
  if not ok then
    return nil, err
  end
  return self
end

--- Appends a record of `len` bytes with cells, whose first is written at `cell_at`; returns that cell and the record's
-- place, or nil and why not.
local function push(self, record, len, cell_at, cells)
  local cell_area, record_area = self.cell_area, self.record_area
  local ok, err = grow(self, cell_area, 8 * cells)
  if ok then
    ok, err = grow(self, record_area, len)
  end
  if not ok or len > RECORD_MAX then
    return nil, err or "too many labels"
  end
  local first, place = cell_area.used / 8, record_area.used / 8
  put(u32, record, len)
  if cell_at then
    put(u32, record + cell_at, first)
  end
  put("int32_t *", record + 4, sys.checksum(record, 4, 8, len))
  ffi.copy(self.map + record_area.offset + record_area.used, record, len)
  cell_area.used = cell_area.used + 8 * cells
  record_area.used = record_area.used + len
  -- Where stores may be seen in another order, a reader that sees the mark first finds a wrong checksum, and tries again.
  self.marks[2] = cell_area.used / 8
  self.marks[1] = record_area.used
  return first, place
end

local function record(len)
  local bytes = ffi.new("uint8_t[?]", rounded(len, 8))
  return bytes, rounded(len, 8)
end

--- Adds a metric. `metric` has kind, name, and of its kind: merge, bounds; help, and age_ms, after which a series that is
-- not updated is not shown. Returns its place and the cell of its switch, or nil and why not.
function Segment:metric(metric)
  local bounds, help = metric.bounds or {}, (metric.help or ""):sub(1, HELP_MAX)
  local used = 40 + 8 * #bounds + #metric.name + #help
  if #bounds > 1024 or #metric.name > HELP_MAX then
    return nil, "too many buckets"
  end
  local bytes, len = record(used)
  bytes[8], bytes[9], bytes[10] = M.KIND_METRIC, metric.kind, metric.merge or 0
  put(u16, bytes + 16, #metric.name)
  put(u16, bytes + 20, #help)
  put(u16, bytes + 22, #bounds)
  put(i64, bytes + 32, metric.age_ms or 0)
  local at = bytes + 40
  for _, bound in ipairs(bounds) do
    put(f64, at, bound)
    at = at + 8
  end
  ffi.copy(at, metric.name, #metric.name)
  ffi.copy(at + #metric.name, help, #help)
  local switch, place = push(self, bytes, len, 12, 1)
  if not switch then
    return nil, place
  end
  return place, switch
end

--- Adds a series of the metric at a place; returns its first cell and its own place, or nil and why not.
function Segment:series(metric, labels, cells)
  local bytes, len = record(24 + #labels)
  bytes[8] = M.KIND_SERIES
  put(u32, bytes + 12, metric)
  put(u32, bytes + 20, #labels)
  ffi.copy(bytes + 24, labels, #labels)
  return push(self, bytes, len, 16, cells)
end

--- Says that the series whose record is at a place has ended; what it counted counts no more.
function Segment:drop(place)
  local bytes, len = record(16)
  bytes[8] = M.KIND_DROPPED
  put(u32, bytes + 12, place)
  return push(self, bytes, len, nil, 0)
end

--- Counts a series that there was no room for.
function Segment:refuse()
  self.marks[3] = self.marks[3] + 1
end

--- Adds the identities of segments that are contained, as strings of 8 bytes.
function Segment:folded(ids)
  for from = 1, #ids, 4096 do
    local part = table.concat(ids, "", from, math.min(from + 4095, #ids))
    local bytes, len = record(16 + #part)
    bytes[8] = M.KIND_FOLDED
    put(u32, bytes + 12, #part / 8)
    ffi.copy(bytes + 16, part, #part)
    local ok, err = push(self, bytes, len, nil, 0)
    if not ok then
      return nil, err
    end
  end
  return true
end

--- Writes a segment that is in memory to a file; nil and why not.
function Segment:save(path)
  local fd, err = sys.open(path, bit.bor(sys.O_WRONLY, sys.O_CREAT, sys.O_TRUNC), 416)
  if not fd then
    return nil, err
  end
  -- Its areas are as long as they are used.
  local map = self.map
  put(i64, map + 32, self.cell_area.used / 8)
  put(i64, map + 40, HEADER + self.cell_area.used)
  put(i64, map + 48, self.record_area.used)
  put("int32_t *", map + 16, sys.checksum(ffi.cast(u8, map), 16, 20, 256))
  local ok
  ok, err = sys.write(fd, map, HEADER + self.cell_area.used)
  if ok then
    ok, err = sys.write(fd, map + self.record_area.offset, self.record_area.used)
  end
  sys.close(fd)
  if not ok then
    sys.unlink(path)
  end
  return ok, err
end

--- Ends the segment; nothing may be counted in it afterwards.
function Segment:close()
  self.marks[0] = 2
  sys.unmap(self.map, self.len)
  sys.unmap(ffi.cast("char *", self.shadow), self.cell_area.reserved)
  if self.fd then
    sys.close(self.fd)
  end
end

return M
