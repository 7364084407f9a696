/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Answers of bulk calls are taken together. A broker that answers each request by itself would wake
 * us once an answer; while many calls are under way and nobody sleeps for one of them, the socket
 * is told to call only when an eighth of their answers is there (SO_RCVLOWAT), and a timer looks
 * anyway after 2 ms. The first call that somebody waits for ends that at once, from its own thread.
 * Each change of the mark is made under the calls' lock, which therefore also orders it before the
 * end of the socket. Counterpart: none; netty reads what has come.
 */
#include <sys/socket.h>

#include "net/conn_priv.h"

#define LEAST_CALLS 64 /* with fewer an answer is taken when it comes */
#define PARTS       8
#define MOST_BYTES  65536
#define LONGEST_MS  2
#define NO_MARK     1 /* the socket calls for each byte */
#define ENDED       0

static void set_locked(struct rq_conn *conn, int mark)
{
    if (setsockopt(conn->fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof mark) == 0) {
        conn->calls.mark = mark;
    }
}

void rq_conn_bulk_begin(struct rq_conn *conn)
{
    conn->calls.mark = NO_MARK;
}

void rq_conn_bulk_interrupt_locked(struct rq_conn *conn)
{
    if (conn->calls.mark > NO_MARK) {
        set_locked(conn, NO_MARK);
    }
}

static int wanted_locked(const struct rq_conn *conn)
{
    const struct rq_calls *calls = &conn->calls;
    if (calls->bulk < LEAST_CALLS || calls->bulk != calls->count) {
        return NO_MARK;
    }
    size_t bytes = conn->answer_size * (calls->bulk / PARTS);
    return bytes < MOST_BYTES ? (int)bytes + 1 : MOST_BYTES;
}

/* A mark that is nearly right stays: changing it costs a system call. */
static bool is_near(int wanted, int mark)
{
    return mark > NO_MARK && wanted > NO_MARK && wanted < mark * 2 && wanted > mark / 2;
}

void rq_conn_bulk_adjust(struct rq_conn *conn)
{
    struct rq_calls *calls = &conn->calls;
    rq_mutex_lock(&calls->lock);
    int wanted = wanted_locked(conn);
    if (calls->mark != ENDED && wanted != calls->mark && !is_near(wanted, calls->mark)) {
        set_locked(conn, wanted);
    }
    bool marked = calls->mark > NO_MARK;
    rq_mutex_unlock(&calls->lock);
    if (marked) {
        rq_timer_start(conn->loop, &conn->bulk_timer, LONGEST_MS);
    } else {
        rq_timer_stop(&conn->bulk_timer);
    }
}

void rq_conn_bulk_end(struct rq_conn *conn)
{
    rq_mutex_lock(&conn->calls.lock);
    conn->calls.mark = ENDED;
    rq_mutex_unlock(&conn->calls.lock);
    rq_timer_stop(&conn->bulk_timer);
}
