/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * The machine's own addresses: for the client id and for unique message ids. Looks at interfaces
 * and routing tables, never at a name service. Any thread. Counterparts:
 * RemotingUtil.getLocalAddress, UtilAll.getIP.
 */
#ifndef RQ_CLIENT_LOCAL_ADDR_H
#define RQ_CLIENT_LOCAL_ADDR_H

#include <stddef.h>
#include <stdint.h>

#define RQ_ADDR_TEXT 64

/* The address from which a name server "host:port" is reached, when its host is numeric; else the
 * first address of an interface that is up and not the loopback, else 127.0.0.1. Written as text
 * that is safe in a file name: the colons of IPv6 become '-'. */
void rq_local_addr_text(const char *namesrv, char out[RQ_ADDR_TEXT]);

/* 4 bytes (IPv4) or 16 (IPv6) of the machine's address: a public one, else a private IPv4, else the
 * loopback. Returns the length. */
size_t rq_local_addr_bytes(uint8_t out[16]);

#endif
