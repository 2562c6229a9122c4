"""Writes the metrics of clients/vectors/segment.txt into the directory given, and waits until its input ends.

Then it shows its own pages: text, a line, OpenMetrics; but not if a child has counted a part of it.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import narthex_segment

process = narthex_segment.install(sys.argv[1], "vector", "0")

from prometheus_client import REGISTRY, Counter, Gauge, Histogram, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

requests = Counter("requests", 'Requests: "quoted", \\ and\ngröße.', ["code", "path"])
size = Histogram("size", "Sizes.", ["kind"], buckets=[0.5, 1.5])
opened = Gauge("open", "Open.", multiprocess_mode="sum")
free = Gauge("free", "Free.", multiprocess_mode="all")


def refused():
    """Asks for what no reader takes: a record of it would end the segment there."""
    segment, many = process.segment, tuple((f"l{at}", "x") for at in range(65))
    place, _ = segment.metric(narthex_segment.COUNTER, "refused_total")
    for ask in (
        lambda: segment.metric(narthex_segment.COUNTER, "größe"),
        lambda: segment.metric(narthex_segment.HISTOGRAM, "h", bounds=range(1025)),
        lambda: segment.series(place, (("größe", "x"),), 1),
        lambda: segment.series(place, (("__name__", "x"),), 1),
        lambda: segment.series(place, many, 1),
        lambda: segment.series(place, (("a", "x" * (1 << 20)),), 1),
    ):
        before = process.refused()
        try:
            ask()
        except OSError:
            pass
        assert process.refused() == before + 1


def count(amount, values):
    requests.labels("200", '/a"\\\n').inc(amount, {"trace_id": 'a"\\\nß'})
    for value in values:
        size.labels("b").observe(value, {"trace_id": "日本"} if value == 0.75 else None)


refused()
if len(sys.argv) > 2:
    # A part is counted by a forked child, which ends; its parent goes on.
    count(1, [0.5])
    child = os.fork()
    if child == 0:
        count(1, [0.75, 9])
        os._exit(0)
    os.waitpid(child, 0)
    count(0.5, [-1])
else:
    count(2.5, [0.5, 0.75, 9, -1])
requests.labels("größe", "日本/🦀").inc()
requests.labels("", "\\n").inc(3)
requests.labels("\t", 'a,b}={"c\\"=1').inc(4)
opened.set(-3)
free.set(7)
print("ready", flush=True)
sys.stdin.read()
if len(sys.argv) == 2:
    print(generate_latest(REGISTRY).decode(), "---", openmetrics.generate_latest(REGISTRY).decode(), sep="\n")
process.segment.close()
