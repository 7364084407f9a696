/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Runs of the rmq command. */
#ifndef RQ_TESTS_LIB_COMMAND_H
#define RQ_TESTS_LIB_COMMAND_H

/* Runs rmq with these words in a shell, NAMESRV_ADDR set. The case fails unless it ends with the
 * exit code and its standard output has the text in it. One thread. */
void tl_expect(const char *namesrv, const char *words, int exit_code, const char *text);

#endif
