--- Writes the metrics of clients/vectors/segment.txt into the directory given, and waits until its input ends.

local here = arg[0]:match("^(.*)/")
package.path = here .. "/?.lua;" .. here .. "/../?.lua;" .. package.path
require("stub")

local p = require("prometheus").init("metrics", {
  dir = arg[1], app = "vector", worker = "0", gauge_merge = { open = "sum", free = "each" },
})
local requests = p:counter("requests_total", "R.", { "code", "path" })
local size = p:histogram("size", "S.", { "kind" }, { 0.5, 1.5 })
local open = p:gauge("open", "O.")
local free = p:gauge("free", "F.")
requests:inc(2.5, { "200", '/a"\\\n' })
requests:inc(-1, { "200", '/a"\\\n' })
for _, value in ipairs({ 0.5, 0.75, 9, -1 }) do
  size:observe(value, { "b" })
end
open:set(-3)
free:set(7)
print("ready")
io.stdout:flush()
io.read("*a")
p._worker.segment:close()
