/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* The pairing heap: the order in which it gives out, nodes that leave early, and what it costs,
 * counted in comparisons. */
#include <check.h>

#include "base/heap.h"

Suite *heap_suite(void);

#define NODES 20000
/* comparisons for each node, coming and going: twice the height of a tree of that many, and some */
#define STEPS_EACH 40

static struct rq_heap_node nodes[NODES];

/* Each key of 0 … n - 1 once; steps that share no factor with n visit all of them. */
static int64_t scattered(int64_t i)
{
    return i * 7919 % NODES;
}

static void take_all(struct rq_heap *heap, int64_t count)
{
    int64_t last = INT64_MIN;
    for (int64_t i = 0; i < count; i++) {
        struct rq_heap_node *first = rq_heap_first(heap);
        ck_assert_ptr_nonnull(first);
        ck_assert(first->key >= last);
        last = first->key;
        rq_heap_remove(first);
        ck_assert(!rq_heap_has(first));
    }
    ck_assert_ptr_null(rq_heap_first(heap));
}

START_TEST(heap_gives_out_the_least_key_however_they_came)
{
    struct rq_heap heap;
    rq_heap_init(&heap);
    for (int64_t i = 0; i < NODES; i++) {
        const int64_t keys[] = {i, NODES - i, scattered(i), i / 100, 5};
        rq_heap_add(&heap, &nodes[i], keys[_i]);
        ck_assert(rq_heap_has(&nodes[i]));
    }
    take_all(&heap, NODES);
    ck_assert_uint_le(heap.steps, (uint64_t)NODES * STEPS_EACH);
}
END_TEST

START_TEST(nodes_leave_a_heap_from_the_midst_at_the_same_cost)
{
    struct rq_heap heap;
    rq_heap_init(&heap);
    for (int64_t i = 0; i < NODES; i++) {
        rq_heap_add(&heap, &nodes[i], scattered(i));
    }
    for (int64_t i = 0; i < NODES; i += 2) {
        rq_heap_remove(&nodes[i]);
        rq_heap_remove(&nodes[i]); /* harmless */
    }
    take_all(&heap, NODES / 2);
    ck_assert_uint_le(heap.steps, (uint64_t)NODES * STEPS_EACH);
}
END_TEST

START_TEST(a_heap_stays_in_order_while_nodes_come_and_go)
{
    enum { FEW = 64, ROUNDS = 20000 };
    struct rq_heap heap;
    uint32_t seed = 4711;
    rq_heap_init(&heap);
    for (size_t i = 0; i < FEW; i++) {
        rq_heap_node_init(&nodes[i]);
    }
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 1664525 + 1013904223;
        struct rq_heap_node *node = &nodes[(seed >> 8) % FEW];
        rq_heap_remove(node);
        if (seed & 0x80000000u) {
            rq_heap_add(&heap, node, (int64_t)(seed >> 16) % 100 - 50);
        }
        const struct rq_heap_node *least = NULL;
        for (size_t i = 0; i < FEW; i++) {
            if (rq_heap_has(&nodes[i]) && (!least || nodes[i].key < least->key)) {
                least = &nodes[i];
            }
        }
        const struct rq_heap_node *first = rq_heap_first(&heap);
        ck_assert((first == NULL) == (least == NULL));
        ck_assert(!first || first->key == least->key);
    }
}
END_TEST

Suite *heap_suite(void)
{
    Suite *suite = suite_create("heap");
    TCase *tc = tcase_create("heap");
    tcase_add_loop_test(tc, heap_gives_out_the_least_key_however_they_came, 0, 5);
    tcase_add_test(tc, nodes_leave_a_heap_from_the_midst_at_the_same_cost);
    tcase_add_test(tc, a_heap_stays_in_order_while_nodes_come_and_go);
    suite_add_tcase(suite, tc);
    return suite;
}
