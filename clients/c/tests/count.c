/* Counts until it is killed: count DIR LOG. Each byte of the log stands for something that was counted before. */
#define _GNU_SOURCE
#include "../narthex_segment.h"

static const double bounds[] = {0.5, 1.5};

int main(int count, char **arguments)
{
    struct nx_segment segment;
    struct nx_metric requests, seconds;
    struct nx_series paths[7], all;
    int log;
    if (count != 3 || nx_open(&segment, arguments[1], "c", "", 1 << 16, 1 << 20)) {
        perror("nx_open");
        return 1;
    }
    log = open(arguments[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
    requests = nx_counter(&segment, "pool_requests_total", "Requests.");
    seconds = nx_histogram(&segment, "pool_seconds", "Times.", bounds, 2);
    for (int path = 0; path < 7; path++) {
        char labels[16];
        snprintf(labels, sizeof labels, "path=\"%d\"", path);
        paths[path] = nx_series(&requests, labels);
    }
    all = nx_series(&seconds, "");
    for (int number = 0;; number = (number + 1) % 7) {
        nx_add(&paths[number], 1);
        nx_observe(&all, 1);
        if (write(log, ".", 1) != 1)
            return 1;
        usleep(500);
    }
}
