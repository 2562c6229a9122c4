--- Tests without nginx: luajit tests/unit.lua DIRECTORY, which is empty.

local here = arg[0]:match("^(.*)/")
package.path = here .. "/?.lua;" .. here .. "/../?.lua;" .. package.path
local stub = require("stub")
local ffi = require("ffi")
local sys = require("narthex.sys")
local retire = require("narthex.retire")

local made = 0
local function directory()
  made = made + 1
  return arg[1] .. "/" .. made
end

--- Starts a worker of an application.
local function worker(dir, options, dict)
  stub.logs, stub.timers, stub.soon, stub.phase = {}, {}, {}, "init_worker"
  ngx.shared.metrics = dict or stub.new_dict()
  options = options or {}
  options.dir = dir
  return stub.library().init("metrics", options)
end

local function equal(found, expected, what)
  if found ~= expected then
    error(("%s:\nfound:    %s\nexpected: %s"):format(what or "", tostring(found), tostring(expected)), 2)
  end
end

local function exposed(p)
  return table.concat(p:metric_data())
end

--- Returns the samples of a page that contain a text.
local function samples(p, part)
  local found = {}
  for line in exposed(p):gmatch("[^\n]+") do
    if line:sub(1, 1) ~= "#" and line:find(part, 1, true) then
      found[#found + 1] = line
    end
  end
  return table.concat(found, "\n")
end

local function errors(p)
  return tonumber(samples(p, p.prefix .. p.error_metric_name):match("(%d+)$"))
end

local tests = {}

function tests.counters_gauges_and_histograms_are_exposed()
  local p = worker(directory(), { prefix = "g_" })
  local plain = p:counter("plain", "Two\nlines \\ here.")
  local labelled = p:counter("labelled", "L.", { "host", "code" })
  local temperature = p:gauge("temperature", nil, { "place" })
  local sizes = p:histogram("sizes", "S.", { "kind" }, { 10, 0.5 })
  plain:inc()
  plain:inc(4)
  labelled:inc(0.25, { "a", 200 })
  labelled:inc(1, { "a", "200" })
  temperature:set(-3.5, { "x" })
  temperature:set("12", { "y" })
  for _, value in ipairs({ 0.5, 7, 70, "8" }) do
    sizes:observe(value, { "k" })
  end
  equal(exposed(p), [[
# HELP g_labelled L.
# TYPE g_labelled counter
g_labelled{host="a",code="200"} 1.25
# HELP g_nginx_metric_errors_total Number of nginx-lua-prometheus errors
# TYPE g_nginx_metric_errors_total counter
g_nginx_metric_errors_total 0
# HELP g_plain Two\nlines \\ here.
# TYPE g_plain counter
g_plain 5
# HELP g_sizes S.
# TYPE g_sizes histogram
g_sizes_bucket{kind="k",le="0.5"} 1
g_sizes_bucket{kind="k",le="10"} 3
g_sizes_bucket{kind="k",le="+Inf"} 4
g_sizes_sum{kind="k"} 85.5
g_sizes_count{kind="k"} 4
# TYPE g_temperature gauge
g_temperature{place="x"} -3.5
g_temperature{place="y"} 12
]])
  equal(#stub.logs, 0)
  p:collect()
  equal(table.concat(stub.printed), exposed(p), "collect")
end

function tests.label_values_are_escaped_and_cut_at_bytes_that_are_not_utf8()
  local p = worker(directory())
  local c = p:counter("c", "", { "a", "b" })
  for _, pair in ipairs({
    { "foo", "baz\189\166qux" }, { "bad1\195\195bad", "bad2\224\161\209bad" },
    { "bad3\240\144\129\192bad", "bad4\242\129\210bad" }, { "¢€𤭢", "Pay in €." },
    { "\224\143\175", "\237\129\128" }, { "\244\143\143\143", "\244" }, { '"\\', "x\ny" }, { true, -3 },
  }) do
    c:inc(1, pair)
  end
  equal(samples(p, "c{"), [[
c{a="foo",b="baz"} 1
c{a="bad1",b="bad2"} 1
c{a="bad3",b="bad4"} 1
c{a="¢€𤭢",b="Pay in €."} 1
c{a="",b="]] .. "\237\129\128" .. [["} 1
c{a="]] .. "\244\143\143\143" .. [[",b=""} 1
c{a="\"\\",b="x\ny"} 1
c{a="true",b="-3"} 1]])
end

function tests.wrong_calls_are_logged_and_counted()
  local p = worker(directory())
  local plain, two = p:counter("plain"), p:counter("two", "", { "a", "b" })
  local gauge, histogram = p:gauge("gauge"), p:histogram("histogram", "", { "a" })
  local calls = {
    function() plain:inc(-5) end, function() plain:inc(0 / 0) end, function() plain:inc("x") end,
    function() plain:inc(1, { "one" }) end, function() two:inc(1, { "one" }) end, function() two:inc(1, { nil, "b" }) end,
    function() two:inc(1) end, function() two:inc(1, { "a", "b", "c" }) end, function() gauge:set() end,
    function() histogram:observe(nil, { "a" }) end, function() histogram:observe(1) end,
    function() p:counter("plain") end, function() p:counter("histogram_sum") end, function() p:histogram("plain") end,
    function() p:gauge("with space") end, function() p:gauge("g", "", { "le" }) end,
    function() p:gauge("g", "", { "a b" }) end,
  }
  for at, call in ipairs(calls) do
    call()
    equal(#stub.logs, at, "messages")
    equal(errors(p), at, "errors")
  end
  equal(stub.logs[4], "incorrect label count for metric plain, expected 0, got 1 (<one>)")
  equal(stub.logs[12], "Duplicate metric plain")
  equal(samples(p, "plain"), "", "nothing was counted")
end

function tests.phases_and_dictionaries_are_checked()
  local library = stub.library()
  ngx.shared.metrics = stub.new_dict()
  stub.logs = {}
  library:counter("m")
  library:metric_data()
  equal(#stub.logs, 2, "not initialized")
  stub.phase = "content"
  assert(not pcall(library.init, "metrics"))
  stub.phase = "init_worker"
  local ok, err = pcall(library.init, "other")
  assert(not ok and err:find("does not seem to exist", 1, true))
  stub.phase = "init"
  local p = library.init("metrics", { dir = directory() })
  local c = p:counter("c")
  c:inc()
  equal(#stub.logs, 3, "counted before the workers were forked")
  stub.phase = "init_worker"
  p:init_worker()
  c:inc(2)
  equal(samples(p, "c "), "c 2")
  p:init_worker()
  equal(#stub.logs, 4, "called twice")
end

function tests.workers_are_added_up_and_gauges_of_ended_ones_end()
  local dir, dict = directory(), stub.new_dict()
  local a, b = worker(dir, {}, dict), worker(dir, {}, dict)
  for value, p in ipairs({ a, b }) do
    p.c, p.h = p:counter("c", "", { "x" }), p:histogram("h", "", nil, { 1 })
    p.last, p.open = p:gauge("last"), p:gauge("open", "", nil, 60)
    p.c:inc(value, { "1" })
    p.h:observe(value)
    stub.time = stub.time + 1
    p.last:set(value)
    p.open:inc(value)
  end
  stub.time = sys.now_ms() / 1000
  a.open:inc(0)
  equal(samples(a, "c{"), 'c{x="1"} 3')
  equal(samples(b, "last"), "last 2")
  equal(samples(b, "open"), "open 3")
  equal(samples(a, "h_"), 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2')
  b._worker.segment:close()
  equal(samples(a, "c{"), 'c{x="1"} 3', "counts stay")
  equal(samples(a, "last"), "last 1", "gauges end")
  equal(retire.run({ dir = dir, app = "nginx" }, function() end), 1)
  equal(#sys.names(dir, "", ".segment"), 1, "its file is gone")
  equal(samples(a, "c{"), 'c{x="1"} 3', "counts are taken over")
  equal(samples(a, "h_"), 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3\nh_count 2')
  a._worker.segment:close()
  equal(retire.run({ dir = dir, app = "nginx" }, function() end), 1)
  local c = worker(dir, {}, dict)
  equal(samples(c, "c{"), 'c{x="1"} 3', "twice")
  equal(retire.run({ dir = dir, app = "nginx" }, function() end), 0, "the living are left alone")
end

function tests.what_a_worker_was_creating_when_it_ended_is_removed_after_a_minute()
  local dir = directory()
  local p = worker(dir)
  local options = { dir = dir, app = "nginx", unfinished = {} }
  for _, name in ipairs({ "nginx-1-2", "nginx-3-4", "other-1-2" }) do
    io.open(dir .. "/" .. name .. ".segment.new", "w"):close()
  end
  retire.run(options, function() end)
  equal(#sys.names(dir, "", ".segment.new"), 3)
  options.unfinished["nginx-1-2.segment.new"] = sys.monotonic_ms() - 60001
  retire.run(options, function() end)
  equal(table.concat(sys.names(dir, "", ".segment.new"), " "), "nginx-3-4.segment.new other-1-2.segment.new")
  equal(#sys.names(dir, "", ".segment"), 1)
  equal(errors(p), 0)
end

function tests.counts_of_a_reader_that_ended_in_between_are_not_added_twice()
  local dir = directory()
  local a = worker(dir)
  a:counter("c"):inc(5)
  local name = sys.names(dir, "", ".segment")[1]
  local copy = assert(io.open(dir .. "/" .. name, "rb")):read("*a")
  a._worker.segment:close()
  equal(retire.run({ dir = dir, app = "nginx" }, function() end), 1)
  local file = assert(io.open(dir .. "/" .. name, "wb"))
  file:write(copy)
  file:close()
  local b = worker(dir)
  equal(samples(b, "c "), "c 5")
  equal(retire.run({ dir = dir, app = "nginx" }, function() end), 1)
  equal(samples(b, "c "), "c 5")
  equal(#sys.names(dir, "", ".segment"), 1)
end

function tests.removed_series_end_in_every_worker()
  local dir, dict = directory(), stub.new_dict()
  local a, b = worker(dir, {}, dict), worker(dir, {}, dict)
  for _, p in ipairs({ a, b }) do
    p.c, p.g, p.h = p:counter("c", "", { "x" }), p:gauge("g", "", { "x" }), p:histogram("h", "", nil, { 1 })
    p.c:inc(1, { 1 })
    p.c:inc(1, { "2" })
    p.g:set(5, { 1 })
    p.g:set(6, { 2 })
    p.h:observe(1)
  end
  stub.time = stub.time + 1
  a.c:del({ "1" })
  a.g:del({ 1 })
  a.h:reset()
  b._worker:follow()
  equal(samples(b, "c{"), 'c{x="2"} 2')
  equal(samples(b, "g{"), 'g{x="2"} 6')
  equal(samples(b, "h_"), "")
  a.c:inc(3, { 1 })
  a.h:observe(2)
  stub.time = stub.time + 1
  b.g:set(8, { 1 })
  a._worker:follow()
  equal(samples(a, "c{"), 'c{x="1"} 3\nc{x="2"} 2')
  equal(samples(a, "g{"), 'g{x="1"} 8\ng{x="2"} 6')
  equal(samples(a, "h_sum"), "h_sum 2")
  b.c:reset()
  b.g:reset()
  a._worker:follow()
  equal(samples(a, "c{") .. samples(a, "g{"), "")
  equal(errors(a), 0)
end

--- Runs the timers that are due once; returns their delays.
local function run_soon()
  local due, delays = stub.soon, {}
  stub.soon = {}
  for _, timer in ipairs(due) do
    delays[#delays + 1] = timer.delay
    timer.run(false)
  end
  return table.concat(delays, " ")
end

--- Waking up costs a worker more than what it does then: one that nobody uses does so rarely.
function tests.a_worker_follows_often_while_it_is_used()
  local p = worker(directory(), { sync_interval = 2 })
  local c = p:counter("c", "")
  equal(stub.timers[1].delay, 20)
  equal(run_soon(), "", "unused")
  c:inc()
  c:inc()
  equal(run_soon(), "2", "one timer for all updates")
  equal(run_soon(), "2", "and one more that finds no update")
  equal(run_soon(), "")
  stub.is_full = true
  c:inc()
  stub.is_full = false
  c:inc()
  equal(run_soon(), "", "there was no timer left")
  stub.timers[1].run(false)
  c:inc()
  equal(run_soon(), "2", "and is one again")
end

function tests.what_others_remove_wakes_a_worker()
  local dir, dict = directory(), stub.new_dict()
  local a, b = worker(dir, {}, dict), worker(dir, {}, dict)
  local rest = stub.timers[1]
  a.c, b.c = a:counter("c", "", { "x" }), b:counter("c", "", { "x" })
  a.c:inc(1, { 1 })
  b.c:inc(1, { 1 })
  while run_soon() ~= "" do end
  a.c:del({ 1 })
  rest.run(false)
  equal(samples(b, "c{"), "")
  equal(run_soon(), "1", "more may come")
end

function tests.series_that_are_not_updated_expire()
  local dir = directory()
  local p = worker(dir)
  stub.time = sys.now_ms() / 1000
  local c, h = p:counter("c", "", { "x" }, 600), p:histogram("h", "", { "x" }, { 1 }, 600)
  local g = p:gauge("g", "", { "x" }, 600)
  c:inc(1, { "new" })
  h:observe(1, { "new" })
  g:set(1, { "new" })
  stub.time = stub.time - 601
  c:inc(2, { "old" })
  h:observe(2, { "old" })
  g:set(2, { "old" })
  equal(samples(p, "old"), "")
  equal(samples(p, "c{"), 'c{x="new"} 1')
  equal(samples(p, "h_count"), 'h_count{x="new"} 1')
  stub.time = stub.time + 601
  c:inc(1, { "old" })
  equal(samples(p, "c{"), 'c{x="new"} 1\nc{x="old"} 3', "it comes back with its count")
end

function tests.gauges_that_are_set_and_added_to_are_shared()
  local dir, dict = directory(), stub.new_dict()
  local a, b = worker(dir, {}, dict), worker(dir, {}, dict)
  a.g, b.g = a:gauge("g", "", { "x" }), b:gauge("g", "", { "x" })
  a.g:set(0, { 1 })
  b.g:set(0, { 1 })
  a.g:inc(2, { 1 })
  b.g:inc(-1, { 1 })
  equal(samples(a, "g{"), 'g{x="1"} 1')
  a._worker:follow()
  a.g:set(10, { 1 })
  b.g:inc(1, { 1 })
  equal(samples(a, "g{"), 'g{x="1"} 11')
  stub.time = stub.time + 1
  a.g:del({ 1 })
  b._worker:follow()
  equal(samples(a, "g{"), "")
  stub.time = stub.time + 1
  b.g:inc(4, { 1 })
  equal(samples(a, "g{"), 'g{x="1"} 4', "it begins anew")
  local only_added, set_later = a:gauge("h"), b:gauge("h")
  only_added:inc(2)
  set_later:set(5)
  equal(samples(a, "h "), "h 2")
  equal(errors(b), 1, "what is added to is not set")
end

function tests.a_series_too_many_is_refused_and_counted()
  local p = worker(directory(), { max_series = 100 })
  local c = p:counter("c", "", { "x" })
  for at = 1, 200 do
    c:inc(1, { at })
  end
  equal(#stub.logs, 1)
  equal(tonumber(p._worker.segment.marks[3]), 101, "the error metric's series is one of them")
  equal(errors(p), 101)
  c:inc(1, { 5 })
  equal(samples(p, 'c{x="5"}'), 'c{x="5"} 2')
  c:inc(1, { 150 })
  equal(tonumber(p._worker.segment.marks[3]), 101, "each is counted once")
  equal(errors(p), 101)
  c:del({ 1 })
  c:inc(1, { 150 })
  equal(samples(p, 'c{x="150"}'), "", "it is not tried each time")
  stub.time = stub.time + 11
  c:inc(1, { 150 })
  stub.time = stub.time - 11
  equal(samples(p, 'c{x="150"}'), 'c{x="150"} 1')
end

--- A record that a reader does not take would end the segment there.
function tests.what_readers_refuse_is_not_registered()
  local p = worker(directory())
  local many = {}
  for at = 1, 65 do
    many[at] = "l" .. at
  end
  equal(p:counter("many", "", many), nil)
  equal(p:counter("größe", ""), nil)
  equal(p:counter("c", "", { "größe" }), nil)
  equal(errors(p), 3)
  many[65] = nil
  p:counter("most", "", many):inc(1, many)
  assert(samples(p, "most{"):find('l64="l64"', 1, true))
end

function tests.a_segment_without_room_refuses_series()
  local p = worker(directory(), { max_cells = 1, max_label_bytes = 1 })
  local h = p:histogram("h", "", { "x" }, { 1, 2, 3 })
  for at = 1, 2000 do
    h:observe(1, { at })
  end
  assert(tonumber(p._worker.segment.marks[3]) > 300)
  equal(samples(p, 'h_count{x="1"}'), 'h_count{x="1"} 1')
end

function tests.without_a_directory_metrics_stay_in_the_worker()
  local dir = directory()
  local file = assert(io.open(dir, "w"))
  file:close()
  local p = worker(dir)
  local c = p:counter("c")
  c:inc(3)
  equal(samples(p, "c "), "c 3")
  equal(errors(p), 1)
  equal(#stub.logs, 1)
  assert(stub.logs[1]:find("Not a directory", 1, true), stub.logs[1])
end

function tests.a_metric_that_is_switched_off_is_not_counted()
  local p = worker(directory())
  local c, g, h = p:counter("c"), p:gauge("g"), p:histogram("h", "", nil, { 1 })
  for _, at in ipairs({ 0, 1 }) do
    for _, m in ipairs({ c, g, h }) do
      if m.off then m.off[at] = 1 end
    end
    c:inc()
    g:set(at)
    h:observe(1)
    for _, m in ipairs({ c, g, h }) do
      m.off[at] = 0
    end
  end
  equal(samples(p, "c ") .. samples(p, "g ") .. samples(p, "h_count"), "c 1g 0h_count 1")
  c.off[1] = 1
  equal(samples(p, "c "), "", "nor shown")
end

function tests.another_form_of_a_metric_replaces_one_that_nobody_has()
  local dir = directory()
  local a = worker(dir)
  a:histogram("h", "", nil, { 1 }):observe(1)
  local b = worker(dir)
  samples(b, "h_bucket")
  b:histogram("h", "", nil, { 2 }):observe(1)
  equal(samples(b, "h_bucket"), 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 1')
  a._worker.segment:close()
  b._worker.reader.began_ms = 0
  equal(samples(b, "h_bucket"), 'h_bucket{le="2"} 1\nh_bucket{le="+Inf"} 1')
end

local function overwrite(path, bytes)
  local file = assert(io.open(path, "wb"))
  file:write(bytes)
  file:close()
end

--- Returns a directory with a good worker's segment and a bad one's path and bytes.
local function with_bad_segment()
  local dir = directory()
  local bad = worker(dir, { max_cells = 1, max_label_bytes = 1 })
  bad:counter("bad", "B.", { "x" }):inc(1, { "y" })
  bad:histogram("worse", "W.", { "x" }, { 1 }):observe(1, { "y" })
  local path = dir .. "/" .. sys.names(dir, "", ".segment")[1]
  local whole = assert(io.open(path, "rb")):read("*a")
  local good = worker(dir)
  good:counter("good"):inc(7)
  return good, path, whole
end

local RECORDS_AT = 4096 + 65536

--- Every byte of a small segment is changed, and its end cut: nothing may fail, or show what is not there.
function tests.bad_segments_cost_only_their_own_series()
  local good, path, whole = with_bad_segment()
  local allowed = {}
  for line in exposed(good):gmatch("[^\n]+") do
    allowed[line] = true
  end
  local function check(what)
    good._worker.reader = nil
    equal(samples(good, "good"), "good 7", what)
    for line in exposed(good):gmatch("[^\n]+") do
      assert(allowed[line], what .. " shows " .. line)
    end
  end
  for at = 1, 300 do
    for _, place in ipairs({ at, RECORDS_AT + at }) do
      for _, byte in ipairs({ 0, 255, 97 }) do
        overwrite(path, whole:sub(1, place - 1) .. string.char(byte) .. whole:sub(place + 1))
        check("byte " .. place)
      end
    end
  end
  for len = 0, 5000, 250 do
    overwrite(path, whole:sub(1, len))
    check("length " .. len)
  end
end

--- What is written with the right checksums, but is not true.
function tests.segments_that_lie_show_nothing()
  local good, path, whole = with_bad_segment()
  local bytes = ffi.new("uint8_t[?]", #whole)
  local function lie(what, places)
    ffi.copy(bytes, whole, #whole)
    for at, value in pairs(places) do
      ffi.cast("uint32_t *", bytes + at)[0] = value
    end
    local sum = bit.bnot(sys.crc(sys.crc(-1, bytes, 16), bytes + 20, 236))
    ffi.cast("int32_t *", bytes + 16)[0] = sum
    local at = RECORDS_AT
    while ffi.cast("uint32_t *", bytes + at)[0] > 0 and ffi.cast("uint32_t *", bytes + at)[0] < 1000 do
      local len = ffi.cast("uint32_t *", bytes + at)[0]
      sum = bit.bnot(sys.crc(sys.crc(-1, bytes + at, 4), bytes + at + 8, len - 8))
      ffi.cast("int32_t *", bytes + at)[1] = sum
      at = at + len
    end
    overwrite(path, ffi.string(bytes, #whole))
    good._worker.reader = nil
    equal(samples(good, "good"), "good 7", what)
    equal(samples(good, "worse"), "", what)
  end
  -- The error metric's two records, then those of `bad` and `worse`.
  local at, starts = RECORDS_AT, {}
  ffi.copy(bytes, whole, #whole)
  for number = 1, 6 do
    starts[number] = at
    at = at + ffi.cast("uint32_t *", bytes + at)[0]
  end
  lie("many cells", { [32] = 8388609 })
  lie("no cells", { [32] = 0 })
  lie("records in the cells", { [40] = 4096 })
  lie("records beyond the end", { [40] = 0x7ffffff8 })
  lie("long records", { [48] = 0x7ffffff8, [264] = 0x7ffffff0 })
  lie("many cells in use", { [272] = 0x7fffffff })
  lie("few cells in use", { [272] = 1 })
  lie("another application", { [128] = 0x2f2e2e2f })
  lie("no such metric", { [starts[6] + 12] = 3 })
  lie("cells beyond the end", { [starts[6] + 16] = 0x7fffffff })
  lie("cells of another", { [starts[6] + 16] = 1 })
  lie("labels beyond the record", { [starts[6] + 20] = 0x7fffffff })
  lie("bounds beyond the record", { [starts[5] + 20] = 0x7fff0000 })
  lie("a name beyond the record", { [starts[5] + 16] = 0xffff })
  lie("a switch beyond the end", { [starts[5] + 12] = 0x7fffffff })
  lie("a short record", { [starts[6]] = 8 })
end

function tests.checksums_are_crc32c()
  local bytes = ffi.new("uint8_t[9]")
  ffi.copy(bytes, "123456789", 9)
  equal(bit.tohex(bit.bnot(sys.crc(-1, bytes, 9))), "e3069283")
end

function tests.an_update_allocates_nothing_once_its_series_is_known()
  local p = worker(directory())
  local c, g = p:counter("c", "", { "a", "b" }), p:gauge("g", "", { "a", "b" }, 60)
  local h = p:histogram("h", "", { "a", "b" }, nil, 60)
  local values = { "x", 1 }
  local function update(times)
    for at = 1, times do
      c:inc(1, values)
      g:set(at, values)
      h:observe(0.25, values)
    end
  end
  -- Interpreted, where an integer of 64 bits would be an object.
  require("jit").off()
  require("jit").flush()
  update(10)
  collectgarbage("collect")
  collectgarbage("stop")
  local before = collectgarbage("count")
  update(1000)
  local after = collectgarbage("count")
  collectgarbage("restart")
  require("jit").on()
  -- One object for each update would be 48.
  assert(after - before < 1, after - before .. " kilobytes")
end

function tests.text_of_many_series_is_complete()
  local p = worker(directory())
  local c = p:counter("c", "", { "x" })
  for at = 1, 20000 do
    c:inc(at, { "series-" .. at })
  end
  local pieces = p:metric_data()
  assert(#pieces > 5, #pieces)
  local page, sum = table.concat(pieces), 0
  for at, value in page:gmatch('c{x="series%-(%d+)"} (%d+)\n') do
    equal(at, value)
    sum = sum + value
  end
  equal(sum, 200010000)
end

local failed = 0
local names = {}
for name in pairs(tests) do
  names[#names + 1] = name
end
table.sort(names)
for _, name in ipairs(names) do
  local ok, err = xpcall(tests[name], debug.traceback)
  failed = failed + (ok and 0 or 1)
  print((ok and "ok   " or "FAIL ") .. name .. (ok and "" or "\n" .. tostring(err)))
end
print(("%d tests, %d failed"):format(#names, failed))
os.exit(failed == 0 and 0 or 1)
