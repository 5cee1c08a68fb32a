// SPDX-License-Identifier: Apache-2.0
/*
 * Puts the consumers of a stream into a status. The counters of a consumer come from its page, which it may fill with
 * anything. A tap has no page: the daemon knows only that its connection is open.
 */
#include "daemon/control/rx_endpoint.h"
#include "daemon/control/rx_group.h"
#include "daemon/control/rx_session.h"
#include "daemon/control/server.h"
#include "daemon/control/status.h"
#include "lib/base/min.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/sequence.h"

#include <ibvcap/ibvcap.h>

/* Far from overflowing in a sum, and more than anybody can count. */
#define TRACKED_MAX (UINT64_C(1) << 56)

/* A leased block is not recycled, so the rest of it can still be acquired when floor has passed it. */
static bool is_block_leased(const struct status_consumer_view *view, uint64_t block)
{
	for (uint32_t i = 0; i < view->lease_blocks; i++)
		if (view->leases[i] == block + 1)
			return true;
	return false;
}

static uint64_t count_gone(const struct status_consumer_view *view, uint64_t cursor)
{
	uint64_t first = view->floor * view->slots_per_block;

	if (is_block_leased(view, cursor / view->slots_per_block))
		cursor = (cursor / view->slots_per_block + 1) * view->slots_per_block;
	return first > cursor ? first - cursor : 0;
}

static void count_lost(const struct status_consumer_view *view, uint64_t lost, uint64_t counters[CONSUMER_COUNTER_N])
{
	const struct sequence_losses losses = sequence_place_losses(
		lost, view->tracked[IBVCAP_TRACKED_COUNTER_SKIPPED], view->tracked[IBVCAP_TRACKED_COUNTER_NO_BUFFER],
		view->tracked[IBVCAP_TRACKED_COUNTER_UNREAD], view->tracked[IBVCAP_TRACKED_COUNTER_ABSENCE]);

	if (!view->numbers_are_packets)
		return;
	counters[CONSUMER_COUNTER_LOST_BEFORE_CARD] = losses.before_card;
	counters[CONSUMER_COUNTER_LOST_IN_CARD] = losses.in_card;
	counters[CONSUMER_COUNTER_LOST_AFTER_CARD] = losses.after_card;
	counters[CONSUMER_COUNTER_LOST_UNREAD] = losses.unread;
	counters[CONSUMER_COUNTER_LOST_IN_ABSENCE] = losses.in_absence;
}

static void count_tracked(const struct status_consumer_view *view, uint64_t counters[CONSUMER_COUNTER_N])
{
	static const enum consumer_counter copied[IBVCAP_TRACKED_COUNTER_N] = {
		[IBVCAP_TRACKED_COUNTER_SOURCES] = CONSUMER_COUNTER_SOURCES,
		[IBVCAP_TRACKED_COUNTER_ONCE] = CONSUMER_COUNTER_ONCE,
		[IBVCAP_TRACKED_COUNTER_LOST] = CONSUMER_COUNTER_LOST,
		[IBVCAP_TRACKED_COUNTER_REPEATED] = CONSUMER_COUNTER_REPEATED,
		[IBVCAP_TRACKED_COUNTER_REORDERED] = CONSUMER_COUNTER_REORDERED,
		[IBVCAP_TRACKED_COUNTER_LATE] = CONSUMER_COUNTER_LATE,
		[IBVCAP_TRACKED_COUNTER_STRAY] = CONSUMER_COUNTER_STRAY,
		[IBVCAP_TRACKED_COUNTER_RESTARTED] = CONSUMER_COUNTER_RESTARTED,
		[IBVCAP_TRACKED_COUNTER_UNREAD] = CONSUMER_COUNTER_UNREAD,
		[IBVCAP_TRACKED_COUNTER_UNTRACKED] = CONSUMER_COUNTER_UNTRACKED,
	};

	for (uint32_t i = CONSUMER_COUNTER_SOURCES; i < CONSUMER_COUNTER_N; i++)
		counters[i] = COUNTER_ABSENT;
	if (!view->tracked[IBVCAP_TRACKED_COUNTER_SOURCES])
		return;
	for (uint32_t i = 0; i < IBVCAP_TRACKED_COUNTER_N; i++)
		if (copied[i])
			counters[copied[i]] = u64_min(view->tracked[i], TRACKED_MAX);
	counters[CONSUMER_COUNTER_ARRIVED] = counters[CONSUMER_COUNTER_ONCE] + counters[CONSUMER_COUNTER_REPEATED];
	counters[CONSUMER_COUNTER_SENT] = counters[CONSUMER_COUNTER_ONCE] + counters[CONSUMER_COUNTER_LOST];
	count_lost(view, counters[CONSUMER_COUNTER_LOST], counters);
}

void status_count_consumer(const struct status_consumer_view *view, uint64_t counters[CONSUMER_COUNTER_N])
{
	const uint64_t published = view->head - view->attach_sequence;
	const uint64_t delivered = u64_min(view->delivered, published);
	const uint64_t skipped = u64_min(view->skipped, published - delivered);
	const uint64_t lag = published - delivered - skipped;
	uint64_t n_leased = 0;

	for (uint32_t i = 0; i < view->lease_blocks; i++)
		n_leased += view->leases[i] != 0;
	counters[CONSUMER_COUNTER_PUBLISHED] = published;
	counters[CONSUMER_COUNTER_DELIVERED] = delivered;
	counters[CONSUMER_COUNTER_SKIPPED] = skipped;
	counters[CONSUMER_COUNTER_LAG] = lag;
	counters[CONSUMER_COUNTER_LEASED_BLOCKS] = n_leased;
	counters[CONSUMER_COUNTER_GONE] = u64_min(count_gone(view, view->attach_sequence + delivered + skipped), lag);
	count_tracked(view, counters);
}

void status_read_consumer(const struct rx_endpoint *endpoint, const struct rx_session *rx,
                          uint64_t counters[CONSUMER_COUNTER_N])
{
	struct status_consumer_view view;

	/* Reads each word once, and in the order that the view wants. */
	view.floor = consumer_load_floor(endpoint->queue->ring->ring);
	view.slots_per_block = endpoint->queue->ring->slots_per_block;
	view.lease_blocks = rx->consumer.lease_blocks;
	for (uint32_t i = 0; i < rx->consumer.lease_blocks; i++)
		view.leases[i] = daemon_load_lease(rx->consumer.page, i);
	view.attach_sequence = rx->consumer.attach_sequence;
	view.delivered = daemon_load_delivered(rx->consumer.page);
	view.skipped = daemon_load_skipped(rx->consumer.page);
	view.head = consumer_load_head(endpoint->queue->ring->ring);
	for (uint32_t i = 0; i < IBVCAP_TRACKED_COUNTER_N; i++)
		view.tracked[i] = daemon_load_tracked(rx->consumer.page, i);
	view.numbers_are_packets = endpoint->queue->ring->ring->sequence.count_bytes == 0;
	status_count_consumer(&view, counters);
}

static int append_consumer(struct reply *reply, const struct rx_endpoint *endpoint, const struct rx_session *rx)
{
	struct ibvcap_status_consumer part = {.size = sizeof(part),
	                                      .queue = endpoint->index,
	                                      .policy = consumer_load_policy(rx->consumer.state),
	                                      .pid = rx->client.pid,
	                                      .uid = rx->client.uid,
	                                      .n_counters = CONSUMER_COUNTER_N,
	                                      .lease_blocks = rx->consumer.lease_blocks};
	uint64_t counters[CONSUMER_COUNTER_N];

	reply_copy_text(part.stream, sizeof(part.stream), endpoint->endpoint.name);
	reply_copy_text(part.group, sizeof(part.group), rx->group ? rx_group_name(rx->group) : "");
	status_read_consumer(endpoint, rx, counters);
	return reply_append_part(reply, STATUS_CONSUMER, &part, counters);
}

static int append_tap(struct reply *reply, const struct rx_endpoint *endpoint, const struct session *session)
{
	struct ibvcap_status_consumer part = {.size = sizeof(part),
	                                      .queue = endpoint->index,
	                                      .policy = IBVCAP_POLICY_TAP,
	                                      .pid = session->peer.pid,
	                                      .uid = session->peer.uid};

	reply_copy_text(part.stream, sizeof(part.stream), endpoint->endpoint.name);
	return reply_append_part(reply, STATUS_CONSUMER, &part, NULL);
}

int status_append_consumers(struct reply *reply, const struct rx_endpoint *endpoint)
{
	const struct endpoint_client *client;
	const struct session *session;
	int r = 0;

	LIST_FOREACH (client, &endpoint->endpoint.clients, link)
		if (r == 0 && client->served)
			r = append_consumer(reply, endpoint, (const struct rx_session *)client);
	LIST_FOREACH (session, &endpoint->endpoint.control->sessions, link)
		if (r == 0 && session->tapped == &endpoint->endpoint)
			r = append_tap(reply, endpoint, session);
	return r;
}
