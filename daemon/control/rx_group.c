// SPDX-License-Identifier: Apache-2.0
/* Shares the queues of a stream out among the members of a group, and knows where each queue's next owner goes on. */
#include "daemon/control/rx_group.h"

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/control/id_name.h"
#include "daemon/control/rx_endpoint.h"
#include "daemon/control/server.h"
#include "lib/base/min.h"
#include "lib/ibvcap/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A member that waits for a queue. */
struct rx_group_ask {
	struct session_wait wait; /* first */
	TAILQ_ENTRY(rx_group_ask) link;
	struct rx_group *group;
	struct session *session;
	struct protocol_attach request;
};

struct rx_group_queue {
	struct rx_session *owner; /* from its request until the worker has given it back; NULL: free */
	uint64_t member;          /* the owner's number */
	pid_t left_pid;           /* the last owner that acquired packets */
	struct rx_takeover next;  /* for the next owner */
};

struct rx_group {
	LIST_ENTRY(rx_group) link; /* in the stream's list of groups */
	struct rx_stream *stream;
	char name[IBVCAP_GROUP_NAME_MAX];
	uid_t uid; /* user of all members */
	TAILQ_HEAD(, rx_group_ask) asks;
	uint32_t n_queues;
	struct rx_group_queue queues[IBVCAP_QUEUES_MAX];
	struct rx_session *recalled; /* one at a time; NULL: none */
	uint64_t recall_until_us;
	uint64_t n_moves; /* queues that went from one owner to another */
	uint64_t n_late;  /* owners that did not give up a recalled queue in time */
};

/* ---- members --------------------------------------------------------------------------------------- */

static uint32_t count_queues_of(const struct rx_group *group, uint64_t member)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < group->n_queues; i++) {
		const struct rx_session *owner = group->queues[i].owner;

		n += owner && owner != group->recalled && owner->client.session && group->queues[i].member == member;
	}
	return n;
}

/* The ask of the member that has the fewest queues; of equal ones, the first to ask. NULL: nobody asks. */
static struct rx_group_ask *ask_of_fewest(const struct rx_group *group)
{
	struct rx_group_ask *ask, *found = NULL;
	uint32_t fewest = UINT32_MAX;

	TAILQ_FOREACH (ask, &group->asks, link) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): TAILQ_REMOVE() has unlinked those that are freed */
		uint32_t n = count_queues_of(group, ask->request.member);

		if (n >= fewest)
			continue;
		fewest = n;
		found = ask;
	}
	return found;
}

/* A queue of the member that has the most, of those that it was told of. NULL: nobody has one. */
static struct rx_group_queue *queue_of_most(struct rx_group *group)
{
	struct rx_group_queue *found = NULL;
	uint32_t most = 0;

	for (uint32_t i = 0; i < group->n_queues; i++) {
		struct rx_group_queue *queue = &group->queues[i];
		uint32_t n = queue->owner && queue->owner->client.served ? count_queues_of(group, queue->member) : 0;

		if (n <= most)
			continue;
		most = n;
		found = queue;
	}
	return found;
}

static void drop_ask(struct rx_group_ask *ask)
{
	TAILQ_REMOVE(&ask->group->asks, ask, link);
	ask->session->wait = NULL;
	free(ask);
}

static void abandon_ask(struct session_wait *wait)
{
	struct rx_group_ask *ask = (struct rx_group_ask *)wait;
	struct rx_group *group = ask->group;

	drop_ask(ask);
	rx_group_balance(group);
}

/* ---- queues ---------------------------------------------------------------------------------------- */

/* NULL: the queue has ended, or will. */
static struct rx_endpoint *find_queue(const struct rx_group *group, uint32_t queue)
{
	struct rx_endpoint *endpoint = group->stream->queues[queue];

	return !endpoint->endpoint.ended && endpoint->endpoint.ending == IBVCAP_DISCONNECT_NONE ? endpoint : NULL;
}

static struct rx_group_queue *find_free(struct rx_group *group, struct rx_endpoint **endpoint)
{
	for (uint32_t i = 0; i < group->n_queues; i++) {
		*endpoint = group->queues[i].owner ? NULL : find_queue(group, i);
		if (*endpoint)
			return &group->queues[i];
	}
	return NULL;
}

static void log_move(struct rx_group *group, const struct rx_group_queue *queue, uint32_t index)
{
	const struct log_about about = {.stream = group->stream->known->config->name,
	                                .peer = "CONSUMER",
	                                .pid = queue->owner->client.pid,
	                                .uid = queue->owner->client.uid};

	if (queue->next.had_owner && loop_should_log(++group->n_moves))
		log_message(LOG_INFO, &about,
		            "stream '%s': group '%s': process %d goes on with queue %u at packet %llu, where process "
		            "%d stopped, which had acquired and not released %llu packets (%llu such moves so far)",
		            about.stream, group->name, (int)about.pid, index, (unsigned long long)queue->next.sequence,
		            (int)queue->left_pid, (unsigned long long)queue->next.abandoned,
		            (unsigned long long)group->n_moves);
}

/* The ask is over, whatever the answer is: a refused member asks again. */
static void give_queue(struct rx_group_ask *ask, struct rx_group_queue *queue, struct rx_endpoint *endpoint)
{
	const struct protocol_attach request = ask->request;
	struct rx_group *group = ask->group;
	struct session *session = ask->session;
	int r;

	drop_ask(ask);
	r = rx_admit(session, endpoint, &request, &queue->next);
	if (r < 0) {
		session_free(session);
	} else if (session->client) {
		queue->owner = (struct rx_session *)session->client;
		queue->owner->group = group;
		queue->member = request.member;
		log_move(group, queue, endpoint->index);
	}
}

void rx_group_note_told(const struct rx_session *rx)
{
	for (uint32_t i = 0; rx->group && i < rx->group->n_queues; i++)
		if (rx->group->queues[i].owner == rx)
			rx->group->queues[i].next.abandoned = 0; /* it counts them, also if it acquires nothing */
}

/* Notes where the next owner begins. If the owner has read nothing, that is where it began itself. */
static void note_cursor(struct rx_group_queue *queue, const struct rx_session *rx)
{
	const struct ring_consumer *consumer = &rx->consumer;
	uint64_t behind = consumer_load_head(rx_session_endpoint(rx)->queue->ring->ring) - consumer->attach_sequence;
	uint64_t delivered = u64_min(daemon_load_delivered(consumer->page), behind);
	uint64_t skipped = u64_min(daemon_load_skipped(consumer->page), behind - delivered);

	if (delivered + skipped == 0)
		return;
	queue->left_pid = rx->client.pid;
	queue->next = (struct rx_takeover){
		.sequence = consumer->attach_sequence + delivered + skipped,
		.abandoned = delivered - u64_min(daemon_load_released(consumer->page), delivered),
		.had_owner = true,
	};
}

struct rx_group *rx_group_take_back(struct rx_session *rx)
{
	struct rx_group *group = rx->group;

	if (!group)
		return NULL;
	for (uint32_t i = 0; i < group->n_queues; i++) {
		if (group->queues[i].owner != rx)
			continue;
		note_cursor(&group->queues[i], rx);
		group->queues[i].owner = NULL;
	}
	if (group->recalled == rx)
		group->recalled = NULL;
	rx->group = NULL;
	return group;
}

/* ---- sharing out ------------------------------------------------------------------------------------ */

static void recall_queue(struct rx_group *group, struct rx_group_queue *queue)
{
	const struct control *control = group->stream->queues[0]->endpoint.control;
	struct session *session = queue->owner->client.session;
	struct protocol_bare message = {0};

	protocol_init(&message.header, PROTOCOL_RECALLED, sizeof(message));
	group->recalled = queue->owner;
	group->recall_until_us = loop_now_us(control->options.event) + RX_GROUP_RECALL_US;
	daemon_recall(&queue->owner->consumer.state->link);
	if (session_send(session, &message.header, NULL, 0) < 0)
		session_free(session);
}

static bool has_member(const struct rx_group *group)
{
	for (uint32_t i = 0; i < group->n_queues; i++)
		if (group->queues[i].owner)
			return true;
	return !TAILQ_EMPTY(&group->asks);
}

static void free_group(struct rx_group *group)
{
	LIST_REMOVE(group, link);
	free(group);
}

void rx_group_balance(struct rx_group *group)
{
	struct rx_endpoint *endpoint;
	struct rx_group_queue *queue;
	struct rx_group_ask *ask;

	if (!group)
		return;
	while ((ask = ask_of_fewest(group)) && (queue = find_free(group, &endpoint)))
		give_queue(ask, queue, endpoint);
	queue = ask && !group->recalled ? queue_of_most(group) : NULL;
	if (queue && count_queues_of(group, queue->member) >= count_queues_of(group, ask->request.member) + 2)
		recall_queue(group, queue);
	if (!has_member(group))
		free_group(group);
}

/* ---- joining ---------------------------------------------------------------------------------------- */

static struct rx_group *new_group(struct rx_stream *stream, const struct protocol_attach *request, uid_t uid)
{
	const struct rx_start_position start = {request->start, request->start_value};
	struct rx_group *group = calloc(1, sizeof(*group));

	if (!group)
		return NULL;
	group->stream = stream;
	group->uid = uid;
	group->n_queues = stream->n_queues;
	memcpy(group->name, request->group, sizeof(group->name));
	TAILQ_INIT(&group->asks);
	/* All queues of a group begin at one time: when the first member joins. */
	for (uint32_t i = 0; i < group->n_queues; i++) {
		const struct rx_endpoint *endpoint = find_queue(group, i);

		group->queues[i].next.sequence = endpoint ? rx_ring_find_start(endpoint->queue->ring, &start) : 0;
	}
	LIST_INSERT_HEAD(&stream->groups, group, link);
	return group;
}

int rx_group_join(struct session *session, struct rx_stream *stream, const struct protocol_attach *request)
{
	struct protocol_joined joined = {.epoch = stream->queues[0]->queue->ring->ring->segment.epoch,
	                                 .n_queues = stream->n_queues};
	struct rx_group_ask *ask;
	struct rx_group *group;
	int r = rx_admit_check(session, stream->queues[0], request, NULL);

	if (r != ENDPOINT_ADMITTED)
		return r;
	if (request->policy == IBVCAP_POLICY_TAP)
		return session_send_error(session, -EINVAL, "stream '%s': a tap cannot be a member of a group",
		                          stream->known->config->name);
	ask = calloc(1, sizeof(*ask));
	LIST_FOREACH (group, &stream->groups, link)
		if (strcmp(group->name, request->group) == 0 && group->uid == session->peer.uid)
			break;
	if (!group && ask)
		group = new_group(stream, request, session->peer.uid);
	if (!group) {
		free(ask);
		return session_send_error(session, -ENOMEM, "stream '%s': out of memory", stream->known->config->name);
	}
	*ask = (struct rx_group_ask){{.abandon = abandon_ask}, .group = group, .session = session, .request = *request};
	session->wait = &ask->wait;
	TAILQ_INSERT_TAIL(&group->asks, ask, link);
	protocol_init(&joined.header, PROTOCOL_JOINED, sizeof(joined));
	r = session_send(session, &joined.header, NULL, 0);
	if (r < 0)
		return r; /* the end of the session ends the ask */
	rx_group_balance(group);
	return 0;
}

/* ---- of a stream ------------------------------------------------------------------------------------- */

static void disconnect_late(struct rx_group *group)
{
	struct session *session = group->recalled->client.session;
	const struct log_about about = {.stream = group->stream->known->config->name,
	                                .peer = "CONSUMER",
	                                .pid = session->peer.pid,
	                                .uid = session->peer.uid};

	if (loop_should_log(++group->n_late))
		log_message(
			LOG_WARNING, &about,
			"stream '%s': group '%s': process %d of user %s did not give up a queue that another member "
			"is to get, for %u s: disconnected from it (%llu so far)",
			about.stream, group->name, (int)about.pid, id_of_user(about.uid).text,
			(unsigned)(RX_GROUP_RECALL_US / 1000000), (unsigned long long)group->n_late);
	session->reason = IBVCAP_DISCONNECT_RECALLED;
	session_free(session);
}

void rx_groups_tick(struct rx_stream *stream, uint64_t now_us)
{
	struct rx_group *group;

	LIST_FOREACH (group, &stream->groups, link)
		if (group->recalled && group->recalled->client.session && now_us >= group->recall_until_us)
			disconnect_late(group);
}

const char *rx_group_name(const struct rx_group *group)
{
	return group->name;
}

void rx_groups_end(struct rx_stream *stream)
{
	struct rx_group *group, *next;

	for (group = LIST_FIRST(&stream->groups); group; group = next) {
		next = LIST_NEXT(group, link);
		while (!TAILQ_EMPTY(&group->asks)) {
			struct rx_group_ask *ask = TAILQ_FIRST(&group->asks);
			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): TAILQ_REMOVE() has unlinked the last one */
			struct session *session = ask->session;
			/* One that is not removed has a next epoch, in which the member asks again. */
			bool comes_back = stream->queues[0]->endpoint.ending == IBVCAP_DISCONNECT_SHUTDOWN;

			drop_ask(ask);
			if (session_send_error(session, comes_back ? -EAGAIN : -ENODEV, "stream '%s': it has ended",
			                       group->stream->known->config->name) < 0)
				session_free(session);
		}
		rx_group_balance(group);
	}
}

void rx_groups_free(struct rx_stream *stream)
{
	struct rx_group *group;

	rx_groups_end(stream);
	while ((group = LIST_FIRST(&stream->groups))) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): LIST_REMOVE() has unlinked the last one */
		for (uint32_t i = 0; i < group->n_queues; i++)
			if (group->queues[i].owner)
				group->queues[i].owner->group = NULL;
		free_group(group);
	}
}
