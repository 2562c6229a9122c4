/* Counts until it is killed: count DIR LOG [SERIES]. Each byte of the log stands for something that was counted before.
 * Before that it makes so many more series, says how many were refused, and goes on whatever there is room for. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../narthex_segment.h"

#ifdef __cplusplus
#define APP "cpp"
#else
#define APP "c"
#endif

static const double bounds[] = {0.5, 1.5};

int main(int count, char **arguments)
{
    struct nx_segment segment;
    struct nx_metric requests, seconds, filler;
    struct nx_series paths[7], all;
    int log, more = count == 4 ? atoi(arguments[3]) : 0;
    if (count < 3)
        return 2;
    if (nx_open(&segment, arguments[1], APP, "", 1 << 16, 1 << 22))
        perror("nx_open");
    log = open(arguments[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
    requests = nx_counter(&segment, "pool_requests_total", "Requests.");
    seconds = nx_histogram(&segment, "pool_seconds", "Times.", bounds, 2);
    filler = nx_counter(&segment, "filler_total", "Takes room.");
    for (int path = 0; path < 7; path++) {
        char labels[16];
        snprintf(labels, sizeof labels, "path=\"%d\"", path);
        paths[path] = nx_series(&requests, labels);
    }
    all = nx_series(&seconds, "");
    for (int number = 0; number < more; number++) {
        char labels[32];
        struct nx_series one;
        snprintf(labels, sizeof labels, "number=\"%d\"", number);
        one = nx_series(&filler, labels);
        nx_add(&one, 1);
    }
    printf("refused %llu\n", (unsigned long long)nx_refused(&segment));
    fflush(stdout);
    for (int number = 0;; number = (number + 1) % 7) {
        nx_add(&paths[number], 1);
        nx_observe(&all, 1);
        if (write(log, ".", 1) != 1)
            return 1;
        usleep(500);
    }
}
