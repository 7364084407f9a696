/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * For how many bytes a socket calls (SO_RCVLOWAT). Answers of bulk calls are taken together: a
 * broker that answers each request by itself would wake us once an answer; while many calls are
 * under way and nobody sleeps for one of them, the socket is told to call only when an eighth of
 * their answers is there, and a timer looks anyway after 2 ms. The first call that somebody waits
 * for ends that at once, from its own thread.
 *
 * And a peer that writes a frame in pieces, as the Go client does (length, length of the header,
 * header, body), wakes us for the first four bytes; once it did, its socket calls when a header has
 * begun, which needs no timer, since no frame ends before.
 *
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

/* Bytes of a frame before which there is nothing to do: its two lengths and some of the header. */
#define LEAST_FRAME (RQ_FRAME_PREFIX + 1)

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
    if (conn->calls.mark > LEAST_FRAME) {
        set_locked(conn, NO_MARK);
    }
}

/* Many bytes, or 0. */
static int answers_locked(const struct rq_conn *conn)
{
    const struct rq_calls *calls = &conn->calls;
    if (calls->bulk < LEAST_CALLS || calls->bulk != calls->count) {
        return 0;
    }
    size_t bytes = conn->answer_size * (calls->bulk / PARTS);
    return bytes < MOST_BYTES ? (int)bytes + 1 : MOST_BYTES;
}

/* What is sure to come before a frame can be handled, as far as it is worth waiting for. */
static int beginning_of_frame(const struct rq_conn *conn)
{
    if (!conn->in_pieces) {
        return NO_MARK;
    }
    size_t left = (conn->need ? conn->need : LEAST_FRAME) - conn->have;
    return left < LEAST_FRAME ? (int)left : LEAST_FRAME;
}

/* A mark that is nearly right stays: changing it costs a system call. */
static bool is_near(int wanted, int mark)
{
    return wanted < mark * 2 && wanted > mark / 2;
}

void rq_conn_bulk_adjust(struct rq_conn *conn)
{
    struct rq_calls *calls = &conn->calls;
    rq_mutex_lock(&calls->lock);
    int answers = answers_locked(conn);
    int wanted = answers ? answers : beginning_of_frame(conn);
    bool stays = wanted == calls->mark || (answers && is_near(wanted, calls->mark));
    if (calls->mark != ENDED && !stays) {
        set_locked(conn, wanted);
    }
    bool timed = calls->mark > LEAST_FRAME;
    rq_mutex_unlock(&calls->lock);
    if (timed) {
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
