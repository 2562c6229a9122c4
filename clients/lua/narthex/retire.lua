--- Keeps the counts of workers that ended, where no server reads the directory: adds them to APP.retired, and removes
--- their segments. Bytes: docs/format/segment.md
--
-- The file names every segment that it contains before that is removed, so a worker that is killed in between makes
-- nobody count it twice. A server that reads the directory holds its lock, and does this itself.

local bit = require("bit")
local reader = require("narthex.reader")
local segment = require("narthex.segment")
local sys = require("narthex.sys")

local ffi = require("ffi")

local M = {}

local UNFINISHED_MS = 60000

local function lock(dir)
  local path = dir .. "/reader.lock"
  -- A server may have created it as another user.
  local fd = sys.open(path, sys.O_RDONLY) or sys.open(path, bit.bor(sys.O_RDWR, sys.O_CREAT), 432)
  if fd and not sys.flock(fd, sys.LOCK_EX) then
    sys.close(fd)
    return nil
  end
  return fd
end

--- Makes a segment of what the reader added up.
local function render(sums, options, ids, pause)
  local retired, err = segment.in_memory({ app = options.app, role = 1, max_cells = 8388608, max_label_bytes = 268435456 })
  if not retired then
    return nil, err
  end
  local names, families = sums:sorted()
  for _, name in ipairs(names) do
    local family = families[name]
    local place = family.kind ~= 3 and retired:metric(family)
    for at = 0, place and family.len - 1 or -1 do
      local from = at > 0 and family.ends.data[at - 1] or 0
      local first = family.seen[at] ~= 0
        and retired:series(place, ffi.string(family.text + from, family.ends.data[at] - from), family.slots)
      for slot = 0, first and family.slots - 1 or -1 do
        local value = family.sums[at * family.slots + slot]
        if slot == 0 and family.kind ~= 2 then
          retired.cells[first] = value
        else
          retired.counts[first + slot] = value
        end
      end
      pause()
    end
  end
  local ok
  ok, err = retired:folded(ids)
  return ok and retired, err
end

local function fold(options, dead, pause)
  local sums = reader.new(options.dir, options.app)
  sums.only = dead
  sums:read(pause)
  local ids, paths = {}, {}
  for name, source in pairs(sums.sources) do
    ids[#ids + 1] = source.id
    paths[#paths + 1] = options.dir .. "/" .. name
  end
  local path = options.dir .. "/" .. options.app .. ".retired"
  local retired, err = render(sums, options, ids, pause)
  local ok
  if retired then
    ok, err = retired:save(path .. ".new")
    retired:close()
  end
  if ok then
    ok, err = sys.rename(path .. ".new", path)
  end
  for _, gone in ipairs(ok and paths or {}) do
    sys.unlink(gone)
  end
  sums:close()
  return ok, err
end

--- Removes what workers were creating when they ended, once it is so old that nobody can be at it. `seen` keeps since when
-- this process knows of each.
local function remove_unfinished(options, seen)
  local now_ms, still = sys.monotonic_ms(), {}
  for _, name in ipairs(sys.names(options.dir, options.app .. "-", ".segment.new")) do
    local since = seen[name] or now_ms
    if now_ms - since <= UNFINISHED_MS or not sys.unlink(options.dir .. "/" .. name) then
      still[name] = since
    end
  end
  for name in pairs(seen) do
    seen[name] = nil
  end
  for name, since in pairs(still) do
    seen[name] = since
  end
end

--- Takes over the counts of the application's ended workers; returns how many, or nil and why not. `options` has dir, app and
-- unfinished, a table that is kept between calls.
function M.run(options, pause)
  local fd = lock(options.dir)
  if not fd then
    return 0
  end
  remove_unfinished(options, options.unfinished or {})
  local dead, count = reader.dead(options.dir, options.app), 0
  for _ in pairs(dead) do
    count = count + 1
  end
  local ok, err = true, nil
  if count > 0 then
    ok, err = fold(options, dead, pause)
  end
  sys.close(fd)
  return ok and count or nil, err
end

return M
