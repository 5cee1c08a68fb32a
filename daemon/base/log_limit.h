// SPDX-License-Identifier: Apache-2.0
/* The limit on repeated messages. Inside the base room only, and for tests. Declares log.c. */
#ifndef DAEMON_BASE_LOG_LIMIT_H
#define DAEMON_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_N     200u /* a start logs one for each of 64 streams, a reload logs up to 100 differences */
#define LOG_LIMIT_S     10u
#define LOG_LIMIT_SITES 64

struct log_limit_site {
	const void *site;
	uint64_t since_ns;
	uint32_t n;
	uint64_t n_left_out;
};

/* Initialised with zeros. */
struct log_limit {
	struct log_limit_site sites[LOG_LIMIT_SITES];
};

/** site: address of the format string, which identifies the message. *n_left_out: messages left out before this one. */
bool log_limit_allows(struct log_limit *limit, const void *site, uint64_t now_ns, uint64_t *n_left_out);

#endif
