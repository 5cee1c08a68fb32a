// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of `ibvcap metrics --listen`: the daemon's last two answers, and the HTTP server that gives them. Declares
 * server.c, watch.c.
 */
#ifndef TOOLS_EXPORTER_EXPORTER_H
#define TOOLS_EXPORTER_EXPORTER_H

#include "tools/status/metrics.h"
#include "tools/status/top.h"

#include <pthread.h>

/* ---- the watch ------------------------------------------------------------------------------------- */

/* The daemon's last two answers, as one thread takes them from it and others read them. */
struct watch {
	const char *socket;
	pthread_mutex_t lock;
	/* Under the lock. */
	struct top_view view; /* now is all zero: the daemon did not answer, and now_at_ns may be the start */
	uint64_t asked;       /* how often */
	char trouble[256];    /* why it did not answer */
};

void watch_init(struct watch *watch, const char *socket);

/** Ask the daemon, which may take 2 s; the lock is not held meanwhile. */
void watch_ask(struct watch *watch);

/* With the lock held: */

struct metrics_health watch_health(const struct watch *watch);

/** The JSON of `ibvcap top`, what `ibvcap why` says of each stream, and whether the daemon answers. */
json_t *watch_to_json(const struct watch *watch);

/* ---- the page -------------------------------------------------------------------------------------- */

/* page.html as the program has it: embed_page.py makes the file of these constants. */
extern const unsigned char page_html[];
extern const size_t page_html_bytes;
extern const char page_policy[]; /* the header Content-Security-Policy: a browser runs the page's own script alone */

/* ---- the server ------------------------------------------------------------------------------------ */

/*
 * Serves the page at /, /metrics and /status.json. One thread of libmicrohttpd answers. A response is made once for
 * each answer of the daemon, so requests cost a copy, however many come.
 */
struct server;

/** Is it "ADDRESS:PORT" or "[ADDRESS]:PORT"? If not, a message on standard error says so. */
bool server_address_is_one(const char *address);

/** Listen on such an address. NULL: it cannot, and a message on standard error says why. */
struct server *server_new(const char *address, struct watch *watch);

/** Close all connections. NULL is allowed. */
void server_free(struct server *server);

/** End connections that are older than a request takes. Call it each second or so. */
void server_end_old_connections(struct server *server);

#endif
