// SPDX-License-Identifier: Apache-2.0
/* Compares a client's user and groups with the lists in the configuration. */
#include "daemon/control/rights.h"

static const struct payer unnamed = {.kind = PAYER_UNNAMED};

static struct payer payer_of_user(const struct peer *peer)
{
	return (struct payer){.kind = PAYER_USER, .id = peer->uid};
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

/* True: the client is a member of one of the groups; *payer is then the first of those. */
static bool is_in_a_group(const gid_t *groups, uint32_t n_groups, const struct peer *peer, struct payer *payer)
{
	for (uint32_t i = 0; i < n_groups; i++) {
		if (is_member(peer, groups[i])) {
			*payer = (struct payer){.kind = PAYER_GROUP, .id = groups[i]};
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

static bool is_observer(const struct config *config, const struct peer *peer, struct payer *payer)
{
	return is_in_a_group(config->observer_groups, config->n_observer_groups, peer, payer);
}

enum rights rights_to_receive(const struct config *config, const struct config_stream *stream, const struct peer *peer,
                              uid_t daemon_uid, struct payer *payer)
{
	struct payer from = unnamed, observer;
	bool is_named = peer->uid == 0 || config_is_user_in(stream->users, stream->n_users, peer->uid);
	bool is_open = stream->n_users == 0 && stream->n_groups == 0;

	if (peer->uid != 0 && peer->uid == daemon_uid)
		return RIGHTS_DAEMONS_USER;
	if (!is_named && !is_in_a_group(stream->groups, stream->n_groups, peer, &from) && !is_open)
		return RIGHTS_NOT_LISTED;
	if (!is_named && is_open && !config->observers_receive && is_observer(config, peer, &observer))
		return RIGHTS_OBSERVER;
	if (payer)
		*payer = is_named || is_lossless_user(stream, peer) ? payer_of_user(peer) : from;
	return RIGHTS_GRANTED;
}

bool rights_to_be_lossless(const struct config_stream *stream, const struct peer *peer, struct payer *payer)
{
	struct payer from;

	if (!stream->lossless_deadline_ms)
		return false;
	if (peer->uid == 0 || is_lossless_user(stream, peer) ||
	    (stream->n_lossless_users == 0 && stream->n_lossless_groups == 0))
		return true;
	if (!is_in_a_group(stream->lossless_groups, stream->n_lossless_groups, peer, &from))
		return false;
	if (payer && payer->kind != PAYER_USER)
		*payer = from;
	return true;
}

/* ---- channels -------------------------------------------------------------------------------------- */

enum rights rights_to_send(const struct config_channel *channel, const struct peer *peer, uid_t daemon_uid,
                           struct payer *payer)
{
	struct payer from = payer_of_user(peer);

	if (peer->uid != 0 && peer->uid == daemon_uid)
		return RIGHTS_DAEMONS_USER;
	if (peer->uid != 0 && !config_is_user_in(channel->users, channel->n_users, peer->uid) &&
	    !is_in_a_group(channel->groups, channel->n_groups, peer, &from))
		return RIGHTS_NOT_LISTED;
	if (payer)
		*payer = from;
	return RIGHTS_GRANTED;
}

/* ---- the daemon ------------------------------------------------------------------------------------ */

bool rights_to_change(const struct peer *peer, uid_t daemon_uid)
{
	return peer->uid == 0 || peer->uid == daemon_uid;
}

bool rights_to_see_all(const struct config *config, const struct peer *peer, uid_t daemon_uid)
{
	struct payer payer;

	return peer->uid == 0 || peer->uid == daemon_uid || is_observer(config, peer, &payer);
}

/* ---- payers -------------------------------------------------------------------------------------- */

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

struct payer rights_payer(const struct config *config, const struct peer *peer, uid_t daemon_uid)
{
	struct payer payer;

	if (peer->uid == 0 || peer->uid == daemon_uid || is_named_anywhere(config, peer))
		return payer_of_user(peer);
	for (uint32_t i = 0; i < config->n_streams; i++) {
		const struct config_stream *stream = &config->streams[i];

		if (is_in_a_group(stream->groups, stream->n_groups, peer, &payer) ||
		    is_in_a_group(stream->lossless_groups, stream->n_lossless_groups, peer, &payer))
			return payer;
	}
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (is_in_a_group(config->channels[i].groups, config->channels[i].n_groups, peer, &payer))
			return payer;
	if (is_observer(config, peer, &payer))
		return payer;
	return unnamed;
}

bool payer_is_same(const struct payer *a, const struct payer *b)
{
	return a->kind == b->kind && a->id == b->id;
}

bool payer_is_root(const struct payer *payer)
{
	return payer->kind == PAYER_USER && payer->id == 0;
}
