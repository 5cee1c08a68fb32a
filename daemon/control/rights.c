// SPDX-License-Identifier: Apache-2.0
/* Compares a client's user and groups with the lists in the configuration. */
#include "daemon/control/rights.h"

#include <stddef.h>

static const struct account unnamed = {.kind = ACCOUNT_UNNAMED};

static struct account account_of_user(const struct peer *peer)
{
	return (struct account){.kind = ACCOUNT_USER, .id = peer->uid};
}

static bool is_member(const struct peer *peer, gid_t gid)
{
	uint32_t low = 0, high = peer->n_groups;

	if (peer->gid == gid)
		return true;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (peer->groups[middle] == gid)
			return true;
		if (peer->groups[middle] < gid)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* True: the client is a member of one of the groups, and *account is that of the first one. */
static bool is_in_a_group(const gid_t *groups, uint32_t n_groups, const struct peer *peer, struct account *account)
{
	for (uint32_t i = 0; i < n_groups; i++) {
		if (is_member(peer, groups[i])) {
			*account = (struct account){.kind = ACCOUNT_GROUP, .id = groups[i]};
			return true;
		}
	}
	return false;
}

/* ---- streams --------------------------------------------------------------------------------------- */

static bool is_lossless_user(const struct config_stream *stream, const struct peer *peer)
{
	return config_is_user_in(stream->lossless_users, stream->n_lossless_users, peer->uid);
}

static bool is_observer(const struct config *config, const struct peer *peer, struct account *account)
{
	return is_in_a_group(config->observer_groups, config->n_observer_groups, peer, account);
}

enum rights rights_to_receive(const struct config *config, const struct config_stream *stream, const struct peer *peer,
                              uid_t daemon_uid, struct account *account)
{
	struct account from = unnamed, observer;
	bool is_named = peer->uid == 0 || config_is_user_in(stream->users, stream->n_users, peer->uid);
	bool is_open = stream->n_users == 0 && stream->n_groups == 0;

	if (peer->uid != 0 && peer->uid == daemon_uid)
		return RIGHTS_DAEMONS_USER;
	if (!is_named && !is_in_a_group(stream->groups, stream->n_groups, peer, &from) && !is_open)
		return RIGHTS_NOT_LISTED;
	if (!is_named && is_open && !config->observers_receive && is_observer(config, peer, &observer))
		return RIGHTS_OBSERVER;
	if (account)
		*account = is_named || is_lossless_user(stream, peer) ? account_of_user(peer) : from;
	return RIGHTS_GRANTED;
}

bool rights_to_be_lossless(const struct config_stream *stream, const struct peer *peer, struct account *account)
{
	struct account from;

	if (!stream->lossless_deadline_ms)
		return false;
	if (peer->uid == 0 || is_lossless_user(stream, peer) ||
	    (stream->n_lossless_users == 0 && stream->n_lossless_groups == 0))
		return true;
	if (!is_in_a_group(stream->lossless_groups, stream->n_lossless_groups, peer, &from))
		return false;
	if (account && account->kind != ACCOUNT_USER)
		*account = from;
	return true;
}

/* ---- channels -------------------------------------------------------------------------------------- */

enum rights rights_to_send(const struct config_channel *channel, const struct peer *peer, uid_t daemon_uid,
                           struct account *account)
{
	struct account from = account_of_user(peer);

	if (peer->uid != 0 && peer->uid == daemon_uid)
		return RIGHTS_DAEMONS_USER;
	if (peer->uid != 0 && !config_is_user_in(channel->users, channel->n_users, peer->uid) &&
	    !is_in_a_group(channel->groups, channel->n_groups, peer, &from))
		return RIGHTS_NOT_LISTED;
	if (account)
		*account = from;
	return RIGHTS_GRANTED;
}

/* ---- the daemon ------------------------------------------------------------------------------------ */

bool rights_to_change(const struct peer *peer, uid_t daemon_uid)
{
	return peer->uid == 0 || peer->uid == daemon_uid;
}

bool rights_to_see_all(const struct config *config, const struct peer *peer, uid_t daemon_uid)
{
	struct account account;

	return peer->uid == 0 || peer->uid == daemon_uid || is_observer(config, peer, &account);
}

/* ---- accounts -------------------------------------------------------------------------------------- */

static bool is_named_anywhere(const struct config *config, const struct peer *peer)
{
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (config_is_user_in(config->streams[i].users, config->streams[i].n_users, peer->uid) ||
		    is_lossless_user(&config->streams[i], peer))
			return true;
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (config_is_user_in(config->channels[i].users, config->channels[i].n_users, peer->uid))
			return true;
	return false;
}

struct account rights_account(const struct config *config, const struct peer *peer, uid_t daemon_uid)
{
	struct account account;

	if (peer->uid == 0 || peer->uid == daemon_uid || is_named_anywhere(config, peer))
		return account_of_user(peer);
	for (uint32_t i = 0; i < config->n_streams; i++) {
		const struct config_stream *stream = &config->streams[i];

		if (is_in_a_group(stream->groups, stream->n_groups, peer, &account) ||
		    is_in_a_group(stream->lossless_groups, stream->n_lossless_groups, peer, &account))
			return account;
	}
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (is_in_a_group(config->channels[i].groups, config->channels[i].n_groups, peer, &account))
			return account;
	if (is_observer(config, peer, &account))
		return account;
	return unnamed;
}

bool account_is_same(const struct account *a, const struct account *b)
{
	return a->kind == b->kind && a->id == b->id;
}

bool account_is_root(const struct account *account)
{
	return account->kind == ACCOUNT_USER && account->id == 0;
}
