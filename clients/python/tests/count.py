"""Counts until it is killed: count.py DIR LOG [SERIES]. Each byte of the log stands for something that was counted before.

Before that it makes so many more series, says how many were refused, and goes on whatever there is room for.
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import narthex_segment

process = narthex_segment.install(sys.argv[1], "python")

from prometheus_client import Counter, Histogram

requests = Counter("pool_requests", "Requests.", ["path"])
seconds = Histogram("pool_seconds", "Times.", buckets=[0.5, 1.5])
for path in range(7):
    requests.labels(str(path))
filler = Counter("filler", "Takes room.", ["number"])
for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 0):
    filler.labels(str(number)).inc()
print("refused", process.refused(), flush=True)
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
number = 0
while True:
    requests.labels(str(number % 7)).inc()
    seconds.observe(1)
    os.write(log, b".")
    number += 1
    time.sleep(0.0005)
