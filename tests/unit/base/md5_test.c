/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* MD5 against the test suite of RFC 1321, and lengths around the edges of a block. */
#include "base/md5.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

Suite *md5_suite(void);

static void check_digest(const char *text, size_t n, const char *expected)
{
    uint8_t digest[RQ_MD5_SIZE];
    char hex[2 * RQ_MD5_SIZE + 1];
    rq_md5(text, n, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        snprintf(hex + 2 * i, 3, "%02x", (unsigned)digest[i]);
    }
    ck_assert_str_eq(hex, expected);
}

START_TEST(digests_are_those_of_the_rfc)
{
    const char *alphabet = "abcdefghijklmnopqrstuvwxyz";
    const char *digits = "1234567890123456789012345678901234567890"
                         "1234567890123456789012345678901234567890";
    check_digest(NULL, 0, "d41d8cd98f00b204e9800998ecf8427e");
    check_digest("abc", 3, "900150983cd24fb0d6963f7d28e17f72");
    check_digest(alphabet, 26, "c3fcd3d76192e4007dfb496cca67e13b");
    check_digest(digits, 80, "57edf4a22be3c955ac49da2e2107b67a");
}
END_TEST

START_TEST(lengths_around_a_block_are_padded_right)
{
    char text[64];
    memset(text, 'a', sizeof text);
    check_digest(text, 55, "ef1772b6dff9a122358552954ad0df65");
    check_digest(text, 56, "3b0c8ac703f828b04c6c197006d17218");
    check_digest(text, 63, "b06521f39153d618550606be297466d5");
    check_digest(text, 64, "014842d480b571495a4a0363793f7367");
}
END_TEST

Suite *md5_suite(void)
{
    Suite *suite = suite_create("md5");
    TCase *tcase = tcase_create("md5");
    tcase_add_test(tcase, digests_are_those_of_the_rfc);
    tcase_add_test(tcase, lengths_around_a_block_are_padded_right);
    suite_add_tcase(suite, tcase);
    return suite;
}
