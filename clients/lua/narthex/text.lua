--- Renders what a reader added up in the text format, in strings of some ten kilobytes.

local ffi = require("ffi")
local reader = require("narthex.reader")
local floor = math.floor

local CHUNK = 65536
local WHOLE_MAX = 9007199254740992

local M = {}

--- Formats a number as briefly as it can be read back.
local function number(value)
  if value ~= value then
    return "NaN"
  elseif value == math.huge then
    return "+Inf"
  elseif value == -math.huge then
    return "-Inf"
  end
  for _, format in ipairs({ "%.15g", "%.16g" }) do
    local text = format:format(value)
    if tonumber(text) == value then
      return text
    end
  end
  return ("%.17g"):format(value)
end
M.number = number

local digits = ffi.new("uint8_t[24]")

local Out = {}
Out.__index = Out

local function new_out(sink)
  return setmetatable({ bytes = ffi.new("uint8_t[?]", CHUNK), capacity = CHUNK, len = 0, sink = sink }, Out)
end

function Out:flush()
  if self.len > 0 then
    self.sink(ffi.string(self.bytes, self.len))
    self.len = 0
  end
end

--- Makes room for so many bytes.
local function room(self, len)
  if self.len + len > self.capacity then
    self:flush()
    if len > self.capacity then
      self.bytes, self.capacity = ffi.new("uint8_t[?]", len), len
    end
  end
end

local function put(self, text)
  room(self, #text)
  ffi.copy(self.bytes + self.len, text, #text)
  self.len = self.len + #text
end

local function put_bytes(self, bytes, len)
  room(self, len)
  ffi.copy(self.bytes + self.len, bytes, len)
  self.len = self.len + len
end

local function put_number(self, value)
  if value ~= floor(value) or value >= WHOLE_MAX or value <= -WHOLE_MAX then
    put(self, number(value))
    return
  end
  room(self, 24)
  local bytes, len = self.bytes, self.len
  if value < 0 then
    bytes[len] = 45
    len, value = len + 1, -value
  end
  local count = 0
  repeat
    local rest = floor(value / 10)
    digits[count] = 48 + (value - rest * 10)
    count, value = count + 1, rest
  until value == 0
  for at = count - 1, 0, -1 do
    bytes[len] = digits[at]
    len = len + 1
  end
  self.len = len
end

--- Writes a sample: its name, the series' labels and one more, its value.
local function sample(self, name, labels, labels_len, own, value)
  put(self, name)
  if labels_len > 0 or own then
    put(self, "{")
    put_bytes(self, labels, labels_len)
    if own then
      if labels_len > 0 then
        put(self, ",")
      end
      put(self, own)
    end
    put(self, "} ")
  else
    put(self, " ")
  end
  put_number(self, value)
  put(self, "\n")
end

local function names_of(family)
  if family.bucket_name == nil then
    local name = family.name
    family.bucket_name, family.sum_name, family.count_name = name .. "_bucket", name .. "_sum", name .. "_count"
    family.les = {}
    for at, bound in ipairs(family.bounds) do
      family.les[at] = 'le="' .. number(bound) .. '"'
    end
    family.les[#family.bounds + 1] = 'le="+Inf"'
  end
end

local function histogram(self, family, at, labels, len)
  local base, sums, total = at * family.slots, family.sums, 0
  for bucket, le in ipairs(family.les) do
    total = total + sums[base + bucket]
    sample(self, family.bucket_name, labels, len, le, total)
  end
  sample(self, family.sum_name, labels, len, nil, sums[base])
  sample(self, family.count_name, labels, len, nil, total)
end

--- When a series was last updated, if it may become too old to be shown.
local function is_fresh(family, at, now_ms)
  if family.age_ms == 0 then
    return true
  end
  return family.sums[(at + 1) * family.slots - 1] >= now_ms - family.age_ms
end

local function one_family(self, family, now_ms, pause)
  local has_head = false
  local ends, seen = family.ends.data, family.seen
  names_of(family)
  for at = 0, family.len - 1 do
    if seen[at] ~= 0 and is_fresh(family, at, now_ms) then
      if not has_head then
        has_head = true
        local help = family.help:gsub("\\", "\\\\"):gsub("\n", "\\n")
        if help ~= "" then
          put(self, "# HELP " .. family.name .. " " .. help .. "\n")
        end
        put(self, "# TYPE " .. family.name .. " " .. reader.KINDS[family.kind] .. "\n")
      end
      local from = at > 0 and ends[at - 1] or 0
      local labels, len = family.text + from, ends[at] - from
      if family.kind == 4 then
        histogram(self, family, at, labels, len)
      else
        sample(self, family.name, labels, len, nil, family.sums[at * family.slots])
      end
      pause()
    end
  end
end

--- Gives the text to `sink`, piece by piece; `pause` is called after every series.
function M.render(source, now_ms, sink, pause)
  local out = new_out(sink)
  local names, families = source:sorted()
  for _, name in ipairs(names) do
    one_family(out, families[name], now_ms, pause)
  end
  out:flush()
end

return M
