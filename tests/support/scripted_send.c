// SPDX-License-Identifier: Apache-2.0
/* The sending half of the scripted backend. */
#include "tests/support/scripted_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct scripted_send_queue {
	struct scripted_any any;
	struct backend_send_options options;
	struct backend_packet *packets; /* ring of SCRIPTED_SEND_SLOTS_MAX, indexed by the three cursors */
	struct backend_sent *done;      /* as large: a run each, or fewer */
	uint32_t posted, sent, reaped;  /* packets */
	uint32_t runs_made, runs_taken;
	uint32_t post_limit;
	enum backend_status next_status;
	bool at_once;
	struct scripted_send_counts counts;
};

static struct scripted_send_queue *sending(struct backend_queue *queue)
{
	return (struct scripted_send_queue *)queue;
}

static struct backend_packet *packet_at(const struct scripted_send_queue *q, uint32_t cursor)
{
	return &q->packets[cursor % SCRIPTED_SEND_SLOTS_MAX];
}

static void hold(const struct scripted_send_queue *q, const struct backend_packet *packet, uint32_t by)
{
	((struct scripted_memory *)q->options.headers)->n_under_way += by;
	if (packet->payload_bytes)
		((struct scripted_memory *)packet->payload_memory)->n_under_way += by;
}

static void complete(struct scripted_send_queue *q, uint32_t n, enum backend_status status)
{
	struct backend_sent *last = &q->done[(q->runs_made - 1) % SCRIPTED_SEND_SLOTS_MAX];

	q->sent += n;
	if (q->runs_made != q->runs_taken && last->status == status)
		last->n += n;
	else
		q->done[q->runs_made++ % SCRIPTED_SEND_SLOTS_MAX] =
			(struct backend_sent){.n = n, .status = (uint8_t)status};
	scripted_any_completed(&q->any);
}

static bool lies_in(const struct backend_memory *memory, const uint8_t *address, uint32_t bytes)
{
	const struct scripted_memory *m = (const struct scripted_memory *)memory;

	return address >= m->address && bytes <= m->bytes && (size_t)(address - m->address) <= m->bytes - bytes;
}

static bool may_be_read(const struct scripted_send_queue *q, const struct backend_packet *packet)
{
	return lies_in(q->options.headers, packet->headers, packet->header_bytes) &&
	       (!packet->payload_bytes || lies_in(packet->payload_memory, packet->payload, packet->payload_bytes));
}

static uint32_t under_way(const struct scripted_send_queue *q)
{
	return q->posted - q->sent;
}

/* The next packet leaves, or is the error that fails the queue. */
static bool send_one(struct scripted_send_queue *q)
{
	const struct backend_packet *packet = packet_at(q, q->sent);
	enum backend_status status = may_be_read(q, packet) ? q->next_status : BACKEND_SLOT_ERROR;

	q->next_status = BACKEND_OK;
	complete(q, 1, status);
	if (status != BACKEND_OK && status != BACKEND_LATE) {
		scripted_fail_send_queue(&q->any.queue);
		return false;
	}
	q->counts.sent++;
	q->counts.bytes += packet->header_bytes + packet->payload_bytes;
	return true;
}

/* ---- the script ---------------------------------------------------------------------------------- */

uint32_t scripted_send(struct backend_queue *queue, uint32_t n)
{
	struct scripted_send_queue *q = sending(queue);
	uint32_t sent = 0;

	while (sent < n && under_way(q) && send_one(q))
		sent++;
	return sent;
}

uint32_t scripted_take_frame(struct backend_queue *queue, uint8_t *frame)
{
	struct scripted_send_queue *q = sending(queue);
	struct backend_packet packet;

	if (!under_way(q))
		return 0;
	packet = *packet_at(q, q->sent);
	if (!send_one(q))
		return 0;
	memcpy(frame, packet.headers, packet.header_bytes);
	if (packet.payload_bytes)
		memcpy(frame + packet.header_bytes, packet.payload, packet.payload_bytes);
	return packet.header_bytes + packet.payload_bytes;
}

void scripted_send_at_once(struct backend_queue *queue, bool at_once)
{
	sending(queue)->at_once = at_once;
}

void scripted_send_counts(const struct backend_queue *queue, struct scripted_send_counts *counts)
{
	const struct scripted_send_queue *q = (const struct scripted_send_queue *)queue;

	*counts = q->counts;
	counts->posted = q->posted;
	counts->arms = q->any.arms;
	counts->under_way = under_way(q);
	counts->started = q->any.started;
}

void scripted_fail_send_queue(struct backend_queue *queue)
{
	struct scripted_send_queue *q = sending(queue);

	q->any.failed = true;
	if (under_way(q))
		complete(q, under_way(q), BACKEND_FLUSHED);
}

void scripted_limit_send_post(struct backend_queue *queue, uint32_t n)
{
	sending(queue)->post_limit = n;
}

void scripted_next_send_status(struct backend_queue *queue, enum backend_status status)
{
	sending(queue)->next_status = status;
}

/* ---- the backend's calls ------------------------------------------------------------------------- */

static void let_go(struct scripted_send_queue *q)
{
	for (; q->reaped != q->posted; q->reaped++)
		hold(q, packet_at(q, q->reaped), (uint32_t)-1);
	q->sent = q->posted;
	q->runs_taken = q->runs_made;
}

void scripted_reset_send_queue(struct backend_queue *queue)
{
	let_go(sending(queue));
}

void scripted_destroy_send_queue(struct backend_queue *queue)
{
	struct scripted_send_queue *q = sending(queue);

	let_go(q);
	if (q->any.fd >= 0)
		close(q->any.fd);
	free(q->packets);
	free(q->done);
	free(q);
}

int scripted_create_send_queue(struct backend *backend, const struct backend_send_options *options,
                               struct backend_queue **queue, struct failure *failure)
{
	struct scripted_send_queue *q;

	if (options->slots == 0 || options->slots > SCRIPTED_SEND_SLOTS_MAX)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "send queue of %u slots on scripted0: accepted are 1 to %u", options->slots,
		                   SCRIPTED_SEND_SLOTS_MAX);
	q = calloc(1, sizeof(*q));
	if (!q)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	q->any.sends = true;
	q->options = *options;
	q->post_limit = UINT32_MAX;
	q->packets = calloc(SCRIPTED_SEND_SLOTS_MAX, sizeof(*q->packets));
	q->done = calloc(SCRIPTED_SEND_SLOTS_MAX, sizeof(*q->done));
	if (scripted_any_init(&q->any, backend) < 0 || !q->packets || !q->done) {
		scripted_destroy_send_queue(&q->any.queue);
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	}
	*queue = &q->any.queue;
	return 0;
}

int scripted_send_post(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n)
{
	struct scripted_send_queue *q = sending(queue);
	uint32_t n_free = q->options.slots - (q->posted - q->reaped);

	if (!q->any.started)
		return -EINVAL;
	if (n > n_free)
		n = n_free;
	if (n > q->post_limit)
		n = q->post_limit;
	q->post_limit = UINT32_MAX;
	for (uint32_t i = 0; i < n; i++) {
		*packet_at(q, q->posted++) = packets[i];
		hold(q, &packets[i], 1);
	}
	if (q->any.failed)
		scripted_fail_send_queue(queue);
	else if (q->at_once)
		scripted_send(queue, n);
	return (int)n;
}

int scripted_send_post_summed(struct backend_queue *queue, const struct backend_packet *packets, uint32_t n)
{
	int posted = scripted_send_post(queue, packets, n);

	if (posted > 0)
		sending(queue)->counts.summed += (uint32_t)posted;
	return posted;
}

int scripted_send_reap(struct backend_queue *queue, struct backend_sent *sent, uint32_t max)
{
	struct scripted_send_queue *q = sending(queue);
	uint32_t n = 0;

	for (; n < max && q->runs_taken != q->runs_made; n++) {
		sent[n] = q->done[q->runs_taken++ % SCRIPTED_SEND_SLOTS_MAX];
		for (uint32_t i = 0; i < sent[n].n; i++)
			hold(q, packet_at(q, q->reaped++), (uint32_t)-1);
	}
	return n == 0 && q->any.failed ? -EIO : (int)n;
}
