// SPDX-License-Identifier: Apache-2.0
/* How often one message may be logged: whatever happens how often, the log stays readable. Pure. Inside the base room only. */
#ifndef DAEMON_BASE_LOG_LIMIT_H
#define DAEMON_BASE_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#define LOG_LIMIT_N     200u /* a start says one for each of 64 streams, a reload has 100 differences */
#define LOG_LIMIT_S     10u
#define LOG_LIMIT_SITES 64

struct log_limit_site {
	const void *site;
	uint64_t since_ns;
	uint32_t n;
	uint64_t n_left_out;
};

/* All zero to begin with. */
struct log_limit {
	struct log_limit_site sites[LOG_LIMIT_SITES];
};

/** site: the message's format, of which there is one. *n_left_out: how many were before this one that may be logged. */
bool log_limit_allows(struct log_limit *limit, const void *site, uint64_t now_ns, uint64_t *n_left_out);

#endif
