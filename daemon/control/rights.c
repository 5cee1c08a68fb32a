// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/rights.h"

static bool is_user_listed(const struct config_stream *stream, uid_t uid)
{
	for (uint32_t i = 0; i < stream->n_users; i++)
		if (stream->users[i] == uid)
			return true;
	return false;
}

static bool is_group_listed(const struct config_stream *stream, gid_t gid)
{
	for (uint32_t i = 0; i < stream->n_groups; i++)
		if (stream->groups[i] == gid)
			return true;
	return false;
}

enum rights rights_to_receive(const struct config_stream *stream, const struct peer *peer, uid_t daemon_uid)
{
	if (peer->uid == 0)
		return RIGHTS_GRANTED;
	if (peer->uid == daemon_uid)
		return RIGHTS_DAEMONS_USER;
	if (stream->n_users == 0 && stream->n_groups == 0)
		return RIGHTS_GRANTED;
	if (is_user_listed(stream, peer->uid) || is_group_listed(stream, peer->gid))
		return RIGHTS_GRANTED;
	for (uint32_t i = 0; i < peer->n_groups; i++)
		if (is_group_listed(stream, peer->groups[i]))
			return RIGHTS_GRANTED;
	return RIGHTS_NOT_LISTED;
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
