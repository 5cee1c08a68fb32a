// SPDX-License-Identifier: Apache-2.0
/* Checks a client's request for a consumer against its rights and the limits, and mails the consumer to the worker. */
#include "daemon/control/rx_endpoint.h"

#include "daemon/control/id_name.h"
#include "daemon/control/server.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <string.h>
#include <unistd.h>

static int admit_options(struct session *session, const struct config_stream *stream,
                         const struct protocol_attach *request, struct payer *payer)
{
	if (request->policy > IBVCAP_POLICY_LOSSLESS)
		return session_send_error(session, -EINVAL,
		                          "stream '%s': policy %u: lossy (0), lossless (1) or tap (2)", stream->name,
		                          request->policy);
	if (request->policy == IBVCAP_POLICY_LOSSLESS && !rights_to_be_lossless(stream, &session->peer, payer))
		return session_send_error(session, -EACCES,
		                          "stream '%s': lossless is not for user %s; the administrator allows it with "
		                          "lossless_deadline_ms and lossless_users in the stream's configuration, "
		                          "%s:%d",
		                          stream->name, id_of_user(session->peer.uid).text, stream->file, stream->line);
	if (request->start > IBVCAP_START_NS_BACK)
		return session_send_error(
			session, -EINVAL,
			"stream '%s': start %u: newest (0), oldest (1), packets back (2) or time back (3)",
			stream->name, request->start);
	if (request->lease_blocks > IBVCAP_LEASE_SLOTS_MAX)
		return session_send_error(
			session, -EINVAL,
			"stream '%s': %u blocks of lease asked for: a consumer has %u at most; larger blocks have more "
			"packets each: slots_per_block in %s:%d",
			stream->name, request->lease_blocks, IBVCAP_LEASE_SLOTS_MAX, stream->file, stream->line);
	return ENDPOINT_ADMITTED;
}

/* Blocks of a consumer that the spares of all consumers' lease_blocks do not cover. */
static uint32_t count_extra(const struct config_stream *stream, uint32_t lease_blocks)
{
	return lease_blocks > stream->lease_blocks ? lease_blocks - stream->lease_blocks : 0;
}

/* The ring has a spare for each lease of its consumers, those on their way out included. */
static int admit_extra(struct session *session, const struct rx_endpoint *rx_endpoint, uint32_t lease_blocks)
{
	const struct config_stream *stream = rx_endpoint->stream->config;
	const struct endpoint_client *client;
	uint32_t used = 0;

	LIST_FOREACH (client, &rx_endpoint->endpoint.clients, link)
		used += count_extra(stream, client->lease_blocks);
	if (count_extra(stream, lease_blocks) <= stream->extra_lease_blocks - used)
		return ENDPOINT_ADMITTED;
	return session_send_error(session, -EAGAIN,
	                          "stream '%s': %u blocks of lease asked for; each consumer can have %u "
	                          "(lease_blocks), and %u more are left of extra_lease_blocks = %u; ask for fewer, "
	                          "or the administrator to raise extra_lease_blocks in %s:%d and restart",
	                          stream->name, lease_blocks, stream->lease_blocks, stream->extra_lease_blocks - used,
	                          stream->extra_lease_blocks, stream->file, stream->line);
}

static int admit_leases(struct session *session, const struct rx_endpoint *rx_endpoint, const struct user_share *share,
                        uint32_t lease_blocks)
{
	const struct config_stream *stream = rx_endpoint->stream->config;
	struct payer_text payer;
	int r = admit_extra(session, rx_endpoint, lease_blocks);

	if (r != ENDPOINT_ADMITTED)
		return r;
	if (!user_share_exceeds(share, USER_LEASE_BLOCKS, lease_blocks, stream->max_lease_blocks_per_user))
		return ENDPOINT_ADMITTED;
	payer = payer_describe(&share->user->payer, session->peer.uid);
	return session_send_error(
		session, -EAGAIN,
		"stream '%s': %u blocks of lease asked for, %s has %u, and max_lease_blocks_per_user is %u; ask for "
		"fewer, or the administrator to raise it%s in %s:%d",
		stream->name, lease_blocks, payer.who, share->used[USER_LEASE_BLOCKS],
		stream->max_lease_blocks_per_user, payer.remedy, stream->file, stream->line);
}

static int lend_to_worker(struct session *session, struct rx_endpoint *rx_endpoint, struct user_share *share,
                          const struct protocol_attach *request, uint32_t lease_blocks,
                          const struct rx_takeover *takeover)
{
	const char *stream = rx_endpoint->endpoint.name;
	struct rx_session *rx = NULL;
	struct mail mail = {.type = MAIL_ADD_CONSUMER};
	int r = rx_session_new(&rx, rx_endpoint, session, share, lease_blocks, request->policy);

	if (r < 0)
		return session_send_error(session, r, "stream '%s': the consumer's pages cannot be made: %s", stream,
		                          strerror(-r));
	rx->consumer.start = (struct rx_start_position){request->start, request->start_value};
	if (takeover) {
		rx->consumer.start = (struct rx_start_position){RX_START_SEQUENCE, takeover->sequence};
		/*
		 * The worker will store the same value. Set here, so that it is valid if the consumer leaves before the
		 * worker has it.
		 */
		rx->consumer.attach_sequence = takeover->sequence;
		rx->consumer.state->taken_over = takeover->had_owner;
		rx->consumer.state->abandoned = takeover->abandoned;
	}
	mail.consumer = &rx->consumer;
	r = mailbox_send(rx_endpoint->queue->inbox, &mail);
	if (r < 0) {
		rx_session_free(&rx->client);
		return session_send_error(session, r, "stream '%s': its worker has too much mail; try again", stream);
	}
	return 0;
}

int rx_admit_check(struct session *session, const struct rx_endpoint *rx_endpoint,
                   const struct protocol_attach *request, struct payer *payer)
{
	const struct config_stream *stream = rx_endpoint->stream->config;
	enum rights rights =
		rights_to_receive(session->control->options.config, stream, &session->peer, geteuid(), payer);
	int r = endpoint_admit_rights(session, "stream", stream->name, rights, stream->file, stream->line);

	if (r != ENDPOINT_ADMITTED)
		return r;
	if (request->lends && !stream->payload_is_lent)
		return session_send_error(
			session, -EINVAL,
			"stream '%s': its payload rows are in the daemon's memory, and a consumer can lend it none; "
			"the administrator sets payload_memory = \"consumer\" in the stream's configuration, %s:%d",
			stream->name, stream->file, stream->line);
	return request->policy == IBVCAP_POLICY_TAP ? ENDPOINT_ADMITTED
	                                            : admit_options(session, stream, request, payer);
}

/* A tap has no page and no lease: the worker does not know it, and it takes no consumer's place. */
static int admit_tap(struct session *session, struct rx_endpoint *rx_endpoint)
{
	if (rx_endpoint->endpoint.ended || !session->control->listening)
		return session_send_error(session, -EAGAIN, "stream '%s': the daemon is stopping",
		                          rx_endpoint->endpoint.name);
	session->tapped = &rx_endpoint->endpoint;
	session_resume(session);
	return rx_session_send_tap(session, rx_endpoint);
}

int rx_admit(struct session *session, struct rx_endpoint *rx_endpoint, const struct protocol_attach *request,
             const struct rx_takeover *takeover)
{
	const struct config_stream *stream = rx_endpoint->stream->config;
	const struct endpoint_limits limits = {stream->max_consumers, stream->max_consumers_per_user, stream->file,
	                                       stream->line};
	uint32_t lease_blocks = request->lease_blocks ? request->lease_blocks : stream->lease_blocks;
	struct user_share *share;
	struct payer payer;
	int r = rx_admit_check(session, rx_endpoint, request, &payer);

	if (r != ENDPOINT_ADMITTED)
		return r;
	if (rx_endpoint->has_failed)
		return session_send_error(session, -EIO,
		                          "stream '%s': queue %u on device %s has failed: its packets are lost, until "
		                          "the daemon is started again: systemctl restart ibvcapd",
		                          stream->name, rx_endpoint->index, rx_endpoint->stream->device);
	if (request->policy == IBVCAP_POLICY_TAP)
		return admit_tap(session, rx_endpoint);
	share = endpoint_share(&rx_endpoint->endpoint, &payer);
	r = endpoint_admit_place(session, &rx_endpoint->endpoint, share, &limits);
	if (r == ENDPOINT_ADMITTED)
		r = admit_leases(session, rx_endpoint, share, lease_blocks);
	return r == ENDPOINT_ADMITTED ? lend_to_worker(session, rx_endpoint, share, request, lease_blocks, takeover)
	                              : r;
}
