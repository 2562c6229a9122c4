--- Writes the metrics of clients/vectors/segment.txt into the directory given, and waits until its input ends. Then it
-- shows its own page.

local here = arg[0]:match("^(.*)/")
package.path = here .. "/?.lua;" .. here .. "/../?.lua;" .. package.path
require("stub")

local p = require("prometheus").init("metrics", {
  dir = arg[1], app = "vector", worker = "0", gauge_merge = { open = "sum", free = "each" },
})
local requests = p:counter("requests_total", 'Requests: "quoted", \\ and\ngröße.', { "code", "path" })
local size = p:histogram("size", "Sizes.", { "kind" }, { 0.5, 1.5 })
local open = p:gauge("open", "Open.")
local free = p:gauge("free", "Free.")
requests:inc(2.5, { "200", '/a"\\\n' })
requests:inc(-1, { "200", '/a"\\\n' })
requests:inc(1, { "größe", "日本/🦀" })
requests:inc(3, { "", "\\n" })
requests:inc(4, { "\t", 'a,b}={"c\\"=1' })
for _, value in ipairs({ 0.5, 0.75, 9, -1 }) do
  size:observe(value, { "b" })
end
open:set(-3)
free:set(7)
print("ready")
io.stdout:flush()
io.read("*a")
io.write(table.concat(p:metric_data()))
p._worker.segment:close()
