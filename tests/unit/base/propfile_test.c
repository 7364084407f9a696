/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Properties files: what java.util.Properties makes of the same text, and edits that leave the rest
 * alone. */
#include "base/propfile.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"

/* "line:key=value|" for each property. */
static const char *read_all(const char *text)
{
    static char out[1024];
    struct rq_propfile file;
    size_t n = 0;
    out[0] = '\0';
    rq_propfile_init(&file, rq_slice_str(text));
    while (rq_propfile_next(&file)) {
        n += (size_t)snprintf(out + n, sizeof out - n, "%d:%s%s%s|", file.line,
                              rq_buf_cstr(&file.key), file.has_separator ? "=" : "",
                              rq_buf_cstr(&file.value));
    }
    ck_assert_int_eq(rq_propfile_status(&file), RMQ_OK);
    rq_propfile_free(&file);
    return out;
}

START_TEST(keys_end_at_the_first_equals_colon_or_blank)
{
    ck_assert_str_eq(read_all("a=1\nb:2\nc 3\nd\t=\t4=5\n e = f g \n"),
                     "1:a=1|2:b=2|3:c=3|4:d=4=5|5:e=f g|");
    ck_assert_str_eq(read_all("a\nb=\n=c"), "1:a|2:b=|3:=c|");
}
END_TEST

START_TEST(comments_blank_lines_and_the_byte_order_mark_are_passed_over)
{
    ck_assert_str_eq(read_all("\xEF\xBB\xBF# x\n\n  ! y=1\r\n\ra=1\r\nb=#2"), "5:a=1|6:b=#2|");
    ck_assert_str_eq(read_all(""), "");
    ck_assert_str_eq(read_all("#only"), "");
}
END_TEST

START_TEST(a_backslash_continues_a_line_and_two_of_them_do_not)
{
    ck_assert_str_eq(read_all("a=1;\\\n   2;\\\r\n\t3\nb=4"), "1:a=1;2;3|4:b=4|");
    ck_assert_str_eq(read_all("a=1\\\\\nb=2"), "1:a=1\\|2:b=2|");
    ck_assert_str_eq(read_all("\\\n\nb=2\\"), "3:b=2|");
    ck_assert_str_eq(read_all("a=1\\\n#2"), "1:a=1#2|");
}
END_TEST

START_TEST(escapes_are_resolved)
{
    ck_assert_str_eq(read_all("a\\=b=c\\:d"), "1:a=b=c:d|");
    ck_assert_str_eq(read_all("a=\\t\\n\\q\\u00e9\\u20AC\\u0000\\uZZZZ"),
                     "1:a=\t\nq\xC3\xA9\xE2\x82\xACu0000uZZZZ|");
}
END_TEST

static const char *edit(const char *text, const char *key, const char *value)
{
    static char out[1024];
    struct rq_buf buf;
    rq_buf_init(&buf, 0);
    rq_propfile_edit(rq_slice_str(text), rq_slice_str(key), rq_slice_str(value), &buf);
    snprintf(out, sizeof out, "%s", rq_buf_cstr(&buf));
    rq_buf_free(&buf);
    return out;
}

START_TEST(an_edit_changes_one_value_and_keeps_comments_and_order)
{
    ck_assert_str_eq(edit("# x\r\na = 1\r\n# y\r\nb=2\r\n", "a", "7"),
                     "# x\r\na=7\r\n# y\r\nb=2\r\n");
    ck_assert_str_eq(edit("a=1\na=2\n", "a", "7"), "a=1\na=7\n");
    ck_assert_str_eq(edit("a=1\\\n 2\nb=3", "a", "7"), "a=7\nb=3");
    ck_assert_str_eq(edit("b=3", "a", "C:\\x"), "b=3\na=C:\\\\x\n");
    ck_assert_str_eq(edit("", "a", ""), "a=\n");
}
END_TEST

START_TEST(a_value_that_was_written_is_read_as_it_was)
{
    static const char *const values[] = {"x\nb=1", "\r\n\t\f", " a b ", " ",
                                         "\ta\t",  "C:\\x\\",  "#="};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        char want[64];
        snprintf(want, sizeof want, "1:a=%s|2:c=2|", values[i]);
        ck_assert_str_eq(read_all(edit("a=1\nc=2\n", "a", values[i])), want);
    }
    ck_assert_str_eq(edit("", "a", "x\nb=1"), "a=x\\nb=1\n");
}
END_TEST

START_TEST(a_changed_file_keeps_its_old_text_beside_it)
{
    char path[] = "/tmp/rmq-propfile-XXXXXX";
    char old[64];
    struct rq_buf text;
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "# x\na=1\n", 8), 8);
    close(fd);
    snprintf(old, sizeof old, "%s.bak", path);
    ck_assert_int_eq(rq_propfile_change(path,
                                        rq_slice("a\0"
                                                 "2\0b\0"
                                                 "3",
                                                 8),
                                        NULL),
                     RMQ_OK);
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 4096, &text, NULL), RMQ_OK);
    ck_assert_str_eq(rq_buf_cstr(&text), "# x\na=2\nb=3\n");
    rq_buf_clear(&text);
    ck_assert_int_eq(rq_sys_read_file(old, 4096, &text, NULL), RMQ_OK);
    ck_assert_str_eq(rq_buf_cstr(&text), "# x\na=1\n");
    rq_buf_free(&text);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(unlink(old), 0);
}
END_TEST

START_TEST(a_file_may_be_a_pipe_where_others_may_not)
{
    int fds[2];
    char path[64];
    struct rq_buf text;
    ck_assert_int_eq(pipe(fds), 0);
    ck_assert_int_eq(write(fds[1], "a=1\nb=2\n", 8), 8);
    ck_assert_int_eq(close(fds[1]), 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
    rq_buf_init(&text, 0);
    ck_assert_int_eq(rq_sys_read_file(path, 4096, &text, NULL), RMQ_ERR_IO);
    rq_buf_free(&text);
    ck_assert_int_eq(rq_propfile_read(path, &text, NULL), RMQ_OK);
    ck_assert_str_eq(rq_buf_cstr(&text), "a=1\nb=2\n");
    rq_buf_free(&text);
    ck_assert_int_eq(close(fds[0]), 0);
}
END_TEST

Suite *propfile_suite(void);

Suite *propfile_suite(void)
{
    Suite *suite = suite_create("propfile");
    TCase *tcase = tcase_create("propfile");
    tcase_add_test(tcase, keys_end_at_the_first_equals_colon_or_blank);
    tcase_add_test(tcase, comments_blank_lines_and_the_byte_order_mark_are_passed_over);
    tcase_add_test(tcase, a_backslash_continues_a_line_and_two_of_them_do_not);
    tcase_add_test(tcase, escapes_are_resolved);
    tcase_add_test(tcase, an_edit_changes_one_value_and_keeps_comments_and_order);
    tcase_add_test(tcase, a_value_that_was_written_is_read_as_it_was);
    tcase_add_test(tcase, a_changed_file_keeps_its_old_text_beside_it);
    tcase_add_test(tcase, a_file_may_be_a_pipe_where_others_may_not);
    suite_add_tcase(suite, tcase);
    return suite;
}
