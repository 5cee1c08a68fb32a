// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/quota.h"

#include "daemon/control/attach.h"

#include <stdio.h>

struct holding {
	uint32_t consumers;
	uint32_t lease_blocks;
};

/* Those on their way out count: what they hold is not back yet. */
static struct holding add_up(const struct attach_point *point, uid_t uid)
{
	struct holding holding = {0};
	const struct attachment *attachment;

	LIST_FOREACH (attachment, &point->attachments, link) {
		if (attachment->uid != uid)
			continue;
		holding.consumers++;
		holding.lease_blocks += attachment->consumer.lease_blocks;
	}
	return holding;
}

const char *quota_explain_kept(const struct attach_point *point, char *text, size_t bytes)
{
	const struct attachment *attachment, *keeper = NULL;
	uint32_t n = 0;

	LIST_FOREACH (attachment, &point->attachments, link) {
		if (!attachment->released)
			continue;
		keeper = attachment;
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

bool quota_forbids(const struct attach_point *point, const struct peer *peer, uint32_t lease_blocks, char *text,
                   size_t bytes)
{
	const struct config_stream *stream = point->ring->config;
	struct holding holding = add_up(point, peer->uid);
	char kept[QUOTA_KEPT_MAX];

	if (peer->uid == 0)
		return false;
	if (holding.consumers >= stream->max_consumers_per_user)
		snprintf(text, bytes,
		         "user %u has %u consumers attached and max_consumers_per_user is %u%s; detach one, or ask the "
		         "administrator to raise it in %s",
		         (unsigned)peer->uid, holding.consumers, stream->max_consumers_per_user,
		         quota_explain_kept(point, kept, sizeof(kept)), stream->file);
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
