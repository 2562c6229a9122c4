--- Counts until it is killed: luajit count.lua DIR LOG. Each byte of the log stands for something that was counted before.

local here = arg[0]:match("^(.*)/")
package.path = here .. "/?.lua;" .. here .. "/../?.lua;" .. package.path
require("stub")
local ffi = require("ffi")
ffi.cdef("int usleep(unsigned int microseconds);")

local p = require("prometheus").init("metrics", { dir = arg[1], app = "lua" })
local requests = p:counter("pool_requests_total", "Requests.", { "path" })
local seconds = p:histogram("pool_seconds", "Times.", nil, { 0.5, 1.5 })
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
