/* SPDX-License-Identifier: Apache-2.0 */
/* Copyright The librmq Authors */
/*
 * Visibility of the public functions. Both shared libraries are built with hidden visibility;
 * RMQ_API marks what a program may call. A version script per library gives the exports their
 * symbol version.
 */
#ifndef RMQ_EXPORT_H
#define RMQ_EXPORT_H

#if defined(__GNUC__) || defined(__clang__)
#define RMQ_API               __attribute__((visibility("default")))
#define RMQ_MUST_USE          __attribute__((warn_unused_result))
#define RMQ_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define RMQ_API
#define RMQ_MUST_USE
#define RMQ_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
#define RMQ_BEGIN_DECLS extern "C" {
#define RMQ_END_DECLS   }
#else
#define RMQ_BEGIN_DECLS
#define RMQ_END_DECLS
#endif

#endif
