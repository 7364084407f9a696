/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Records of checkpoints: how far they count as done. */
#include "broker/broker.h"
#include "broker/pop_priv.h"
#include "unit/broker/popping.h"

static int64_t done_of(int32_t revive_qid)
{
    return rq_offsets_query(&broker->offsets, rq_slice_str(RQ_POP_REVIVE_GROUP),
                            rq_slice_str(broker->pops.revive_topic), revive_qid);
}

/* As without memory to come back with: here its place in the table is another one's. */
START_TEST(a_checkpoint_that_cannot_come_back_is_not_done)
{
    struct rq_pops *pops = &broker->pops;
    struct rq_msg msg;
    pop_produce(0, "a", "x");
    ck_assert_uint_eq(
        raw_messages(pop_now((struct pop_wish){.queue_id = 0, .invisible_ms = 600000}), &msg, 1),
        1);
    rq_mutex_lock(&pops->lock);
    ck_assert_uint_eq(pops->heap_count, 1);
    struct rq_pop_pending *pending = pops->heap[0];
    rq_pop_pending_leave_locked(pops, pending);
    rq_mutex_unlock(&pops->lock);
    int32_t revive_qid = pending->revive_qid;
    ck_assert_int_eq(rq_pops_add(pops, revive_qid, &pending->checkpoint), RMQ_OK);
    rq_mutex_lock(&pops->lock);
    rq_pop_pending_come_back_locked(pops, pending, pending->deadline_ms);
    rq_mutex_unlock(&pops->lock);
    rq_pops_commit(pops);
    ck_assert_int_lt(done_of(revive_qid), 0); /* a restart reads both records */
}
END_TEST

Suite *pop_record_suite(void)
{
    Suite *suite = suite_create("broker/pop_record");
    TCase *tc = tcase_create("record");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, pop_open, pop_close);
    tcase_add_test(tc, a_checkpoint_that_cannot_come_back_is_not_done);
    suite_add_tcase(suite, tc);
    return suite;
}
