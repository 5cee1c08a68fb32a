// SPDX-License-Identifier: Apache-2.0
/*
 * The cursors of one sender: how many packets it submitted, which the worker took, and how they ended. The page is
 * written by a client that may be hostile: every value is read once and checked before it is used. And the descriptors
 * by which a sender wakes the worker.
 */
#include "daemon/ring/sender.h"

#include "lib/base/fd.h"
#include "lib/base/min.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- reading the client's page --------------------------------------------------------------------- */

/*
 * submitted is checked against completed as it was published, because the client cannot have seen a later value. A
 * client that keeps to the cursor that it sees always passes, since completed only grows.
 */
bool sender_read_submitted(struct sender *sender)
{
	uint64_t submitted = daemon_load_submitted(sender->page);

	if (submitted - sender->submitted > sender->published + sender->n_slots - sender->submitted) {
		sender->bad = IBVCAP_DISCONNECT_BAD_CURSOR;
		return false;
	}
	if (submitted != sender->submitted) {
		sender->tally[IBVCAP_TX_COUNTER_SUBMITTED] += submitted - sender->submitted;
		sender->kick_credit =
			(uint32_t)u64_min(sender->kick_credit + (submitted - sender->submitted), SENDER_KICK_CREDIT);
		sender->submitted = submitted;
		sender->dirty = true;
	}
	return true;
}

void sender_count_kick(struct sender *sender)
{
	if (!sender->is_watched) {
		sender->is_watched = true;
		return;
	}
	if (sender->kick_credit == 0)
		sender->bad = IBVCAP_DISCONNECT_IDLE_KICKS;
	else
		sender->kick_credit--;
	if (daemon_load_submitted(sender->page) != sender->submitted)
		return;
	sender->tally[IBVCAP_TX_COUNTER_IDLE_KICKS]++;
	sender->dirty = true;
}

const struct ibvcap_tx_descriptor *sender_peek(struct sender *sender)
{
	if (sender->taken == sender->submitted)
		return NULL;
	if (!sender->has_next) {
		sender->next = daemon_read_descriptor(&sender->descriptors[sender->taken & (sender->n_slots - 1)]);
		sender->has_next = true;
	}
	return &sender->next;
}

const uint8_t *sender_take(struct sender *sender)
{
	uint64_t row = sender->taken++ & (sender->n_slots - 1);

	sender->has_next = false;
	return (const uint8_t *)sender->arena.address + row * sender->slot_bytes;
}

/* ---- how packets end -------------------------------------------------------------------------------- */

static enum ibvcap_tx_counter sender_counter_of_status(int32_t status)
{
	switch (status) {
	case 0:
		return IBVCAP_TX_COUNTER_COMPLETED;
	case -ECANCELED:
		return IBVCAP_TX_COUNTER_FLUSHED;
	case -ETIME:
		return IBVCAP_TX_COUNTER_LATE_DROPPED;
	}
	return IBVCAP_TX_COUNTER_ERRORED;
}

void sender_complete(struct sender *sender, int32_t status, uint32_t payload_bytes, uint32_t frame_bytes)
{
	sender->statuses[sender->completed++ & (sender->n_slots - 1)] = status;
	sender->tally[sender_counter_of_status(status)]++;
	if (status == -ETIME)
		sender->tally[IBVCAP_TX_COUNTER_LATE]++;
	if (status == 0) {
		sender->tally[IBVCAP_TX_COUNTER_COMPLETED_BYTES] += payload_bytes;
		sender->tally[IBVCAP_TX_COUNTER_WIRE_BYTES] += frame_bytes;
	}
	sender->dirty = true;
}

bool sender_flush(struct sender *sender, uint32_t max)
{
	sender->has_next = false;
	for (; sender->completed != sender->submitted && max > 0; max--)
		sender_complete(sender, -ECANCELED, 0, 0);
	sender->taken = sender->completed;
	return sender->completed == sender->submitted;
}

bool tx_counter_is_of_channel(enum ibvcap_tx_counter counter)
{
	return counter == IBVCAP_TX_COUNTER_BATCHES || counter == IBVCAP_TX_COUNTER_QUEUE_RESETS ||
	       counter == IBVCAP_TX_COUNTER_WAKES || counter == IBVCAP_TX_COUNTER_BAD_SENDERS;
}

static bool tx_counter_is_maximum(unsigned counter)
{
	return counter == IBVCAP_TX_COUNTER_TIMED_LATENESS_MAX_NS || counter == IBVCAP_TX_COUNTER_PACED_LATENESS_MAX_NS;
}

static void tx_counter_raise(_Atomic uint64_t *counter, unsigned which, uint64_t value)
{
	if (!tx_counter_is_maximum(which))
		counter_add(counter, value);
	else if (value > counter_get(counter))
		counter_set(counter, value);
}

void sender_publish(struct sender *sender, _Atomic uint64_t channel_counters[IBVCAP_TX_COUNTER_N])
{
	if (!sender->dirty)
		return;
	for (unsigned i = 0; i < IBVCAP_TX_COUNTER_N; i++) {
		if (!sender->tally[i])
			continue;
		tx_counter_raise(&sender->state->counters[i], i, sender->tally[i]);
		tx_counter_raise(&channel_counters[i], i, sender->tally[i]);
		sender->tally[i] = 0;
	}
	sender->dirty = false;
	sender->published = sender->completed;
	daemon_publish_completed(sender->state, sender->completed);
}

/* ---- wake-up -------------------------------------------------------------------------------------- */

bool sender_wants_wake(struct sender *sender)
{
	uint64_t wake_at;

	daemon_fence_completed(sender->state, sender->published);
	wake_at = daemon_load_wake_request(&sender->page->wake);
	/* Each request is served once: a sleeper withdraws it late, and later requests are for higher cursors. */
	if (wake_at > sender->published || wake_at <= sender->woken_at)
		return false;
	sender->woken_at = wake_at;
	return true;
}

uint64_t sender_due_request(const struct ibvcap_sender_state *state, const struct ibvcap_wake_request *wake)
{
	uint64_t wake_at = daemon_load_wake_request(wake);
	bool ended = client_load_connection(&state->link) != IBVCAP_CONNECTION_OPEN;

	return ended || wake_at <= sender_load_completed(state) ? wake_at : 0;
}

/* ---- kicks -------------------------------------------------------------------------------------- */

/*
 * A read takes 1 from the counter, so no client can read it down to 0. The small epoll is always readable, and the
 * worker's epoll reports each kick. Else a client that kicks and reads in turn could wake the worker uncounted.
 */
#define COUNTER_START (UINT64_C(1) << 63)

static int sender_kick_make(struct sender_kick *kick, int workers_epoll)
{
	struct epoll_event kicked = {.events = EPOLLIN | EPOLLET};
	struct epoll_event disabled;

	kick->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
	if (kick->eventfd < 0 || eventfd_write(kick->eventfd, COUNTER_START) < 0)
		return -errno;
	kick->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (kick->epoll < 0 || epoll_ctl(kick->epoll, EPOLL_CTL_ADD, kick->eventfd, &kicked) < 0)
		return -errno;
	disabled = (struct epoll_event){.data.fd = kick->epoll};
	return epoll_ctl(workers_epoll, EPOLL_CTL_ADD, kick->epoll, &disabled) < 0 ? -errno : 0;
}

int sender_kick_init(struct sender_kick *kick, int workers_epoll)
{
	int r;

	*kick = (struct sender_kick)SENDER_KICK_INIT;
	r = sender_kick_make(kick, workers_epoll);
	if (r < 0)
		sender_kick_deinit(kick);
	return r;
}

void sender_kick_deinit(struct sender_kick *kick)
{
	fd_close(&kick->epoll);
	fd_close(&kick->eventfd);
}
