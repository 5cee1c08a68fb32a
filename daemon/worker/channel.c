// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker/channel.h"

#include "daemon/base/round.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_PAGE 4096u
/* Some µs of the wire, so that nobody waits for long; and a few packets at least, so that a doorbell is for several. */
#define QUANTUM_BYTES 32768u
/* What is with the device when a channel ends gets so long; then the queue is reset. */
#define DRAIN_NS UINT64_C(1000000000)
/* A queue that fails again and again without a single packet sent in between is given up. */
#define RESTARTS_MAX 16
/* Who waits for a time in UTC looks again so often: the clock may have been set. */
#define CLOCK_STEP_NS UINT64_C(100000000)
#define NAP_NS        UINT64_C(1000000)
/* Packets of one that leaves, in a round: its arena may be large, and others wait. */
#define FLUSH_MAX 4096

/* ---- life: control's ------------------------------------------------------------------------------ */

/* Rows of a flight each, registered. */
static int make_rows(struct channel *channel, struct shm *rows, struct backend_memory **memory, const char *what,
                     uint32_t row_bytes, struct failure *failure)
{
	size_t bytes = (size_t)(channel->flights_mask + 1) * row_bytes;
	int r = shm_create(rows, "ibvcap-send", bytes, SMALL_PAGE);

	if (r < 0)
		return failure_set(failure, EX_OSERR, -r,
		                   "channel '%s': cannot get %zu bytes for the %s of %u packets (send_queue_slots): %s",
		                   channel->name, bytes, what, channel->queue_slots, strerror(-r));
	return channel->backend->ops->register_memory(channel->backend, rows->address, rows->bytes, memory, failure);
}

static int make_queue(struct channel *channel, const struct channel_options *options, struct failure *failure)
{
	const struct backend_send_options send = {
		.headers = channel->headers_memory,
		.slots = options->queue_slots,
		.checksums = options->checksums == PACKET_CHECKSUMS_DEVICE,
		.completion_events = options->completion_events,
		.rate_bps = options->device_pacing ? options->rate_bps : 0,
		.burst_bytes = options->burst_bytes,
	};
	const struct backend_ops *ops = channel->backend->ops;
	int r = ops->create_send_queue(channel->backend, &send, &channel->queue, failure);

	if (r < 0)
		return r;
	r = ops->start(channel->queue);
	return r < 0 ? failure_set(failure, EX_UNAVAILABLE, -r, "channel '%s': its send queue does not start: %s",
	                           channel->name, strerror(-r))
	             : 0;
}

static int make_tables(struct channel *channel, struct failure *failure)
{
	channel->flights = calloc(channel->flights_mask + 1, sizeof(*channel->flights));
	channel->destinations = calloc(channel->n_destinations, sizeof(*channel->destinations));
	if (!channel->flights || !channel->destinations)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", channel->name);
	for (uint32_t i = 0; i < channel->n_destinations; i++)
		channel->destinations[i].error = -EHOSTUNREACH;
	return 0;
}

static void init(struct channel *channel, const struct channel_options *options)
{
	uint32_t frame_max = pacing_frame_bytes(PACKET_HEADERS_MAX + options->slot_bytes);

	*channel = (struct channel){
		.backend = options->backend,
		.headers = SHM_INIT,
		.copies = SHM_INIT,
		.queue_slots = options->queue_slots,
		.flights_mask = round_up_to_power_of_two(options->queue_slots) - 1,
		.slot_bytes = options->slot_bytes,
		.n_destinations = options->n_destinations,
		.late_after_ns = options->late_after_ns,
		.checksums = options->checksums,
		.quantum_bytes = frame_max > QUANTUM_BYTES ? frame_max : QUANTUM_BYTES,
		.due_ns = CHANNEL_NEVER,
		.due_utc_ns = CHANNEL_NEVER,
	};
	snprintf(channel->name, sizeof(channel->name), "%s", options->name);
	pacing_init(&channel->pacing, options->device_pacing ? 0 : options->rate_bps, options->burst_bytes);
}

int channel_new(struct channel **channel, const struct channel_options *options, struct failure *failure)
{
	struct channel *new = malloc(sizeof(*new));
	int r;

	if (!new)
		return failure_set(failure, EX_OSERR, ENOMEM, "channel '%s': out of memory", options->name);
	init(new, options);
	r = make_tables(new, failure);
	if (r == 0)
		r = make_rows(new, &new->headers, &new->headers_memory, "headers", CHANNEL_HEADER_BYTES, failure);
	if (r == 0 && options->checksums == PACKET_CHECKSUMS_SOFTWARE)
		r = make_rows(new, &new->copies, &new->copies_memory, "payload copies (udp_checksum = \"software\")",
		              options->slot_bytes, failure);
	if (r == 0)
		r = make_queue(new, options, failure);
	if (r < 0) {
		channel_free(new);
		return r;
	}
	*channel = new;
	return 0;
}

void channel_close(struct channel *channel)
{
	if (channel->queue)
		channel->backend->ops->destroy_queue(channel->queue);
	channel->queue = NULL;
}

void channel_free(struct channel *channel)
{
	const struct backend_ops *ops;

	if (!channel)
		return;
	ops = channel->backend->ops;
	channel_close(channel);
	if (channel->copies_memory)
		ops->unregister_memory(channel->copies_memory);
	if (channel->headers_memory)
		ops->unregister_memory(channel->headers_memory);
	shm_deinit(&channel->copies);
	shm_deinit(&channel->headers);
	free(channel->destinations);
	free(channel->flights);
	free(channel);
}

/* ---- senders come and go: the worker's ------------------------------------------------------------ */

int channel_add_sender(struct channel *channel, struct sender *sender)
{
	if (channel->n_senders == CHANNEL_SENDERS_MAX || channel->leaving)
		return -EAGAIN;
	channel->senders[channel->n_senders++] = sender;
	return 0;
}

bool channel_has_sender(const struct channel *channel, const struct sender *sender)
{
	for (uint32_t i = 0; i < channel->n_senders; i++) {
		if (channel->senders[i] == sender)
			return true;
	}
	return false;
}

/* The device fills in all of a queue's checksums, or none; and without memory for copies there is nothing to sum. */
void channel_set_destination(struct channel *channel, uint32_t index, const struct channel_destination *destination)
{
	enum packet_checksums checksums = destination->headers.checksums;

	if (index >= channel->n_destinations)
		return;
	channel->destinations[index] = *destination;
	if (destination->error == 0 && checksums != channel->checksums &&
	    (channel->checksums != PACKET_CHECKSUMS_SOFTWARE || checksums == PACKET_CHECKSUMS_DEVICE))
		channel->destinations[index].error = -EINVAL;
}

/* What it submitted last is counted, and flushed with the rest; unless it lied. */
void channel_dismiss_sender(struct channel *channel, struct sender *sender)
{
	if (sender->leaving)
		return;
	if (!sender->bad)
		sender_look(sender);
	sender->leaving = true;
	channel->n_leaving++;
}

void channel_dismiss(struct channel *channel, uint64_t now_ns)
{
	if (channel->leaving)
		return;
	channel->leaving = true;
	channel->leaving_at_ns = now_ns;
	for (uint32_t i = 0; i < channel->n_senders; i++)
		channel_dismiss_sender(channel, channel->senders[i]);
}

static void forget(struct channel *channel, uint32_t i)
{
	channel->senders[i] = channel->senders[--channel->n_senders];
	channel->n_leaving--;
	if (channel->turn >= channel->n_senders)
		channel->turn = 0;
}

struct sender *channel_take_gone(struct channel *channel)
{
	for (uint32_t i = 0; i < channel->n_senders && channel->n_leaving; i++) {
		struct sender *sender = channel->senders[i];

		if (!sender->leaving || sender->completed != sender->taken)
			continue;
		bool is_gone = sender_flush(sender, FLUSH_MAX);

		sender_publish(sender, channel->counters);
		channel->to_wake |= sender_is_due(sender);
		if (!is_gone)
			continue;
		forget(channel, i);
		return sender;
	}
	return NULL;
}

/* ---- a queue that failed -------------------------------------------------------------------------- */

/* What was with the device may have been sent or not. What was ready, but never posted, is posted next. */
static int restart(struct channel *channel)
{
	const struct backend_ops *ops = channel->queue->ops;
	int r = ops->reset(channel->queue);

	if (r < 0)
		return r;
	counter_add(&channel->counters[IBVCAP_TX_CTR_QUEUE_RESETS], 1);
	channel_end_posted(channel, channel->n_posted, -ECANCELED);
	channel_publish(channel);
	return ops->start(channel->queue);
}

/* All that is taken ends, and all senders are dismissed: channel_take_gone() has them. */
static void fail(struct channel *channel, int error, uint64_t now_ns)
{
	channel->fatal = error;
	channel->n_posted += channel->n_ready;
	channel->n_ready = 0;
	channel_end_posted(channel, channel->n_posted, -ECANCELED);
	channel_publish(channel);
	channel_dismiss(channel, now_ns);
}

/* A device that keeps what it has for too long is made to let go of it. */
static bool is_drain_over(const struct channel *channel, const struct transmit_now *now)
{
	return channel->leaving && channel->n_posted && now->monotonic_ns - channel->leaving_at_ns >= DRAIN_NS;
}

int channel_serve(struct channel *channel, const struct transmit_now *now)
{
	int n = channel->fatal ? 0 : channel_round(channel, now);

	if (n >= 0 && is_drain_over(channel, now))
		n = -ETIMEDOUT;
	if (n >= 0)
		return n;
	if (channel->restarts++ < RESTARTS_MAX)
		n = restart(channel);
	if (n < 0)
		fail(channel, n, now->monotonic_ns);
	return 1;
}

/* ---- idling --------------------------------------------------------------------------------------- */

static void want_kick(struct sender *sender, bool wanted)
{
	if (sender->need_kick == wanted)
		return;
	sender->need_kick = wanted;
	daemon_store_need_kick(sender->state, wanted);
}

/* A sender of which something waits for its time, the rate or room is looked at anyway. */
void channel_arm(struct channel *channel)
{
	for (uint32_t i = 0; i < channel->n_senders && channel->due_ns == CHANNEL_NEVER; i++)
		want_kick(channel->senders[i], channel->senders[i]->taken == channel->senders[i]->submitted);
	/* What fails here fails again at the next reap, which mends it. */
	if (channel->n_posted && !channel->fatal)
		channel->queue->ops->arm(channel->queue);
}

void channel_disarm(struct channel *channel)
{
	for (uint32_t i = 0; i < channel->n_senders; i++)
		want_kick(channel->senders[i], false);
}

bool channel_kicked(struct channel *channel, int socket)
{
	for (uint32_t i = 0; i < channel->n_senders; i++) {
		if (channel->senders[i]->socket != socket)
			continue;
		sender_kicked(channel->senders[i]);
		return true;
	}
	return false;
}

static uint64_t until(uint64_t due_ns, uint64_t now_ns)
{
	return due_ns == CHANNEL_NEVER ? CHANNEL_NEVER : due_ns > now_ns ? due_ns - now_ns : 0;
}

uint64_t channel_idle_ns(const struct channel *channel, const struct transmit_now *now)
{
	uint64_t rate = until(channel->due_ns, now->monotonic_ns);
	uint64_t time = until(channel->due_utc_ns, now->utc_ns);
	uint64_t idle = rate < time ? rate : time;

	if (time != CHANNEL_NEVER && idle > CLOCK_STEP_NS)
		idle = CLOCK_STEP_NS;
	/* Nobody tells when a drain ends, or when the device takes again what it did not. */
	if ((channel->leaving || channel->n_leaving || channel->n_ready) && idle > NAP_NS)
		idle = NAP_NS;
	return idle;
}
