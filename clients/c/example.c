/* A pool of forked workers, each with a segment of its own.
 *
 *     cc -O2 -o example example.c && ./example /dev/shm/narthex 40
 *
 * With "vector" instead of a number it writes the series of clients/vectors/segment.txt, and waits for the end of its
 * input.
 */
#define _GNU_SOURCE
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

static int vector(const char *dir)
{
    struct nx_segment segment;
    struct nx_metric requests, size, sum, each;
    struct nx_series series[4];
    if (nx_open(&segment, dir, "vector", "0", 1 << 16, 1 << 20)) {
        perror("nx_open");
        return 1;
    }
    requests = nx_counter(&segment, "requests_total", "Requests.");
    series[0] = nx_series(&requests, "code=\"200\",path=\"/a\\\"\\\\\\n\"");
    nx_add(&series[0], 2.5);
    nx_add(&series[0], -1);
    size = nx_histogram(&segment, "size", "Sizes.", bounds, 2);
    series[1] = nx_series(&size, "kind=\"b\"");
    nx_observe(&series[1], 0.5);
    nx_observe(&series[1], 0.75);
    nx_observe(&series[1], 9);
    nx_observe(&series[1], -1);
    sum = nx_gauge(&segment, "open", "Open.", NX_SUM);
    series[2] = nx_series(&sum, "");
    nx_set(&series[2], -3);
    each = nx_gauge(&segment, "free", "Free.", NX_EACH);
    series[3] = nx_series(&each, "");
    nx_set(&series[3], 7);
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
