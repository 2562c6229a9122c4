/* Asks for what no reader takes, which has to be refused, and for what one does: refuse DIR. Ends with 1 if it went wrong. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../narthex_segment.h"

static int failures;

static void expect(int is_right, const char *what)
{
    if (!is_right) {
        printf("wrong: %s\n", what);
        failures++;
    }
}

int main(int count, char **arguments)
{
    static const char *const names[] = {"", "1a", "größe", "a b", "a-b", "a{"};
    static const char *const labels[] = {
        "a",         "a=",        "a=\"",        "a=\"x",           "a=\"x\\",    "a=\"x\\t\"",    "a=\"x\",",
        "a=\"x\"b=\"y\"", "=\"x\"",   "1=\"x\"",    "a:b=\"x\"",       "le=\"1\"",   "__name__=\"x\"", ",a=\"x\"",
        "a=\"\n\"",   "a=\"x\",a=\"y\"", "ä=\"x\"", "a=\"\xff\"",      "a=\"\xc3\"", "a=\"\xed\xa0\x80\"",
    };
    static const double falling[] = {1, 0.5}, endless[] = {1, 1e308 * 10}, rising[] = {0.5, 1};
    struct nx_segment segment, none;
    struct nx_metric metric, histogram, bad;
    struct nx_series series;
    size_t refused = 0;
    char escaped[16] = "", small[8] = "a=\"x\"";
    if (count != 2 || nx_open(&segment, arguments[1], "refuse", "0", 1 << 16, 1 << 20))
        return 1;
    for (size_t at = 0; at < sizeof names / sizeof *names; at++, refused++) {
        bad = nx_counter(&segment, names[at], "");
        expect(!bad.off, names[at]);
    }
    bad = nx_counter(&segment, "help", "\xff");
    series = nx_series(&bad, "");
    nx_add(&series, 1);
    bad = nx_histogram(&segment, "falling", "", falling, 2);
    bad = nx_histogram(&segment, "endless", "", endless, 2);
    refused += 4;
    histogram = nx_histogram(&segment, "seconds", "", rising, 2);
    for (size_t at = 0; at < sizeof labels / sizeof *labels; at++, refused++) {
        series = nx_series(&histogram, labels[at]);
        expect(!series.cells, labels[at]);
        nx_observe(&series, 1);
    }
    expect(nx_refused(&segment) == refused, "the count of what was refused");
    metric = nx_counter(&segment, "first_total", "Größe.");
    expect(!nx_label(escaped, sizeof escaped, "a", "\"\\\n") && !strcmp(escaped, "a=\"\\\"\\\\\\n\""), escaped);
    expect(nx_label(escaped, sizeof escaped, "b", "x") == -1 && strlen(escaped) == 10, "a label without room");
    expect(nx_label(small, sizeof small, "b", "") == -1 && strlen(small) == 5, "another");
    series = nx_series(&metric, escaped);
    nx_add(&series, 1);
    series = nx_series(&metric, "le=\"1\",b=\"\xf0\x9f\xa6\x80\"");
    nx_add(&series, 1);
    metric = nx_counter(&segment, "last_total", "");
    series = nx_series(&metric, "");
    nx_add(&series, 1);
    expect(nx_refused(&segment) == refused, "valid ones");

    expect(nx_open(&none, "/proc/none", "refuse", "1", 1 << 16, 1 << 20) == -1 && errno, "no directory");
    metric = nx_counter(&none, "a_total", "");
    series = nx_series(&metric, "");
    nx_add(&series, 1);
    expect(nx_refused(&none) == 2, "without a segment");
    nx_close(&none);
    return failures > 0;
}
