/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * `rmq store inspect|verify|rebuild`: stores on disk, also those of Apache RocketMQ. Counterparts:
 * mqadmin dumpCompactionLog, and none for the rest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmq/store.h>

#include "tools/text.h"
#include "tools/tool.h"

#define BAR_WIDTH   40
#define BAR_STEP_US 100000
#define GIB         1073741824.0

/* What the three commands share. Exit codes of verify are the verdict: 3 unfinished, 4 rebuild, 5
 * damaged. */
enum { STORE_EXIT_VERDICT = 2 };

struct bar {
    bool shown;
    int64_t began_us;
    int64_t drawn_us;
    int64_t done;
};

struct store_args {
    const char *dir;
    const char *output;
    const char *commit_log;
    int64_t findings;
    bool json;
    bool messages;
    rmq_store_options options;
    struct bar bar;
    const char *next;      /* what follows the bar, or NULL */
    struct tool_text list; /* findings as JSON */
};

#define OPTION_COMMIT_LOG(a)                                                                       \
    {                                                                                              \
        0, "commit-log", TOOL_TEXT, &(a).commit_log, "DIR",                                        \
            "directory of the commit log, when it is not DIR/commitlog", 0, 0                      \
    }

static bool draw_bar(int64_t done, int64_t total, void *user)
{
    struct store_args *a = user;
    int64_t now = tool_now_us();
    bool last = done >= total;
    if (done < a->bar.done) { /* the next half */
        a->bar.began_us = now;
        a->next = NULL;
    }
    a->bar.done = done;
    if (!a->bar.shown || (!last && now - a->bar.drawn_us < BAR_STEP_US)) {
        return true;
    }
    int full = total > 0 ? (int)(done * BAR_WIDTH / total) : BAR_WIDTH;
    double seconds = (double)(now - a->bar.began_us) / 1e6;
    fprintf(stderr, "\r[%.*s%*s] %3d %%  %.2f GiB/s ", full,
            "########################################", BAR_WIDTH - full, "",
            total > 0 ? (int)(done * 100 / total) : 100,
            seconds > 0 ? (double)done / GIB / seconds : 0);
    if (last) {
        fputs(a->next ? a->next : "", stderr);
        fputc('\n', stderr);
    }
    fflush(stderr);
    a->bar.drawn_us = now;
    return true;
}

static void take_finding(const char *text, void *user)
{
    struct store_args *a = user;
    if (a->json) {
        tool_text_puts(&a->list, a->list.size > 0 ? "," : "");
        tool_json_string(&a->list, text, strlen(text));
    } else {
        printf("%s%s\n", a->bar.shown ? "\r" : "", text);
    }
}

/* TOOL_GO or an exit code. */
static int start(struct store_args *a, struct tool_usage *usage, int argc, char **argv)
{
    usage->positional = &a->dir;
    int rc = tool_parse(usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    if (!a->dir) {
        return tool_wrong("which store? give its directory, such as $HOME/store");
    }
    if (!tool_output(a->output, &a->json)) {
        return TOOL_USAGE;
    }
    rmq_store_options_init(&a->options, sizeof a->options);
    a->options.commit_log_dir = a->commit_log;
    a->options.progress = draw_bar;
    a->options.finding = take_finding;
    a->options.max_findings = (int32_t)a->findings;
    a->options.user = a;
    a->bar =
        (struct bar){.shown = isatty(STDERR_FILENO) == 1 && !a->json, .began_us = tool_now_us()};
    return TOOL_GO;
}

/* ---- inspect ---- */

static const struct {
    const char *name;
    size_t at;
} info_rows[] = {
    {"commitLogMinOffset", offsetof(rmq_store_info, commit_log_min_offset)},
    {"commitLogMaxOffset", offsetof(rmq_store_info, commit_log_max_offset)},
    {"commitLogFiles", offsetof(rmq_store_info, commit_log_files)},
    {"mappedFileSizeCommitLog", offsetof(rmq_store_info, commit_log_file_size)},
    {"topics", offsetof(rmq_store_info, topics)},
    {"queues", offsetof(rmq_store_info, queues)},
    {"messages", offsetof(rmq_store_info, messages)},
    {"consumeQueueFiles", offsetof(rmq_store_info, consume_queue_files)},
    {"mappedFileSizeConsumeQueue", offsetof(rmq_store_info, consume_queue_file_size)},
    {"indexFiles", offsetof(rmq_store_info, index_files)},
    {"indexEntries", offsetof(rmq_store_info, index_entries)},
    {"firstStoreTimestamp", offsetof(rmq_store_info, first_store_timestamp_ms)},
    {"lastStoreTimestamp", offsetof(rmq_store_info, last_store_timestamp_ms)},
    {"physicMsgTimestamp", offsetof(rmq_store_info, physic_msg_timestamp_ms)},
    {"logicsMsgTimestamp", offsetof(rmq_store_info, logics_msg_timestamp_ms)},
    {"indexMsgTimestamp", offsetof(rmq_store_info, index_msg_timestamp_ms)},
};

static int64_t number_at(const void *object, size_t at)
{
    int64_t value;
    memcpy(&value, (const char *)object + at, sizeof value);
    return value;
}

static void add_queue(struct tool_text *line, const rmq_store_queue *queue)
{
    tool_json_open(line);
    tool_json_text(line, "topic", queue->topic);
    tool_json_number(line, "queueId", queue->queue_id);
    tool_json_number(line, "minOffset", queue->min_offset);
    tool_json_number(line, "maxOffset", queue->max_offset);
    tool_json_number(line, "commitLogMaxOffset", queue->commit_log_max_offset);
    tool_json_number(line, "files", queue->files);
    if (queue->log_max_offset >= 0) {
        tool_json_number(line, "logMaxOffset", queue->log_max_offset);
    }
    tool_json_close(line);
}

/* "[{…},…]" of all queues, as value of a member. */
static void add_queues(struct tool_text *line, const rmq_store *store)
{
    struct tool_text list = {0};
    rmq_store_queue queue;
    tool_text_puts(&list, "[");
    for (size_t i = 0; rmq_store_queue_at(store, i, &queue, sizeof queue); i++) {
        tool_text_puts(&list, i > 0 ? "," : "");
        add_queue(&list, &queue);
    }
    tool_text_puts(&list, "]");
    tool_text_add(&list, "", 1);
    tool_json_raw(line, "queues", list.data);
    tool_text_free(&list);
}

static void print_info(const struct store_args *a, const rmq_store *store)
{
    struct tool_text line = {0};
    rmq_store_queue queue;
    rmq_store_info info;
    rmq_store_get_info(store, &info, sizeof info);
    if (a->json) {
        tool_json_open(&line);
        tool_json_raw(&line, "closed", info.closed ? "true" : "false");
        tool_json_raw(&line, "inUse", info.in_use ? "true" : "false");
        for (size_t i = 0; i < TOOL_COUNT(info_rows); i++) {
            tool_json_number(&line, info_rows[i].name, number_at(&info, info_rows[i].at));
        }
        add_queues(&line, store);
        tool_json_close(&line);
        tool_text_flush(&line, stdout);
        tool_text_free(&line);
        return;
    }
    printf("%-28s %s\n", "state",
           info.in_use   ? "in use by a broker"
           : info.closed ? "closed"
                         : "not closed in order");
    for (size_t i = 0; i < TOOL_COUNT(info_rows); i++) {
        printf("%-28s %lld\n", info_rows[i].name, (long long)number_at(&info, info_rows[i].at));
    }
    printf("\n%5s %12s %12s %6s  %s\n", "QUEUE", "BEGIN", "END", "FILES", "TOPIC");
    for (size_t i = 0; rmq_store_queue_at(store, i, &queue, sizeof queue); i++) {
        printf("%5d %12lld %12lld %6d  %s\n", queue.queue_id, (long long)queue.min_offset,
               (long long)queue.max_offset, queue.files, queue.topic);
    }
}

/* Properties as members; the bytes are name 0x01 value 0x02 … */
static void add_properties(struct tool_text *line, const char *p, size_t n)
{
    struct tool_text map = {0};
    const char *end = p + n;
    bool first = true;
    tool_text_puts(&map, "{");
    while (p < end) {
        const char *stop = memchr(p, 2, (size_t)(end - p));
        stop = stop ? stop : end;
        const char *split = memchr(p, 1, (size_t)(stop - p));
        if (split) {
            tool_text_puts(&map, first ? "" : ",");
            tool_json_string(&map, p, (size_t)(split - p));
            tool_text_puts(&map, ":");
            tool_json_string(&map, split + 1, (size_t)(stop - split - 1));
            first = false;
        }
        p = stop < end ? stop + 1 : end;
    }
    tool_text_puts(&map, "}");
    tool_text_add(&map, "", 1);
    tool_json_raw(line, "properties", map.data);
    tool_text_free(&map);
}

static void print_message(const struct store_args *a, const rmq_store_queue *queue,
                          const rmq_store_message *msg)
{
    struct tool_text line = {0};
    if (!a->json) {
        printf("%-20s %5d %10lld %14lld %8d  %s\n", queue->topic, queue->queue_id,
               (long long)msg->queue_offset, (long long)msg->commit_log_offset, msg->size,
               msg->msg_id);
        return;
    }
    tool_json_open(&line);
    tool_json_text(&line, "topic", queue->topic);
    tool_json_number(&line, "queueId", queue->queue_id);
    tool_json_number(&line, "queueOffset", msg->queue_offset);
    tool_json_number(&line, "commitLogOffset", msg->commit_log_offset);
    tool_json_number(&line, "size", msg->size);
    tool_json_number(&line, "tagsCode", msg->tags_code);
    tool_json_text(&line, "msgId", msg->msg_id);
    tool_json_number(&line, "flag", msg->flag);
    tool_json_number(&line, "sysFlag", msg->sys_flag);
    tool_json_number(&line, "bornTimestamp", msg->born_timestamp_ms);
    tool_json_number(&line, "storeTimestamp", msg->store_timestamp_ms);
    tool_json_number(&line, "reconsumeTimes", msg->reconsume_times);
    tool_json_number(&line, "preparedTransactionOffset", msg->prepared_transaction_offset);
    add_properties(&line, msg->properties, msg->properties_size);
    tool_json_number(&line, "bodySize", (int64_t)msg->body_size);
    tool_json_sha1(&line, "bodySha1", msg->body, msg->body_size);
    tool_json_close(&line);
    tool_text_flush(&line, stdout);
    tool_text_free(&line);
}

/* As long as somebody takes them: a store may be large. */
static int print_messages(const struct store_args *a, const rmq_store *store)
{
    rmq_store_queue queue;
    int rc = TOOL_DONE;
    for (size_t i = 0; !ferror(stdout) && rmq_store_queue_at(store, i, &queue, sizeof queue); i++) {
        for (int64_t offset = queue.min_offset; offset < queue.max_offset && !ferror(stdout);
             offset++) {
            rmq_store_message msg;
            rmq_error *err = NULL;
            rmq_status st = rmq_store_message_at(store, i, offset, &msg, sizeof msg, &err);
            if (st == RMQ_OK) {
                print_message(a, &queue, &msg);
            } else if (st == RMQ_ERR_NOT_FOUND) {
                rmq_error_destroy(err);
            } else {
                rc = tool_fail("message", st, err);
            }
        }
    }
    return rc;
}

static int inspect(int argc, char **argv)
{
    struct store_args a = {0};
    const struct tool_option options[] = {
        {'m', "messages", TOOL_FLAG, &a.messages, "", "print every message of every queue", 0, 0},
        OPTION_COMMIT_LOG(a),
        TOOL_OPTION_OUTPUT(&a.output),
    };
    struct tool_usage usage = {
        .synopsis = "store inspect DIR [options]",
        .text =
            "Shows what is in the store of a directory: offsets, files, times, queues, messages. "
            "Changes nothing; works beside a running broker.",
        .examples =
            "    rmq store inspect ~/store\n    rmq store inspect ~/store --messages -o json\n",
        .exits = "0 done, 1 cannot be read, 2 wrong command line.",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = start(&a, &usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_store *store = NULL;
    rmq_error *err = NULL;
    rmq_status st = rmq_store_open(a.dir, &a.options, &store, &err);
    if (st != RMQ_OK) {
        return tool_fail("inspect", st, err);
    }
    rc = TOOL_DONE;
    if (a.messages) {
        rc = print_messages(&a, store);
    } else {
        print_info(&a, store);
    }
    rmq_store_close(store);
    return rc;
}

/* ---- verify ---- */

static const struct {
    const char *name;
    size_t at;
} check_rows[] = {
    {"commitLogMinOffset", offsetof(rmq_store_check, commit_log_min_offset)},
    {"commitLogMaxOffset", offsetof(rmq_store_check, commit_log_max_offset)},
    {"logMessages", offsetof(rmq_store_check, log_messages)},
    {"logBytes", offsetof(rmq_store_check, log_bytes)},
    {"damagedPlaces", offsetof(rmq_store_check, damaged_places)},
    {"damagedBytes", offsetof(rmq_store_check, damaged_bytes)},
    {"missingFiles", offsetof(rmq_store_check, missing_files)},
    {"tornBytes", offsetof(rmq_store_check, torn_bytes)},
    {"queueEntries", offsetof(rmq_store_check, queue_entries)},
    {"queueEntriesMissing", offsetof(rmq_store_check, queue_entries_missing)},
    {"queueEntriesWrong", offsetof(rmq_store_check, queue_entries_wrong)},
    {"queueEntriesAhead", offsetof(rmq_store_check, queue_entries_ahead)},
    {"queueEntriesExpired", offsetof(rmq_store_check, queue_entries_expired)},
    {"indexEntries", offsetof(rmq_store_check, index_entries)},
    {"indexEntriesMissing", offsetof(rmq_store_check, index_entries_missing)},
    {"indexEntriesWrong", offsetof(rmq_store_check, index_entries_wrong)},
    {"indexChainsBroken", offsetof(rmq_store_check, index_chains_broken)},
};

static const char *const verdicts[] = {
    [RMQ_STORE_WHOLE] = "WHOLE",
    [RMQ_STORE_UNFINISHED] = "UNFINISHED",
    [RMQ_STORE_REBUILD] = "REBUILD",
    [RMQ_STORE_DAMAGED] = "DAMAGED",
};

static const char *const advice[] = {
    [RMQ_STORE_WHOLE] = "every queue entry and index entry matches its message",
    [RMQ_STORE_UNFINISHED] = "the store was not closed in order; the next start completes it",
    [RMQ_STORE_REBUILD] = "the messages are whole, queues or index are not: rmq store rebuild",
    [RMQ_STORE_DAMAGED] =
        "messages are damaged or missing; rmq store rebuild --salvage keeps the others",
};

static void print_check(struct store_args *a, const rmq_store *store, const rmq_store_check *check)
{
    struct tool_text line = {0};
    double seconds = (double)(tool_now_us() - a->bar.began_us) / 1e6;
    if (a->json) {
        tool_json_open(&line);
        tool_json_text(&line, "verdict", verdicts[check->verdict]);
        for (size_t i = 0; i < TOOL_COUNT(check_rows); i++) {
            tool_json_number(&line, check_rows[i].name, number_at(check, check_rows[i].at));
        }
        struct tool_text list = {0};
        tool_text_format(&list, "[%.*s]", (int)a->list.size, a->list.size > 0 ? a->list.data : "");
        tool_text_add(&list, "", 1);
        tool_json_raw(&line, "findings", list.data);
        tool_text_free(&list);
        add_queues(&line, store);
        tool_json_real(&line, "seconds", seconds, 3);
        tool_json_close(&line);
        tool_text_flush(&line, stdout);
        tool_text_free(&line);
        return;
    }
    for (size_t i = 0; i < TOOL_COUNT(check_rows); i++) {
        printf("%-20s %lld\n", check_rows[i].name, (long long)number_at(check, check_rows[i].at));
    }
    printf("%-20s %.3f (%.2f GiB/s)\n", "seconds", seconds,
           seconds > 0 ? (double)check->log_bytes / GIB / seconds : 0);
    printf("%s: %s\n", verdicts[check->verdict], advice[check->verdict]);
}

static int verify(int argc, char **argv)
{
    struct store_args a = {.findings = 100};
    const struct tool_option options[] = {
        {0, "findings", TOOL_NUMBER, &a.findings, "N",
         "how many single findings to tell; default 100", 0, 1000000},
        OPTION_COMMIT_LOG(a),
        TOOL_OPTION_OUTPUT(&a.output),
    };
    struct tool_usage usage = {
        .synopsis = "store verify DIR [options]",
        .text = "Reads the whole commit log of a closed store and checks every message (CRC), "
                "every queue "
                "entry and every index entry against each\n"
                "other. Changes nothing.",
        .examples = "    rmq store verify ~/store\n    rmq store verify ~/store -o json\n",
        .exits =
            "0 everything matches, 1 cannot be read, 2 wrong command line, 3 not closed in order "
            "but "
            "the next start completes it,\n"
            "4 queues or index are wrong or missing (rmq store rebuild mends them), 5 messages are "
            "damaged or missing.",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = start(&a, &usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_store *store = NULL;
    rmq_error *err = NULL;
    rmq_store_check check;
    rmq_status st = rmq_store_open(a.dir, &a.options, &store, &err);
    if (st == RMQ_OK) {
        st = rmq_store_verify(store, &check, sizeof check, &err);
    }
    if (st == RMQ_OK) {
        print_check(&a, store, &check);
        rc = check.verdict == RMQ_STORE_WHOLE ? TOOL_DONE : STORE_EXIT_VERDICT + check.verdict;
    } else {
        rc = tool_fail("verify", st, err);
    }
    rmq_store_close(store);
    tool_text_free(&a.list);
    return rc;
}

/* ---- rebuild ---- */

static int rebuild(int argc, char **argv)
{
    struct store_args a = {0};
    const char *levels = NULL;
    bool salvage = false;
    const struct tool_option options[] = {
        {0, "delay-levels", TOOL_TEXT, &levels, "TEXT",
         "the broker's messageDelayLevel, when it is not the default", 0, 0},
        {0, "salvage", TOOL_FLAG, &salvage, "",
         "mend a damaged commit log: what is lost is covered, every good message is kept", 0, 0},
        OPTION_COMMIT_LOG(a),
        TOOL_OPTION_OUTPUT(&a.output),
    };
    struct tool_usage usage = {
        .synopsis = "store rebuild DIR [options]",
        .text =
            "Builds all consume queues and the key index of a store anew from its commit log. This "
            "writes to the store: the broker must be stopped.\n"
            "The commit log is checked first; when it is damaged nothing is done, unless with "
            "--salvage: copy the store first.",
        .examples = "    rmq store rebuild ~/store && rmq store verify ~/store\n",
        .exits = "0 done, 1 failed (a damaged commit log, a store in use, no space), 2 wrong "
                 "command line.",
        .options = options,
        .count = TOOL_COUNT(options),
    };
    int rc = start(&a, &usage, argc, argv);
    if (rc != TOOL_GO) {
        return rc;
    }
    rmq_error *err = NULL;
    a.options.message_delay_level = levels;
    a.options.finding = NULL;
    a.options.salvage = salvage;
    a.next = "\nthe commit log is checked; building queues and index";
    rmq_status st = rmq_store_rebuild(a.dir, &a.options, &err);
    if (st != RMQ_OK) {
        return tool_fail("rebuild", st, err);
    }
    double seconds = (double)(tool_now_us() - a.bar.began_us) / 1e6;
    printf(a.json ? "{\"rebuilt\":true,\"seconds\":%.3f}\n" : "rebuilt in %.3f s\n", seconds);
    return TOOL_DONE;
}

static const struct tool_command commands[] = {
    {"inspect", "shows what is in it", inspect},
    {"verify", "checks whether everything in it agrees", verify},
    {"rebuild", "builds queues and index anew from the commit log", rebuild},
};

int tool_store(int argc, char **argv)
{
    return tool_dispatch("rmq store",
                         "Stores on disk: those of this broker and of Apache RocketMQ.\n", commands,
                         TOOL_COUNT(commands), argc, argv);
}
