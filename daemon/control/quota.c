// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/quota.h"

#include "daemon/control/rx_endpoint.h"

#include <stdio.h>

struct holding {
	uint32_t consumers;
	uint32_t lease_blocks;
};

/* Those on their way out count: what they hold is not back yet. */
static struct holding add_up(const struct rx_endpoint *endpoint, uid_t uid)
{
	struct holding holding = {0};
	const struct rx_session *rx;

	LIST_FOREACH (rx, &endpoint->sessions, link) {
		if (rx->uid != uid)
			continue;
		holding.consumers++;
		holding.lease_blocks += rx->consumer.lease_blocks;
	}
	return holding;
}

const char *quota_explain_kept(const struct rx_endpoint *endpoint, char *text, size_t bytes)
{
	const struct rx_session *rx, *keeper = NULL;
	uint32_t n = 0;

	LIST_FOREACH (rx, &endpoint->sessions, link) {
		if (!rx->released)
			continue;
		keeper = rx;
		n++;
	}
	text[0] = 0;
	if (keeper)
		snprintf(text, bytes,
		         " (%u of all have hung up and keep their pages, and count until they unmap them or end: "
		         "process %d, "
		         "which attached, or one it gave them to)",
		         n, (int)keeper->pid);
	return text;
}

bool quota_forbids(const struct rx_endpoint *endpoint, const struct peer *peer, uint32_t lease_blocks, char *text,
                   size_t bytes)
{
	const struct config_stream *stream = endpoint->stream->config;
	struct holding holding = add_up(endpoint, peer->uid);
	char kept[QUOTA_KEPT_MAX];

	if (peer->uid == 0)
		return false;
	if (holding.consumers >= stream->max_consumers_per_user)
		snprintf(text, bytes,
		         "user %u has %u consumers attached and max_consumers_per_user is %u%s; detach one, or ask the "
		         "administrator to raise it in %s",
		         (unsigned)peer->uid, holding.consumers, stream->max_consumers_per_user,
		         quota_explain_kept(endpoint, kept, sizeof(kept)), stream->file);
	else if (holding.lease_blocks + lease_blocks > stream->max_lease_blocks_per_user)
		snprintf(text, bytes,
		         "%u blocks of lease for user %u, whose consumers have %u, and max_lease_blocks_per_user is "
		         "%u; ask "
		         "for fewer, or the administrator to raise it in %s",
		         lease_blocks, (unsigned)peer->uid, holding.lease_blocks, stream->max_lease_blocks_per_user,
		         stream->file);
	else
		return false;
	return true;
}
