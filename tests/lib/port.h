/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Ports behind which there is no server. */
#ifndef RQ_TESTS_LIB_PORT_H
#define RQ_TESTS_LIB_PORT_H

#include <stddef.h>

/* A port of 127.0.0.1 that takes connections and never answers; addr gets "127.0.0.1:port". The
 * caller closes the descriptor: from then on connections are refused. */
int tl_port_silent(char *addr, size_t room);

#endif
