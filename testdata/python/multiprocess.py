"""Writes a directory of the multiprocess mode from three processes, and what the client's collector makes of it.

multiprocess.py DIRECTORY PAGE LIVE_PAGE: LIVE_PAGE is the page after the processes were marked as dead.
"""

import os
import shutil
import subprocess
import sys


def write(number):
    from prometheus_client import Counter, Gauge, Histogram, Summary

    counter = Counter("requests", "Requests.", ["path"])
    for at in range(number + 3):
        counter.labels('/a"b\\%d' % (at % 3)).inc(1.5)
    Counter("unused", "Never counted.")
    for mode in sorted(Gauge._MULTIPROC_MODES):
        gauge = Gauge("labelled_" + mode, "Mode %s\nin two lines" % mode, ["k"], multiprocess_mode=mode)
        gauge.labels("ü").set(number * 10 + 1)
        Gauge("plain_" + mode, "Without labels", multiprocess_mode=mode).set(-number)
    histogram = Histogram("latency", "Latency.", ["k"], buckets=(0.1, 0.5, 1, 10))
    for at in range(20):
        # Exact in binary: sums do not depend on the order of processes.
        histogram.labels("a").observe(at * number / 4)
    Histogram("other", "With the usual buckets.").observe(3)
    summary = Summary("size", "Size.")
    summary.observe(number)
    summary.observe(2.25)


def page(directory):
    from prometheus_client import CollectorRegistry, generate_latest, multiprocess

    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=directory)
    return generate_latest(registry)


def main(directory, plain, live):
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = directory
    children = []
    for number in (1, 2, 3):
        child = subprocess.Popen([sys.executable, __file__, str(number)])
        children.append(child.pid)
        if child.wait() != 0:
            sys.exit(1)
    with open(plain, "wb") as out:
        out.write(page(directory))
    from prometheus_client import multiprocess

    marked = directory + "-marked"
    shutil.copytree(directory, marked)
    for pid in children:
        multiprocess.mark_process_dead(pid, path=marked)
    with open(live, "wb") as out:
        out.write(page(marked))


if len(sys.argv) == 2:
    write(int(sys.argv[1]))
else:
    main(*sys.argv[1:])
