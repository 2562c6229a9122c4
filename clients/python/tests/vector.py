"""Writes the metrics of clients/vectors/segment.txt into the directory given, and waits until its input ends."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import narthex_segment

process = narthex_segment.install(sys.argv[1], "vector", "0")

from prometheus_client import Counter, Gauge, Histogram

requests = Counter("requests", "R.", ["code", "path"])
size = Histogram("size", "S.", ["kind"], buckets=[0.5, 1.5])
opened = Gauge("open", "O.", multiprocess_mode="sum")
free = Gauge("free", "F.", multiprocess_mode="all")



def count(amount, values):
    requests.labels("200", '/a"\\\n').inc(amount)
    for value in values:
        size.labels("b").observe(value)


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
opened.set(-3)
free.set(7)
print("ready", flush=True)
sys.stdin.read()
process.segment.close()
