// SPDX-License-Identifier: Apache-2.0
/* Counts how often each message was logged in the current interval, in a small table of recent messages. */
#include "daemon/base/log_limit.h"

#include <stddef.h>

/* The entry of the message, or, if it has none, the one whose interval began first, which is then replaced. */
static struct log_limit_site *log_limit_find(struct log_limit *limit, const void *site)
{
	struct log_limit_site *oldest = &limit->sites[0];

	for (size_t i = 0; i < LOG_LIMIT_SITES; i++) {
		if (limit->sites[i].site == site)
			return &limit->sites[i];
		if (limit->sites[i].since_ns < oldest->since_ns)
			oldest = &limit->sites[i];
	}
	*oldest = (struct log_limit_site){.site = site};
	return oldest;
}

bool log_limit_allows(struct log_limit *limit, const void *site, uint64_t now_ns, uint64_t *n_left_out)
{
	struct log_limit_site *mine = log_limit_find(limit, site);

	*n_left_out = 0;
	if (mine->n == 0 || now_ns - mine->since_ns >= LOG_LIMIT_S * UINT64_C(1000000000)) {
		*n_left_out = mine->n_left_out;
		*mine = (struct log_limit_site){.site = site, .since_ns = now_ns};
	}
	if (mine->n < LOG_LIMIT_N) {
		mine->n++;
		return true;
	}
	mine->n_left_out++;
	return false;
}
