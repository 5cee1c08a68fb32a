// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ibvcap/history.h"

#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EPOCH_ID(epoch) (UINT64_C(1000) + (epoch))

uint64_t history_now_ns;

static const char *control_path;
static int control_listener;

/* ---- the clock ------------------------------------------------------------------------------------- */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (!history_now_ns)
		return (int)syscall(SYS_clock_gettime, clock, now);
	now->tv_sec = (time_t)(history_now_ns / 1000000000);
	now->tv_nsec = (long)(history_now_ns % 1000000000);
	return 0;
}

/* ---- what is lost ---------------------------------------------------------------------------------- */

static void note_loss(struct history *history, enum history_place place, uint32_t queue, uint32_t epoch,
                      uint64_t sequence)
{
	cr_assert_lt(history->n_losses, HISTORY_LOSSES_MAX);
	history->losses[history->n_losses++] = (struct history_loss){place, queue, epoch, sequence, history_now_ns};
}

/* ---- the daemon ------------------------------------------------------------------------------------ */

static void begin_queue(struct history *history, uint32_t i)
{
	struct history_queue *queue = &history->queues[i];
	const struct rx_ring_options ring_options = {
		.stream = "test",
		.epoch = EPOCH_ID(history->epoch),
		.slot_bytes = 64,
		.slots_per_block = N,
		.history_blocks = 6,
		.posted_slots = DEVICE_SLOTS,
		.spare_blocks = QUOTA,
		.lease_blocks_max = QUOTA,
		.page_bytes = 4096,
		.queue_index = i,
		.n_queues = history->n_queues,
		.flags = IBVCAP_RING_FLAG_FRAMES,
	};
	const struct rx_worker_options options = {.worker.name = "history",
	                                          .queue = &queue->device->queue,
	                                          .ring = &queue->ring,
	                                          .worker.cpu = -1,
	                                          .losses = &history->ledger.sum.queues[i]};
	struct failure failure;

	*queue->device = (struct device){
		.queue.ops = &device_ops, .has_kernel_ring = history->has_kernel_ring, .now_ns = &history_now_ns};
	cr_assert_eq(rx_ring_init(&queue->ring, &ring_options, &failure), 0, "%s", failure.text);
	cr_assert_eq(rx_ring_seal(&queue->ring, &failure), 0);
	rx_losses_add_queue(&history->ledger, i, queue->ring.ring, NULL);
	cr_assert_eq(rx_worker_new(&queue->worker, &options), 0);
	cr_assert_eq(rx_worker_prime(queue->worker), 0);
}

static void attach(struct history *history, struct history_queue *queue, int socket, int fds[PROTOCOL_FD_N])
{
	queue->daemon_wake = attached_add_consumer(&queue->ring, &queue->consumer, EPOCH_ID(history->epoch), fds);
	queue->daemon_socket = socket;
	queue->has_consumer = true;
}

static void answer(struct history *history, int socket)
{
	struct protocol_attached message = {.epoch = EPOCH_ID(history->epoch)};
	union protocol_message request;
	int fds[PROTOCOL_FD_N];
	struct history_queue *queue;

	if (history->is_away || protocol_recv(socket, &request, NULL, NULL) != 1) {
		close(socket);
		return;
	}
	queue = &history->queues[request.attach.queue];
	if (consumer_ring_closed(queue->ring.ring)) { /* it has failed */
		close(socket);
		return;
	}
	cr_assert(!queue->has_consumer);
	queue->consumer.start.where = (enum ibvcap_start)request.attach.start;
	attach(history, queue, socket, fds);
	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	cr_assert_eq(protocol_send(socket, &message.header, fds, PROTOCOL_FD_N), 0);
	for (unsigned i = 0; i < PROTOCOL_FD_N; i++)
		close(fds[i]);
}

static void serve(struct history *history)
{
	int socket;

	while ((socket = accept4(control_listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		answer(history, socket);
}

void history_read_interface(struct history *history)
{
	history->interface_at_ns = history_now_ns;
	history->interface_read = history->interface_lost;
	history->programs_read = history->programs;
}

static void note_interface(struct history *history)
{
	rx_losses_note_interface(&history->ledger, history->interface_read, history->interface_at_ns,
	                         history->interface_at_ns, history->programs_read);
}

void history_begin(struct history *history)
{
	history->epoch++;
	history->is_away = false;
	history->is_reading_due = false;
	history->ledger = (struct rx_losses){0};
	history_read_interface(history);
	losses_init(&history->ledger.sum, history->n_queues, DEVICE_SLOTS, history->has_kernel_ring, false,
	            LOSSES_DRAIN_NS_MIN);
	for (uint32_t i = 0; i < history->n_queues; i++) {
		begin_queue(history, i);
		if (history->is_outage_told)
			daemon_store_outage(history->queues[i].ring.ring, true, history_now_ns);
	}
	note_interface(history);
	serve(history);
}

static void end_queue(struct history_queue *queue)
{
	if (queue->has_consumer) {
		close(queue->daemon_socket);
		close(queue->daemon_wake);
		shm_deinit(&queue->consumer.state_shm);
		shm_deinit(&queue->consumer.page_shm);
		queue->has_consumer = false;
	}
	rx_worker_free(queue->worker);
	rx_ring_deinit(&queue->ring);
}

/* What the device has and the worker has not published is lost with the daemon. */
void history_kill(struct history *history)
{
	for (uint32_t i = 0; i < history->n_queues; i++) {
		struct history_queue *queue = &history->queues[i];

		for (uint64_t s = queue->ring.head; s < queue->device->accepted; s++)
			note_loss(history, PLACE_DEVICE, i, history->epoch, s);
		end_queue(queue);
	}
	history->is_away = true;
}

/* The flows are removed, the counters are read a last time, and the workers drain. */
void history_stop(struct history *history)
{
	const struct mail stop = {.type = MAIL_STOP};

	history_read_counters(history);
	history_mail_reading(history);
	for (uint32_t i = 0; i < history->n_queues; i++)
		mailbox_send(history->queues[i].worker->inbox, &stop);
	for (uint32_t round = 0; round < 50; round++) {
		history_now_ns += 100000;
		for (uint32_t i = 0; i < history->n_queues; i++)
			history_work(history, i, 20);
	}
	history_kill(history);
}

/* As control does: rings close behind the last entry, when all workers have ended. */
static void history_control(struct history *history)
{
	bool runs = false;

	rx_losses_update(&history->ledger);
	for (uint32_t i = 0; i < history->n_queues; i++)
		runs |= !history->queues[i].worker->stopped && !consumer_ring_closed(history->queues[i].ring.ring);
	for (uint32_t i = 0; i < history->n_queues && !runs; i++)
		if (!consumer_ring_closed(history->queues[i].ring.ring))
			rx_ring_close(&history->queues[i].ring, IBVCAP_RING_END_STOPPED);
}

void history_work(struct history *history, uint32_t i, uint32_t rounds)
{
	struct history_queue *queue = &history->queues[i];

	while (!history->is_away && rounds-- > 0 && !queue->worker->stopped)
		if (!consumer_ring_closed(queue->ring.ring) && rx_worker_do_work(queue->worker) < 0)
			rx_ring_close(&queue->ring, IBVCAP_RING_END_FAILED);
	/* Control looks now and then. */
	if (!history->is_away && random() % 2)
		history_control(history);
}

/* ---- what happens to it ---------------------------------------------------------------------------- */

static void arrive_at(struct history *history, uint32_t i, uint32_t late_ns)
{
	struct device *device = history->queues[i].device;
	uint64_t number = history->next_number++;

	device->late_ns = late_ns;
	if (history->is_away)
		note_loss(history, PLACE_WIRE, i, history->epoch, UINT64_MAX);
	else if (history->is_outage)
		note_loss(history, PLACE_WIRE, i, history->epoch, device->accepted);
	else if (!device_arrive(device, number))
		note_loss(history, PLACE_DEVICE, i, history->epoch, device->accepted);
}

void history_arrive(struct history *history, uint32_t n, uint32_t late_ns)
{
	while (n-- > 0)
		arrive_at(history, (uint32_t)random() % history->n_queues, late_ns);
}

void history_hold(struct history *history, uint32_t n, uint32_t n_dropped)
{
	while (n + n_dropped > 0 && history->n_waiting < HISTORY_WAITING_MAX && !history->is_outage) {
		struct history_waiting *waiting = &history->waiting[history->n_waiting++];
		bool is_dropped = (uint32_t)random() % (n + n_dropped) < n_dropped;

		*waiting = (struct history_waiting){(uint32_t)random() % history->n_queues, is_dropped,
		                                    history->programs % 2 == 0, history_now_ns};
		history->interface_lost += is_dropped && waiting->is_counted;
		*(is_dropped ? &n_dropped : &n) -= 1;
	}
}

/* In the order of the wire: a packet that was dropped was sent behind those that waited before it. */
void history_let_in(struct history *history)
{
	for (uint32_t i = 0; i < history->n_waiting; i++) {
		const struct history_waiting *waiting = &history->waiting[i];
		struct device *device = history->queues[waiting->queue].device;

		if (!waiting->is_dropped)
			arrive_at(history, waiting->queue, 0);
		else
			note_loss(history,
			          history->is_away      ? PLACE_WIRE
			          : waiting->is_counted ? PLACE_INTERFACE
			                                : PLACE_PROGRAM,
			          waiting->queue, history->epoch, history->is_away ? UINT64_MAX : device->accepted);
	}
	history->n_waiting = 0;
}

/* As control does: it has heard of an outage before it hears of a reading that began later. */
void history_read_counters(struct history *history)
{
	uint64_t matched = 0, of_queue;

	if (history->is_away)
		return;
	history_tell_outage(history);
	for (uint32_t i = 0; i < history->n_queues; i++) {
		device_ops.read_matched(&history->queues[i].device->queue, &of_queue);
		matched += of_queue;
	}
	history->is_reading_due = true;
	history->reading =
		(struct losses_reading){.matched = matched, .at_ns = history_now_ns, .utc_ns = history_now_ns};
}

void history_mail_reading(struct history *history)
{
	const struct mail mail = {.type = MAIL_MATCHED,
	                          .at_ns = history->reading.utc_ns,
	                          .matched = history->reading.matched,
	                          .read_ns = history->reading.at_ns};

	if (history->is_away || !history->is_reading_due)
		return;
	history->is_reading_due = false;
	note_interface(history);
	if (rx_losses_read(&history->ledger, &history->reading))
		return;
	for (uint32_t i = 0; i < history->n_queues; i++)
		mailbox_send(history->queues[i].worker->inbox, &mail);
}

void history_fail_queue(struct history *history, uint32_t i, bool for_ever)
{
	if (history->is_away || history->has_kernel_ring || consumer_ring_closed(history->queues[i].ring.ring))
		return;
	history->queues[i].device->cannot_reset = for_ever;
	device_fail(history->queues[i].device);
}

void history_set_outage(struct history *history, bool is_down)
{
	history_tell_outage(history);
	history->is_outage = is_down;
}

void history_tell_outage(struct history *history)
{
	if (history->is_outage == history->is_outage_told)
		return;
	history->is_outage_told = history->is_outage;
	for (uint32_t i = 0; i < history->n_queues && !history->is_away; i++)
		daemon_store_outage(history->queues[i].ring.ring, history->is_outage, history_now_ns);
}

/* ---- readers --------------------------------------------------------------------------------------- */

void history_release(struct history *history, uint32_t i)
{
	struct history_queue *queue = &history->queues[i];

	if (queue->has_batch)
		ibvcap_rx_release(queue->rx, &queue->batch);
	queue->has_batch = false;
}

void history_acquire(struct history *history, uint32_t i, uint32_t max)
{
	struct history_queue *queue = &history->queues[i];
	int n;

	history_release(history, i);
	n = ibvcap_rx_acquire(queue->rx, &queue->batch, max, 1, 0);
	serve(history);
	if (n <= 0)
		return;
	queue->has_batch = true;
	for (uint64_t s = queue->batch.sequence - queue->batch.gap; s < queue->batch.sequence; s++)
		note_loss(history, PLACE_READER, i, (uint32_t)(queue->batch.epoch - EPOCH_ID(0)), s);
}

/* in_batch: the boundary lies so many rows before the end of the batch that the reader holds. */
void history_take_moment(struct history *history, uint32_t in_batch)
{
	struct history_moment *moment = &history->moments[history->n_moments];

	if (history->n_moments == HISTORY_MOMENTS_MAX)
		return;
	history->n_moments++;
	moment->at_ns = history_now_ns;
	for (uint32_t i = 0; i < history->n_queues; i++) {
		struct history_queue *queue = &history->queues[i];
		uint32_t back = queue->has_batch && in_batch < queue->batch.n ? in_batch : 0;

		moment->moments[i] = (struct ibvcap_rx_moment)IBVCAP_INIT(struct ibvcap_rx_moment);
		cr_assert_eq(ibvcap_rx_take_moment(queue->rx, &moment->moments[i]), 0);
		moment->epoch[i] =
			(uint32_t)(queue->rx->parts[0]->info.epoch - EPOCH_ID(0)); /* also if that has ended */
		moment->sequence[i] = moment->moments[i].epoch ? moment->moments[i].sequence - back : UINT64_MAX;
	}
}

void history_settle_moments(struct history *history)
{
	for (uint32_t m = 0; m < history->n_moments; m++)
		for (uint32_t i = 0; i < history->n_queues; i++)
			ibvcap_rx_settle_moment(history->queues[i].rx, &history->moments[m].moments[i]);
}

/* ---- life ------------------------------------------------------------------------------------------ */

void history_init(struct history *history, uint32_t n_queues, bool has_kernel_ring, const char *path, int listener)
{
	struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = 1000000000};

	control_path = path;
	control_listener = listener;
	*history = (struct history){
		.n_queues = n_queues, .has_kernel_ring = has_kernel_ring, .epoch = UINT32_MAX, .is_away = true};
	history->losses = malloc(HISTORY_LOSSES_MAX * sizeof(*history->losses));
	for (uint32_t i = 0; i < n_queues; i++) {
		history->queues[i].device = malloc(sizeof(*history->queues[i].device));
		history->queues[i].batch = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
	}
	history_begin(history);
	for (uint32_t i = 0; i < n_queues; i++) {
		struct history_queue *queue = &history->queues[i];
		int fds[PROTOCOL_FD_N], ends[2];

		cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		attach(history, queue, ends[0], fds);
		options.queue = i;
		cr_assert_eq(attached_open(&queue->rx, ends[1], fds, EPOCH_ID(0), path, &options), 0, "%s",
		             ibvcap_error_text());
	}
}

void history_deinit(struct history *history)
{
	if (!history->is_away)
		history_kill(history);
	for (uint32_t i = 0; i < history->n_queues; i++) {
		ibvcap_rx_close(history->queues[i].rx);
		free(history->queues[i].device);
	}
	free(history->losses);
}
