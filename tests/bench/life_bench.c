/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* How long a broker with a name server takes to start and to stop inside a process: wall time and
 * CPU time, the median of many rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rmq/broker.h>

#define ROUNDS 101

static double now_ms(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *what, double *ms)
{
    qsort(ms, ROUNDS, sizeof *ms, compare);
    printf("%-20s median %6.2f ms, 90th percentile %6.2f ms\n", what, ms[ROUNDS / 2],
           ms[ROUNDS * 9 / 10]);
}

int main(void)
{
    static double start_ms[ROUNDS];
    static double stop_ms[ROUNDS];
    double cpu_ms = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < ROUNDS; i++) {
        rmq_broker *broker = NULL;
        double begin = now_ms(CLOCK_MONOTONIC);
        if (rmq_broker_start(NULL, &broker, NULL)) {
            abort();
        }
        double middle = now_ms(CLOCK_MONOTONIC);
        rmq_broker_stop(broker);
        start_ms[i] = middle - begin;
        stop_ms[i] = now_ms(CLOCK_MONOTONIC) - middle;
    }
    report("start", start_ms);
    report("stop", stop_ms);
    printf("%-20s %6.2f ms\n", "CPU of both", (now_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu_ms) / ROUNDS);
    return 0;
}
