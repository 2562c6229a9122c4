/* Metrics of a process in shared memory, where a Narthex server reads them.
 *
 * One header, C99 or C++11 and POSIX, for Linux with 64 bits, gcc or clang; define _GNU_SOURCE or _DEFAULT_SOURCE before
 * the first include. The bytes are described in docs/format/segment.md. example.c shows a pool of forked workers.
 *
 * A process opens its segment after it was forked, and updates it from one thread: an update is a load and a store. A
 * metric or a series that there is no room for, or that no reader would take, is refused and counted (nx_refused), and
 * updates of it do nothing, so callers need not check; all are refused in a segment that could not be opened. Values must
 * not be updated after nx_close.
 */
#ifndef NARTHEX_SEGMENT_H
#define NARTHEX_SEGMENT_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NX_HEADER 4096u
#define NX_STEP 65536u

enum nx_merge { NX_SUM, NX_LEAST, NX_GREATEST, NX_LAST, NX_EACH };

struct nx_area {
    size_t offset, used, allocated, reserved;
};

struct nx_segment {
    int fd;
    char *map; /* NULL if it could not be opened; refused counts then */
    size_t len;
    struct nx_area cells, records;
    uint64_t refused;
};

struct nx_metric {
    struct nx_segment *segment;
    uint32_t place;
    uint64_t *off; /* the switch; NULL if the metric was refused */
    const double *bounds;
    size_t bound_count, cells; /* cells of each series */
    const char *own;           /* the label that its type needs, or "" */
};

/* The cells of a series, and its metric; cells is NULL if it was refused. */
struct nx_series {
    const struct nx_metric *metric;
    uint64_t *cells;
};

static inline uint32_t nx_crc(uint32_t sum, const void *bytes, size_t len)
{
    const unsigned char *at = (const unsigned char *)bytes;
    while (len--) {
        sum ^= *at++;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ ((sum & 1) ? 0x82f63b78u : 0);
    }
    return sum;
}

static inline void nx_put(char *at, uint64_t value, int bytes)
{
    for (int byte = 0; byte < bytes; byte++)
        at[byte] = (char)(value >> 8 * byte);
}

static inline uint64_t *nx_cell(const struct nx_segment *segment, size_t offset)
{
    return (uint64_t *)(void *)(segment->map + offset);
}

/* Makes room for len more bytes; returns 0, or -1 if there is none. */
static inline int nx_grow(struct nx_segment *segment, struct nx_area *area, size_t len)
{
    size_t needed = area->used + len, target;
    if (needed > area->reserved)
        return -1;
    if (needed <= area->allocated)
        return 0;
    target = (needed + NX_STEP - 1) / NX_STEP * NX_STEP;
    if (target > area->reserved)
        target = area->reserved;
    if (posix_fallocate(segment->fd, (off_t)(area->offset + area->allocated),
                        (off_t)(target - area->allocated)))
        return -1;
    area->allocated = target;
    return 0;
}

static inline uint64_t nx_start_of_process(void)
{
    char text[1024], *at;
    uint64_t start = 0;
    FILE *file = fopen("/proc/self/stat", "r");
    size_t len = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[len] = 0;
    at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        start = strtoull(at + 1, NULL, 10);
    return start;
}

static inline void nx_boot_id(char *out)
{
    char text[64] = "";
    int nibbles = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(text, sizeof text, file))
        text[0] = 0;
    if (file)
        fclose(file);
    for (char *at = text; *at && nibbles < 32; at++) {
        int digit = *at >= '0' && *at <= '9' ? *at - '0' : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10 : -1;
        if (digit < 0)
            continue;
        out[nibbles / 2] = (char)(nibbles % 2 ? out[nibbles / 2] | digit : digit << 4);
        nibbles++;
    }
}

static inline int nx_is_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    return !name[len] && len <= 64 && name[0] != '.';
}

static inline void nx_write_header(struct nx_segment *segment, const char *app, const char *worker,
                                   uint64_t id)
{
    static const uint32_t order = 0x01020304u;
    struct timespec now;
    struct stat pids;
    char *out = segment->map;
    uint32_t sum;
    clock_gettime(CLOCK_REALTIME, &now);
    memcpy(out, "NRTHXSEG", 8);
    nx_put(out + 8, 1, 4);
    memcpy(out + 12, &order, 4);
    nx_put(out + 20, (uint64_t)getpid(), 4);
    nx_put(out + 24, segment->cells.offset, 8);
    nx_put(out + 32, segment->cells.reserved / 8, 8);
    nx_put(out + 40, segment->records.offset, 8);
    nx_put(out + 48, segment->records.reserved, 8);
    nx_put(out + 56, id, 8);
    nx_put(out + 64, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, 8);
    nx_put(out + 72, nx_start_of_process(), 8);
    nx_put(out + 80, stat("/proc/self/ns/pid", &pids) ? 0 : (uint64_t)pids.st_ino, 8);
    nx_boot_id(out + 88);
    nx_put(out + 108, strlen(app), 2);
    nx_put(out + 110, strlen(worker), 2);
    memcpy(out + 128, app, strlen(app));
    memcpy(out + 192, worker, strlen(worker));
    sum = nx_crc(nx_crc(~0u, out, 16), out + 20, 236);
    nx_put(out + 16, ~sum, 4);
    __atomic_store_n(nx_cell(segment, 256), 1, __ATOMIC_RELEASE);
}

static inline int nx_fill(struct nx_segment *segment, const char *app, const char *worker, uint64_t id)
{
    int error;
    void *map;
    if (flock(segment->fd, LOCK_EX | LOCK_NB) || ftruncate(segment->fd, (off_t)segment->len))
        return -1;
    error = posix_fallocate(segment->fd, 0, NX_HEADER);
    if (error) {
        errno = error;
        return -1;
    }
    if (nx_grow(segment, &segment->cells, NX_STEP) || nx_grow(segment, &segment->records, NX_STEP)) {
        errno = ENOSPC;
        return -1;
    }
    map = mmap(NULL, segment->len, PROT_READ | PROT_WRITE, MAP_SHARED, segment->fd, 0);
    if (map == MAP_FAILED)
        return -1;
    segment->map = (char *)map;
    nx_write_header(segment, app, worker, id);
    return 0;
}

/* Creates the segment of this process, and its directory; returns 0, or -1 with errno, after which the program may go on
 * as if there were one. Room for cells (numbers) and bytes of labels is taken when it is used. */
static inline int nx_open(struct nx_segment *segment, const char *dir, const char *app, const char *worker,
                          size_t cells, size_t label_bytes)
{
    char path[4096], temporary[4104];
    uint64_t id = 0;
    int random = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    ssize_t got = random < 0 ? -1 : read(random, &id, sizeof id);
    if (random >= 0)
        close(random);
    memset(segment, 0, sizeof *segment);
    segment->fd = -1;
    if (got != sizeof id || !app[0] || !nx_is_name(app) || !nx_is_name(worker) || cells > 1u << 23 ||
        label_bytes > 1u << 28) {
        errno = EINVAL;
        return -1;
    }
    segment->cells.offset = NX_HEADER;
    segment->cells.reserved = (8 * cells + NX_STEP - 1) / NX_STEP * NX_STEP;
    segment->records.offset = NX_HEADER + segment->cells.reserved;
    segment->records.reserved = (label_bytes + NX_STEP - 1) / NX_STEP * NX_STEP;
    segment->len = segment->records.offset + segment->records.reserved;
    if (snprintf(path, sizeof path, "%s/%s-%ld-%016llx.segment", dir, app, (long)getpid(),
                 (unsigned long long)id) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(temporary, sizeof temporary, "%s.new", path);
    /* With its group's, so that a server of that group can remove segments. */
    if (!mkdir(dir, 0770) && chmod(dir, 02770))
        return -1;
    segment->fd = open(temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0640);
    if (segment->fd < 0)
        return -1;
    if (nx_fill(segment, app, worker, id) || rename(temporary, path)) {
        int error = errno;
        unlink(temporary);
        if (segment->map)
            munmap(segment->map, segment->len);
        close(segment->fd);
        segment->map = NULL;
        errno = error;
        return -1;
    }
    return 0;
}

/* Ends the segment; the reader keeps its counts. */
static inline void nx_close(struct nx_segment *segment)
{
    if (!segment->map)
        return;
    __atomic_store_n(nx_cell(segment, 256), 2, __ATOMIC_RELEASE);
    munmap(segment->map, segment->len);
    close(segment->fd);
}

/* Returns how many metrics and series were refused. */
static inline uint64_t nx_refused(const struct nx_segment *segment)
{
    return segment->map ? *nx_cell(segment, 280) : segment->refused;
}

static inline void nx_refuse(struct nx_segment *segment)
{
    if (segment->map)
        __atomic_store_n(nx_cell(segment, 280), nx_refused(segment) + 1, __ATOMIC_RELAXED);
    else
        segment->refused++;
}

/* Publishes a record with cells, whose first is written at cell_at; returns it, or NULL. */
static inline uint64_t *nx_push(struct nx_segment *segment, char *record, size_t len, size_t cell_at,
                                size_t cells)
{
    struct nx_area *area = &segment->cells;
    uint64_t *first;
    uint32_t sum;
    if (!record || !segment->map || len > 1u << 20 || nx_grow(segment, area, 8 * cells) ||
        nx_grow(segment, &segment->records, len)) {
        nx_refuse(segment);
        return NULL;
    }
    first = nx_cell(segment, area->offset + area->used);
    nx_put(record, len, 4);
    nx_put(record + cell_at, area->used / 8, 4);
    sum = nx_crc(nx_crc(~0u, record, 4), record + 8, len - 8);
    nx_put(record + 4, ~sum, 4);
    memcpy(segment->map + segment->records.offset + segment->records.used, record, len);
    area->used += 8 * cells;
    segment->records.used += len;
    __atomic_store_n(nx_cell(segment, 272), area->used / 8, __ATOMIC_RELEASE);
    __atomic_store_n(nx_cell(segment, 264), segment->records.used, __ATOMIC_RELEASE);
    return first;
}

/* Returns the length of the UTF-8 character at the begin of a text; 0 at its end, and if there is none. */
static inline size_t nx_char(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    unsigned char low = at[0] == 0xe0 ? 0xa0 : at[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = at[0] == 0xed ? 0x9f : at[0] == 0xf4 ? 0x8f : 0xbf;
    size_t len = at[0] < 0x80 ? 1 : at[0] < 0xc2 || at[0] > 0xf4 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    for (size_t next = 1; next < len; next++, low = 0x80, high = 0xbf)
        if (at[next] < low || at[next] > high)
            return 0;
    return at[0] ? len : 0;
}

static inline int nx_is_utf8(const char *text)
{
    for (size_t len = nx_char(text); len; len = nx_char(text))
        text += len;
    return !*text;
}

/* Returns the length of the name of a metric or a label that a text begins with. */
static inline size_t nx_name(const char *text, int is_metric)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789:";
    char allowed[sizeof chars];
    memcpy(allowed, chars, sizeof chars);
    if (!is_metric)
        allowed[sizeof chars - 2] = 0;
    return *text >= '0' && *text <= '9' ? 0 : strspn(text, allowed);
}

/* Whether readers take these labels; own is the label of the metric's type, if any. */
static inline int nx_are_labels(const char *labels, const char *own)
{
    const char *names[64];
    size_t lens[64], count = 0;
    for (const char *at = labels; *at;) {
        size_t len = nx_name(at, 0);
        if (!len || count == 64 || strncmp(at + len, "=\"", 2) || (len == strlen(own) && !memcmp(at, own, len)) ||
            (len == 8 && !memcmp(at, "__name__", len)))
            return 0;
        for (size_t other = 0; other < count; other++)
            if (lens[other] == len && !memcmp(names[other], at, len))
                return 0;
        names[count] = at;
        lens[count++] = len;
        for (at += len + 2; *at && *at != '"' && *at != '\n';) {
            size_t step = *at != '\\' ? nx_char(at) : at[1] && strchr("\\\"n", at[1]) ? 2 : 0;
            if (!step)
                return 0;
            at += step;
        }
        if (*at++ != '"' || (*at && (*at != ',' || !at[1])))
            return 0;
        at += *at == ',';
    }
    return 1;
}

/* Appends a label to those in a buffer of size bytes, which begins as an empty string, and escapes its value. Returns 0, or
 * -1 and leaves the labels as they were if there is no room. */
static inline int nx_label(char *labels, size_t size, const char *name, const char *value)
{
    size_t begin = strlen(labels), at = begin + strlen(name) + 3;
    for (const char *next = value; *next; next++)
        at += strchr("\\\"\n", *next) ? 2 : 1;
    if (at + 2 > size) /* a comma, and the end */
        return -1;
    at = begin + (size_t)sprintf(labels + begin, "%s%s=\"", begin ? "," : "", name);
    for (; *value; value++) {
        if (strchr("\\\"\n", *value))
            labels[at++] = '\\';
        labels[at++] = *value == '\n' ? 'n' : *value;
    }
    labels[at++] = '"';
    labels[at] = 0;
    return 0;
}

static inline int nx_is_metric(const char *name, const char *help, const double *bounds, size_t count)
{
    for (size_t bound = 0; bound < count; bound++)
        if (!(bounds[bound] - bounds[bound] == 0) || (bound && !(bounds[bound - 1] < bounds[bound])))
            return 0;
    return *name && !name[nx_name(name, 1)] && nx_is_utf8(help) && count <= 1024;
}

static inline struct nx_metric nx_metric(struct nx_segment *segment, int type, int merge, const char *name,
                                         const char *help, const double *bounds, size_t count)
{
    struct nx_metric metric = {segment, (uint32_t)(segment->records.used / 8), NULL, bounds, count,
                               type == 4 ? count + 2 : type == 3 ? 2 : 1, type == 4 ? "le" : ""};
    size_t used = 40 + 8 * count + strlen(name) + strlen(help), len = (used + 7) / 8 * 8;
    int is_valid = len < 1u << 16 && nx_is_metric(name, help, bounds, count);
    char *record = is_valid ? (char *)calloc(1, len) : NULL, *at = record;
    if (record) {
        record[8] = 1;
        record[9] = (char)type;
        record[10] = (char)merge;
        nx_put(record + 16, strlen(name), 2);
        nx_put(record + 20, strlen(help), 2);
        nx_put(record + 22, count, 2);
        at += 40;
        for (size_t bound = 0; bound < count; bound++, at += 8)
            memcpy(at, &bounds[bound], 8);
        memcpy(at, name, strlen(name));
        memcpy(at + strlen(name), help, strlen(help));
    }
    metric.off = nx_push(segment, record, len, 12, 1);
    free(record);
    return metric;
}

/* A counter, of floats. */
static inline struct nx_metric nx_counter(struct nx_segment *segment, const char *name, const char *help)
{
    return nx_metric(segment, 1, 0, name, help, NULL, 0);
}

/* A gauge, and how those of several workers become one. */
static inline struct nx_metric nx_gauge(struct nx_segment *segment, const char *name, const char *help,
                                        enum nx_merge merge)
{
    return nx_metric(segment, 3, (int)merge, name, help, NULL, 0);
}

/* A histogram with ascending upper bounds, at most 1024, which have to stay where they are. */
static inline struct nx_metric nx_histogram(struct nx_segment *segment, const char *name, const char *help,
                                            const double *bounds, size_t count)
{
    return nx_metric(segment, 4, 0, name, help, bounds, count);
}

/* A series of a metric. Labels are as in the text format, escaped, without braces: a="x",b="y", as nx_label makes them. */
static inline struct nx_series nx_series(const struct nx_metric *metric, const char *labels)
{
    struct nx_series series = {metric, NULL};
    struct nx_segment *segment = metric->segment;
    size_t used = 24 + strlen(labels), len = (used + 7) / 8 * 8;
    int is_valid = metric->off && nx_are_labels(labels, metric->own);
    char *record = is_valid ? (char *)calloc(1, len) : NULL;
    if (record) {
        record[8] = 2;
        nx_put(record + 12, metric->place, 4);
        nx_put(record + 20, strlen(labels), 4);
        memcpy(record + 24, labels, strlen(labels));
    }
    series.cells = nx_push(segment, record, len, 16, metric->cells);
    free(record);
    return series;
}

/* Whether a series is counted: it has cells, and its metric is switched on. */
static inline int nx_is_on(const struct nx_series *series)
{
    return series->cells && !__atomic_load_n(series->metric->off, __ATOMIC_RELAXED);
}

static inline void nx_store(uint64_t *cell, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, 8);
    __atomic_store_n(cell, bits, __ATOMIC_RELAXED);
}

static inline double nx_load(const uint64_t *cell)
{
    double value;
    memcpy(&value, cell, 8);
    return value;
}

/* Adds to a counter; what is negative or no number is ignored. */
static inline void nx_add(const struct nx_series *series, double value)
{
    if (nx_is_on(series) && value >= 0)
        nx_store(series->cells, nx_load(series->cells) + value);
}

/* Sets a gauge. */
static inline void nx_set(const struct nx_series *series, double value)
{
    struct timespec now;
    uint64_t now_ms;
    if (!nx_is_on(series))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    nx_store(series->cells, value);
    __atomic_store_n(series->cells + 1, now_ms, __ATOMIC_RELAXED);
}

/* Counts an observation of a histogram. */
static inline void nx_observe(const struct nx_series *series, double value)
{
    size_t bucket = 0;
    if (!nx_is_on(series))
        return;
    while (bucket < series->metric->bound_count && !(value <= series->metric->bounds[bucket]))
        bucket++;
    __atomic_store_n(series->cells + 1 + bucket, series->cells[1 + bucket] + 1, __ATOMIC_RELAXED);
    nx_store(series->cells, nx_load(series->cells) + value);
}

#endif
