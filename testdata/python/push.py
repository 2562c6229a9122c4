"""Pushes with the Python client: push.py ADDRESS."""

import sys

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client import delete_from_gateway, push_to_gateway, pushadd_to_gateway

address = sys.argv[1]
key = {"empty": "", "k": "a/b"}

registry = CollectorRegistry()
Gauge("last_success", "When it ended.", registry=registry).set(5)
Counter("rows", "Rows.", ["table"], registry=registry).labels('x"y').inc(3)
Histogram("seconds", "Duration.", registry=registry, buckets=(1, 2)).observe(1.5)
push_to_gateway(address, job="nightly / ü", registry=registry, grouping_key=key)

more = CollectorRegistry()
Gauge("last_success", "When it ended.", registry=more).set(6)
pushadd_to_gateway(address, job="nightly / ü", registry=more, grouping_key=key)

push_to_gateway(address, job="gone", registry=more)
delete_from_gateway(address, job="gone")
