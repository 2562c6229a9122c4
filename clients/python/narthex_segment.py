"""Metrics of a Python process in shared memory, where a Narthex server reads them.

Takes the place of prometheus_client's multiprocess mode: call install() before metrics are created, in the parent of a
pool too. A child that is forked gets a segment of its own and counts from 0. An update is one store of 8 bytes under a
lock; nothing has to be cleaned up between runs. Without a segment, or room in it, values stay in this process. A metric that
is switched off counts nothing. Linux with 64 bits; the bytes are described in docs/format/segment.md.
"""

import fcntl
import mmap
import os
import re
import struct
import sys
import threading
import time

COUNTER, GAUGE, HISTOGRAM = 1, 3, 4
SUM, LEAST, GREATEST, LAST, EACH = range(5)
MERGES = {"sum": SUM, "min": LEAST, "max": GREATEST, "mostrecent": LAST, "all": EACH}

_HEADER = 4096
_STEP = 65536
_METRIC, _LABEL = re.compile("[a-zA-Z_:][a-zA-Z0-9_:]*"), re.compile("(?!__name__$)[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRCS = _crc_table()


def _crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRCS[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _identity():
    """Returns process number, start, PID namespace and boot."""
    with open("/proc/self/stat", "rb") as file:
        start = int(file.read().rpartition(b")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = bytes.fromhex(file.read().strip().replace("-", ""))
    return os.getpid(), start, os.stat("/proc/self/ns/pid").st_ino, boot


class _Area:
    def __init__(self, offset, reserved):
        self.offset, self.reserved = offset, -(-reserved // _STEP) * _STEP
        self.used = self.allocated = 0


class Segment:
    """The segment of this process. One thread at a time writes to it."""

    def __init__(self, directory, app, worker="", cells=1 << 20, label_bytes=1 << 25):
        if sys.byteorder != "little" or not re.fullmatch(r"[\w-][\w.-]{0,63}", app, re.ASCII):
            raise ValueError("not an application's name, or another byte order")
        if not os.path.isdir(directory):
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, 0o2770)
        self._id = os.urandom(8)
        self._cells = _Area(_HEADER, 8 * cells)
        self._records = _Area(_HEADER + self._cells.reserved, label_bytes)
        self.path = f"{directory}/{app}-{os.getpid()}-{self._id.hex()}.segment"
        temporary = self.path + ".new"
        self._fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        try:
            self._fill(app.encode(), worker.encode()[:64])
            os.rename(temporary, self.path)
        except BaseException:
            os.unlink(temporary)
            os.close(self._fd)
            raise

    def _fill(self, app, worker):
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        length = self._records.offset + self._records.reserved
        os.ftruncate(self._fd, length)
        os.posix_fallocate(self._fd, 0, _HEADER)
        self._grow(self._cells, 1)
        self._grow(self._records, 1)
        self._map = mmap.mmap(self._fd, length)
        # Items of these are written with one store, which struct.pack_into does not promise.
        self.floats = memoryview(self._map).cast("d")
        self.counts = memoryview(self._map).cast("Q")
        pid, start, namespace, boot = _identity()
        head = bytearray(256)
        struct.pack_into("<8sII", head, 0, b"NRTHXSEG", 1, 0x01020304)
        struct.pack_into(
            "<IQQQQ8sqQQ16sIHH", head, 20, pid, _HEADER, self._cells.reserved // 8, self._records.offset,
            self._records.reserved, self._id, int(time.time() * 1000), start, namespace, boot, 0, len(app), len(worker),
        )
        struct.pack_into("<64s64s", head, 128, app, worker)
        struct.pack_into("<I", head, 16, _crc(head[:16] + head[20:]))
        self._map[:256] = bytes(head)
        self.counts[32] = 1

    def _grow(self, area, length):
        needed = area.used + length
        if needed > area.reserved:
            raise OSError("the segment is full")
        if needed > area.allocated:
            target = min(-(-needed // _STEP) * _STEP, area.reserved)
            # A full file system is an error here, and no signal later.
            os.posix_fallocate(self._fd, area.offset + area.allocated, target - area.allocated)
            area.allocated = target

    def _push(self, record, cell_at, cells, is_valid):
        """Appends a record with cells; returns its place and the number of its first cell, counted from the file's begin."""
        record.extend(bytes(-len(record) % 8))
        try:
            if not is_valid or len(record) > 1 << 20:
                raise OSError("readers do not take this")
            self._grow(self._cells, 8 * cells)
            self._grow(self._records, len(record))
        except OSError:
            self.counts[35] += 1
            raise
        first, place = self._cells.used // 8, self._records.used // 8
        struct.pack_into("<I", record, 0, len(record))
        struct.pack_into("<I", record, cell_at, first)
        struct.pack_into("<I", record, 4, _crc(record[:4] + record[8:]))
        at = self._records.offset + self._records.used
        self._map[at : at + len(record)] = bytes(record)
        self._cells.used += 8 * cells
        self._records.used += len(record)
        self.counts[34] = self._cells.used // 8
        self.counts[33] = self._records.used
        return place, _HEADER // 8 + first

    def metric(self, kind, name, help_text="", merge=0, bounds=()):
        """Adds a metric; returns its place, and the cell that is not 0 while it is switched off."""
        texts = [name.encode(), b"", help_text.encode()[:32768].decode(errors="ignore").encode()]
        record = bytearray(40)
        record[8:11] = bytes((1, kind, merge))
        struct.pack_into("<HHHH", record, 16, *map(len, texts), len(bounds))
        record += struct.pack(f"<{len(bounds)}d", *bounds) + b"".join(texts)
        return self._push(record, 12, 1, _METRIC.fullmatch(name) and len(bounds) <= 1024)

    def series(self, metric, labels, cells):
        """Adds a series; returns its first cell. Labels are pairs of names and values."""
        text = ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in labels).encode(errors="replace")
        record = bytearray(24)
        record[8] = 2
        struct.pack_into("<I", record, 12, metric)
        struct.pack_into("<I", record, 20, len(text))
        is_valid = len(labels) <= 64 and all(_LABEL.fullmatch(name) for name, _ in labels)
        return self._push(record + text, 16, cells, is_valid)[1]

    def leave(self):
        """Forgets a segment that a parent process writes."""
        os.close(self._fd)

    def close(self):
        """Ends the segment; the reader keeps its counts."""
        self.counts[32] = 2
        os.close(self._fd)


class _Process:
    """The segment of this process and the values in it."""

    def __init__(self, directory, app, worker):
        self.settings = directory, app, worker
        self.lock = threading.Lock()
        self.values = []
        self.open()
        os.register_at_fork(after_in_child=self.forked)

    def open(self):
        directory, app, worker = self.settings
        self.metrics, self.series, self.half, self.lost = {}, {}, {}, 0
        try:
            self.segment = Segment(directory, app, worker or str(os.getpid()))
        except OSError as error:
            self.segment = None
            print(f"narthex_segment: {directory}: {error}; metrics stay in this process", file=sys.stderr)

    def forked(self):
        self.lock = threading.Lock()
        if self.segment:
            self.segment.leave()
        self.open()
        for value in self.values:
            value.begin()

    def refused(self):
        """Returns how many metrics and series are in this process alone, since there is no segment or no room in it."""
        return self.segment.counts[35] if self.segment else self.lost

    def place(self, kind, name, help_text, merge, bounds, labels, cells):
        """Returns the first cell of a series and its metric's switch."""
        if name not in self.metrics:
            self.metrics[name] = self.segment.metric(kind, name, help_text, merge, bounds)
        metric, switch = self.metrics[name]
        key = name, labels
        if key not in self.series:
            self.series[key] = self.segment.series(metric, labels, cells)
        return self.series[key], switch


def value_class(process):
    """Returns the class of values that prometheus_client makes its metrics of."""

    class SegmentValue:
        _multiprocess = True

        def __init__(self, typ, metric_name, name, labelnames, labelvalues, help_text, multiprocess_mode="", **_):
            self._kind = {"gauge": GAUGE, "histogram": HISTOGRAM}.get(typ, COUNTER)
            self._merge = MERGES.get(multiprocess_mode.replace("live", ""), LAST)
            self._names = metric_name, name, help_text
            self._labels = tuple(zip(labelnames, labelvalues))
            with process.lock:
                process.values.append(self)
                self.begin()

        def begin(self):
            self._value, self._cell, self._switch, self._exemplar = 0.0, None, None, None
            try:
                if not process.segment:
                    process.lost += self._kind != HISTOGRAM or self._names[1].endswith("_sum")
                    return
                if self._kind == HISTOGRAM:
                    self._begin_histogram()
                else:
                    _, name, help_text = self._names
                    cells = 2 if self._kind == GAUGE else 1
                    self._cell, self._switch = process.place(
                        self._kind, name, help_text, self._merge if cells == 2 else 0, (), self._labels, cells
                    )
            except OSError:
                pass  # The segment counts what it had no room for.

        def _begin_histogram(self):
            """Waits for the last bucket: only then all bounds are known."""
            metric, name, help_text = self._names
            is_sum = name.endswith("_sum")
            labels = self._labels if is_sum else self._labels[:-1]
            parts = process.half.setdefault((metric, labels), [])
            parts.append(self)
            if is_sum or self._labels[-1][1] != "+Inf":
                return
            del process.half[metric, labels]
            bounds = [float(part._labels[-1][1]) for part in parts[1:-1]]
            first, switch = process.place(HISTOGRAM, metric, help_text, 0, bounds, labels, len(bounds) + 2)
            for at, part in enumerate(parts):
                part._cell, part._switch = first + at, switch

        def _store(self, value):
            segment, cell = process.segment, self._cell
            if cell is not None and segment.counts[self._switch]:
                return
            self._value = value
            if cell is None:
                return
            if self._kind == HISTOGRAM and not self._names[1].endswith("_sum"):
                segment.counts[cell] = int(value)
                return
            segment.floats[cell] = value
            if self._kind == GAUGE:
                segment.counts[cell + 1] = int(time.time() * 1000)

        def inc(self, amount):
            with process.lock:
                self._store(self._value + amount)

        def set(self, value, timestamp=None):
            with process.lock:
                self._store(float(value))

        def set_exemplar(self, exemplar):
            self._exemplar = exemplar

        def get(self):
            return self._value

        def get_exemplar(self):
            return self._exemplar

    return SegmentValue


def install(directory="/dev/shm/narthex", app="python", worker=""):
    """Lets prometheus_client keep its values in a segment; returns what holds it. Call it before metrics are created."""
    from prometheus_client import values

    process = _Process(directory, app, worker)
    values.ValueClass = value_class(process)
    return process
