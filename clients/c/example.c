/* A pool of forked workers, each with a segment of its own.
 *
 *     cc -O2 -o example example.c && ./example /dev/shm/narthex 40
 *
 * With "vector" instead of a number it writes the series of clients/vectors/segment.txt, and waits for the end of its
 * input.
 */
#ifndef _GNU_SOURCE /* which g++ defines */
#define _GNU_SOURCE
#endif
#include "narthex_segment.h"

#include <sys/wait.h>

static const double bounds[] = {0.5, 1.5};

static int work(const char *dir, int worker)
{
    struct nx_segment segment;
    struct nx_metric requests, seconds;
    struct nx_series ok, all;
    char name[16];
    snprintf(name, sizeof name, "%d", worker);
    if (nx_open(&segment, dir, "example", name, 1 << 16, 1 << 20)) {
        perror("nx_open");
        return 1;
    }
    requests = nx_counter(&segment, "example_requests_total", "Requests.");
    seconds = nx_histogram(&segment, "example_seconds", "Time to answer.", bounds, 2);
    ok = nx_series(&requests, "code=\"200\"");
    all = nx_series(&seconds, "");
    for (int request = 0; request < 100; request++) {
        nx_add(&ok, 1);
        nx_observe(&all, 0.05 * request);
        usleep(50000);
    }
    nx_close(&segment);
    return 0;
}

/* Adds a series with two labels, whose values are escaped. */
static struct nx_series labelled(const struct nx_metric *requests, const char *code, const char *path)
{
    char labels[128] = "";
    nx_label(labels, sizeof labels, "code", code);
    nx_label(labels, sizeof labels, "path", path);
    return nx_series(requests, labels);
}

static int vector(const char *dir)
{
    static const struct {
        const char *code, *path;
        double value;
    } counts[] = {
        {"200", "/a\"\\\n", 2.5},
        {"größe", "日本/🦀", 1},
        {"", "\\n", 3},
        {"\t", "a,b}={\"c\\\"=1", 4},
    };
    static const double sizes[] = {0.5, 0.75, 9, -1};
    struct nx_segment segment;
    struct nx_metric requests, size, sum, each;
    struct nx_series of_b, open, free_slots;
    if (nx_open(&segment, dir, "vector", "0", 1 << 16, 1 << 20)) {
        perror("nx_open");
        return 1;
    }
    requests = nx_counter(&segment, "requests_total", "Requests: \"quoted\", \\ and\ngröße.");
    for (size_t at = 0; at < sizeof counts / sizeof *counts; at++) {
        struct nx_series one = labelled(&requests, counts[at].code, counts[at].path);
        nx_add(&one, counts[at].value);
        nx_add(&one, -1); /* is ignored */
    }
    size = nx_histogram(&segment, "size", "Sizes.", bounds, 2);
    of_b = nx_series(&size, "kind=\"b\"");
    for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++)
        nx_observe(&of_b, sizes[at]);
    sum = nx_gauge(&segment, "open", "Open.", NX_SUM);
    open = nx_series(&sum, "");
    nx_set(&open, -3);
    each = nx_gauge(&segment, "free", "Free.", NX_EACH);
    free_slots = nx_series(&each, "");
    nx_set(&free_slots, 7);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    nx_close(&segment);
    return 0;
}

int main(int count, char **arguments)
{
    int workers = count == 3 ? atoi(arguments[2]) : 0;
    if (count == 3 && !strcmp(arguments[2], "vector"))
        return vector(arguments[1]);
    if (workers < 1) {
        fprintf(stderr, "usage: %s DIR WORKERS|vector\n", arguments[0]);
        return 2;
    }
    for (int worker = 0; worker < workers; worker++)
        if (!fork())
            return work(arguments[1], worker);
    while (wait(NULL) > 0)
        ;
    return 0;
}
