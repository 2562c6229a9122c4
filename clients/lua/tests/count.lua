--- Counts until it is killed: count.lua DIR LOG [SERIES]. Each byte of the log stands for something that was counted before.
--
-- Before that it makes so many more series, says how many were refused, and goes on whatever there is room for.

local here = arg[0]:match("^(.*)/")
package.path = here .. "/?.lua;" .. here .. "/../?.lua;" .. package.path
local stub = require("stub")
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int microseconds);")

local p = require("prometheus").init("metrics", { dir = arg[1], app = "lua" })
local requests = p:counter("pool_requests_total", "Requests.", { "path" })
local seconds = p:histogram("pool_seconds", "Times.", nil, { 0.5, 1.5 })
for path = 0, 6 do
  requests:inc(0, { path })
end
local filler = p:counter("filler_total", "Takes room.", { "number" })
for number = 1, tonumber(arg[3] or 0) do
  filler:inc(1, { number })
end
io.stderr:write(table.concat(stub.logs, "\n"))
local errors = table.concat(p:metric_data()):match("\nnginx_metric_errors_total (%d+)")
io.write("refused ", errors, "\n")
io.stdout:flush()
local log = assert(io.open(arg[2], "a"))
log:setvbuf("no")
local number = 0
while true do
  requests:inc(1, { number % 7 })
  seconds:observe(1)
  log:write(".")
  number = number + 1
  ffi.C.usleep(500)
end
