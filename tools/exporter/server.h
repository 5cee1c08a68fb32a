// SPDX-License-Identifier: Apache-2.0
/*
 * The HTTP server of `ibvcap metrics --listen`: the page at /, /metrics and /status.json. One thread of libmicrohttpd
 * answers. A response is made once for each answer of the daemon, so requests cost a copy, however many come.
 */
#ifndef TOOLS_EXPORTER_SERVER_H
#define TOOLS_EXPORTER_SERVER_H

#include "tools/exporter/watch.h"

struct server;

/** Listen on "ADDRESS:PORT" or "[ADDRESS]:PORT". NULL: it cannot, and a message on standard error says why. */
struct server *server_new(const char *address, struct watch *watch);

/** Close all connections. NULL is allowed. */
void server_free(struct server *server);

/** End connections that are older than a request takes. Call it each second or so. */
void server_end_old_connections(struct server *server);

#endif
