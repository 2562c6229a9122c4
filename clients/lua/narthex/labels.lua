--- Names and label values as the text format wants them.

local byte, find, gsub, sub = string.byte, string.find, string.gsub, string.sub

local M = {}

--- Returns the range in which the byte after a first one lies, and how many follow; nil if none may begin so.
local function follows(first)
  if first >= 0xC2 and first <= 0xDF then
    return 1, 0x80, 0xBF
  elseif first >= 0xE0 and first <= 0xEF then
    return 2, first == 0xE0 and 0xA0 or 0x80, first == 0xED and 0x9F or 0xBF
  elseif first >= 0xF0 and first <= 0xF4 then
    return 3, first == 0xF0 and 0x90 or 0x80, first == 0xF4 and 0x8F or 0xBF
  end
end

--- Returns the text up to its first byte that is not UTF-8.
function M.utf8(text)
  local at = find(text, "[\128-\255]")
  while at do
    local count, low, high = follows(byte(text, at))
    for offset = 1, count or 0 do
      local next_byte = byte(text, at + offset)
      if not next_byte or next_byte < low or next_byte > high then
        count = nil
        break
      end
      low, high = 0x80, 0xBF
    end
    if not count then
      return sub(text, 1, at - 1)
    end
    at = find(text, "[\128-\255]", at + count + 1)
  end
  return text
end

local ESCAPES = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n" }

--- Renders labels, `a="x",b="y"`: whatever the values are.
function M.render(names, values)
  local parts = {}
  for at, name in ipairs(names) do
    local value = tostring(values[at])
    parts[at] = name .. '="' .. gsub(M.utf8(value), '[\\"\n]', ESCAPES) .. '"'
  end
  return table.concat(parts, ",")
end

--- Returns what is wrong with the names of a metric and its labels, if anything is.
function M.check(metric, names)
  if type(metric) ~= "string" or not find(metric, "^[a-zA-Z_:][a-zA-Z0-9_:]*$") then
    return "Metric name '" .. tostring(metric) .. "' is invalid"
  end
  if #(names or {}) > 64 then
    return "Metric '" .. metric .. "' has more than 64 labels"
  end
  for _, name in ipairs(names or {}) do
    if name == "le" then
      return "Invalid label name 'le' in " .. metric
    elseif not find(name, "^[a-zA-Z_][a-zA-Z0-9_]*$") or name == "__name__" then
      return "Metric '" .. metric .. "' label name '" .. name .. "' is invalid"
    end
  end
end

--- Shows label values in a message.
function M.shown(values)
  if type(values) ~= "table" then
    return tostring(values)
  end
  local parts = {}
  for at = 1, #values do
    parts[at] = tostring(values[at])
  end
  return "<" .. table.concat(parts, ",") .. ">"
end

return M
