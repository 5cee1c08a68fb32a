// SPDX-License-Identifier: Apache-2.0
/* Compares a client's user and groups with the lists in the configuration. */
#include "daemon/control/rights.h"

/* The users and groups that the configuration names for a right; an empty list means all clients. */
struct list {
	const uid_t *users;
	uint32_t n_users;
	const gid_t *groups;
	uint32_t n_groups;
};

static bool is_group_listed(const struct list *list, gid_t gid)
{
	for (uint32_t i = 0; i < list->n_groups; i++)
		if (list->groups[i] == gid)
			return true;
	return false;
}

static bool is_listed(const struct list *list, const struct peer *peer)
{
	if (list->n_users == 0 && list->n_groups == 0)
		return true;
	for (uint32_t i = 0; i < list->n_users; i++)
		if (list->users[i] == peer->uid)
			return true;
	if (is_group_listed(list, peer->gid))
		return true;
	for (uint32_t i = 0; i < peer->n_groups; i++)
		if (is_group_listed(list, peer->groups[i]))
			return true;
	return false;
}

enum rights rights_to_receive(const struct config_stream *stream, const struct peer *peer, uid_t daemon_uid)
{
	const struct list list = {stream->users, stream->n_users, stream->groups, stream->n_groups};

	if (peer->uid == 0)
		return RIGHTS_GRANTED;
	if (peer->uid == daemon_uid)
		return RIGHTS_DAEMONS_USER;
	return is_listed(&list, peer) ? RIGHTS_GRANTED : RIGHTS_NOT_LISTED;
}

enum rights rights_to_send(const struct config_channel *channel, const struct peer *peer, uid_t daemon_uid)
{
	const struct list list = {channel->users, channel->n_users, channel->groups, channel->n_groups};

	if (peer->uid == 0)
		return RIGHTS_GRANTED;
	if (peer->uid == daemon_uid)
		return RIGHTS_DAEMONS_USER;
	if (list.n_users == 0 && list.n_groups == 0)
		return RIGHTS_NOT_LISTED;
	return is_listed(&list, peer) ? RIGHTS_GRANTED : RIGHTS_NOT_LISTED;
}

bool rights_to_change(const struct peer *peer, uid_t daemon_uid)
{
	return peer->uid == 0 || peer->uid == daemon_uid;
}

bool rights_to_see_all(const struct peer *peer, uid_t daemon_uid, gid_t daemon_gid)
{
	if (peer->uid == 0 || peer->uid == daemon_uid || peer->gid == daemon_gid)
		return true;
	for (uint32_t i = 0; i < peer->n_groups; i++)
		if (peer->groups[i] == daemon_gid)
			return true;
	return false;
}

bool rights_to_be_lossless(const struct config_stream *stream, const struct peer *peer)
{
	const struct list list = {stream->lossless_users, stream->n_lossless_users, stream->lossless_groups,
	                          stream->n_lossless_groups};

	return stream->lossless_deadline_ms && (peer->uid == 0 || is_listed(&list, peer));
}
