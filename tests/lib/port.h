/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/* Ports of 127.0.0.1 behind which there is no server. A setup that fails ends the process. */
#ifndef RQ_TESTS_LIB_PORT_H
#define RQ_TESTS_LIB_PORT_H

#include <stddef.h>

/* A port that takes connections and never answers; addr gets "127.0.0.1:port". The caller closes
 * the descriptor. */
int tl_port_silent(char *addr, size_t room);

/* A port that refuses connections while no server of ours listens there, and that no other process
 * gets before this one ends: tests run side by side, and a free port is soon another's. Servers may
 * come and go on it. addr, unless it is NULL, gets "127.0.0.1:port"; returns the port. */
int tl_port_kept(char *addr, size_t room);

#endif
