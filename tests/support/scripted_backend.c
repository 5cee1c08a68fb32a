// SPDX-License-Identifier: Apache-2.0
#include "tests/support/scripted_queue.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define QUEUE_SLOTS_MAX 32768u

struct posted_slot {
	uint32_t slot;
	uint8_t *payload;
	uint8_t *headers;
};

struct scripted_queue {
	struct scripted_any any;
	struct backend_queue_options options;
	struct posted_slot *slots; /* ring of QUEUE_SLOTS_MAX, indexed by the two cursors below */
	uint32_t posted;
	uint32_t used;
	struct backend_event *completions;
	uint32_t completed;
	uint32_t polled;
	uint32_t visible_limit;
	uint32_t post_limit;
	uint32_t n_flows;
	bool swap_next;
	enum backend_status next_status;
	uint8_t flags;
	uint32_t tag;
	uint64_t raw;
	uint64_t raw_step;
	struct scripted_counts counts;
};

static struct scripted_queue *scripted(struct backend_queue *queue)
{
	return (struct scripted_queue *)queue;
}

static uint32_t free_slots(const struct scripted_queue *q)
{
	return q->posted - q->used;
}

int scripted_any_init(struct scripted_any *any, struct backend *backend)
{
	any->queue.ops = backend->ops;
	any->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return any->fd < 0 ? -errno : 0;
}

void scripted_any_completed(struct scripted_any *any)
{
	if (any->armed) {
		any->armed = false;
		eventfd_write(any->fd, 1);
	}
}

/* ---- the script ---------------------------------------------------------------------------------- */

static const struct posted_slot *take_slot(struct scripted_queue *q)
{
	return &q->slots[q->used++ % QUEUE_SLOTS_MAX];
}

static void complete(struct scripted_queue *q, uint32_t slot, uint32_t bytes, enum backend_status status)
{
	q->completions[q->completed++ % QUEUE_SLOTS_MAX] = (struct backend_event){.timestamp_raw = q->raw,
	                                                                          .slot = slot,
	                                                                          .bytes = bytes,
	                                                                          .status = (uint8_t)status,
	                                                                          .flags = q->flags,
	                                                                          .tag = q->tag};
	q->raw += q->raw_step;
	scripted_any_completed(&q->any);
}

static void scatter(const struct scripted_queue *q, const struct posted_slot *slot, const uint8_t *frame,
                    uint32_t bytes)
{
	uint32_t in_headers = bytes < q->options.header_bytes ? bytes : q->options.header_bytes;
	uint32_t in_payload = bytes - in_headers;

	memcpy(slot->headers, frame, in_headers);
	if (in_payload > q->options.slot_bytes)
		in_payload = q->options.slot_bytes;
	memcpy(slot->payload, frame + in_headers, in_payload);
}

bool scripted_arrive(struct backend_queue *queue, const void *frame, uint32_t bytes)
{
	struct scripted_queue *q = scripted(queue);
	enum backend_status status = q->next_status;
	bool too_long = bytes > q->options.header_bytes + q->options.slot_bytes;

	if (!q->any.started || !q->n_flows)
		return false;
	q->counts.matched++; /* steering is before the queue, and counts also while that has failed */
	if (q->any.failed)
		return false;
	if (!free_slots(q)) {
		q->counts.out_of_buffer++;
		return false;
	}
	const struct posted_slot *slot = take_slot(q);

	q->next_status = BACKEND_OK;
	if (status == BACKEND_OK && too_long && !q->options.oversize_sink)
		status = BACKEND_LENGTH_ERROR;
	if (status == BACKEND_OK)
		scatter(q, slot, frame, bytes);
	complete(q, slot->slot, status == BACKEND_OK ? bytes : 0, status);
	return true;
}

uint32_t scripted_complete(struct backend_queue *queue, uint32_t n, uint32_t bytes)
{
	struct scripted_queue *q = scripted(queue);

	if (n > free_slots(q))
		n = free_slots(q);
	q->counts.matched += n;
	for (uint32_t i = 0; i < n; i++)
		complete(q, take_slot(q)->slot, bytes, BACKEND_OK);
	return n;
}

void scripted_next_status(struct backend_queue *queue, enum backend_status status)
{
	if (scripted_any(queue)->sends)
		scripted_next_send_status(queue, status);
	else
		scripted(queue)->next_status = status;
}

void scripted_set_flags(struct backend_queue *queue, uint8_t flags)
{
	scripted(queue)->flags = flags;
}

void scripted_set_tag(struct backend_queue *queue, uint32_t tag)
{
	scripted(queue)->tag = tag;
}

void scripted_set_clock(struct backend_queue *queue, uint64_t raw, uint64_t step)
{
	scripted(queue)->raw = raw;
	scripted(queue)->raw_step = step;
}

void scripted_limit_visible(struct backend_queue *queue, uint32_t n)
{
	scripted(queue)->visible_limit = n;
}

void scripted_fail_queue(struct backend_queue *queue)
{
	struct scripted_queue *q = scripted(queue);

	if (q->any.sends) {
		scripted_fail_send_queue(queue);
		return;
	}
	q->any.failed = true;
	while (free_slots(q))
		complete(q, take_slot(q)->slot, 0, BACKEND_FLUSHED);
}

void scripted_limit_post(struct backend_queue *queue, uint32_t n)
{
	if (scripted_any(queue)->sends)
		scripted_limit_send_post(queue, n);
	else
		scripted(queue)->post_limit = n;
}

void scripted_fail_reset(struct backend_queue *queue, int error)
{
	scripted_any(queue)->reset_error = error;
}

void scripted_swap_next(struct backend_queue *queue)
{
	scripted(queue)->swap_next = true;
}

void scripted_counts(const struct backend_queue *queue, struct scripted_counts *counts)
{
	const struct scripted_queue *q = (const struct scripted_queue *)queue;

	*counts = q->counts;
	counts->free_slots = free_slots(q);
	counts->started = q->any.started;
	counts->arms = q->any.arms;
}

/* ---- the backend's calls ------------------------------------------------------------------------- */

static int scripted_open(const struct backend_open_options *options, struct backend **backend, struct failure *failure)
{
	struct backend *b = calloc(1, sizeof(*b));

	(void)options;
	if (!b)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	b->ops = &scripted_backend_ops;
	*backend = b;
	return 0;
}

static void scripted_close(struct backend *backend)
{
	free(backend);
}

static void scripted_capabilities(const struct backend *backend, struct backend_capabilities *capabilities)
{
	(void)backend;
	*capabilities = (struct backend_capabilities){
		.device = "scripted0",
		.max_queue_slots = QUEUE_SLOTS_MAX,
		.oversize_sink = true,
		.timestamps = true,
		.clock_hz = 1000000000,
		.clock_mask = UINT64_MAX,
		.max_send_slots = SCRIPTED_SEND_SLOTS_MAX,
		.send_checksums = true,
		.min_rate_bps = 1000000,
		.max_rate_bps = 100000000000,
	};
}

static int scripted_register_memory(struct backend *backend, void *address, size_t bytes,
                                    struct backend_memory **memory, struct failure *failure)
{
	struct scripted_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	m->memory.backend = backend;
	m->address = address;
	m->bytes = bytes;
	*memory = &m->memory;
	return 0;
}

static void scripted_unregister_memory(struct backend_memory *memory)
{
	const struct scripted_memory *m = (const struct scripted_memory *)memory;

	if (m && m->n_under_way) {
		fprintf(stderr, "scripted backend: memory of %u packets under way was unregistered\n", m->n_under_way);
		abort();
	}
	free(memory);
}

static void scripted_destroy_queue(struct backend_queue *queue)
{
	struct scripted_queue *q = scripted(queue);

	if (!q)
		return;
	if (q->any.sends) {
		scripted_destroy_send_queue(queue);
		return;
	}
	if (q->any.fd >= 0)
		close(q->any.fd);
	free(q->slots);
	free(q->completions);
	free(q);
}

static int scripted_create_queue(struct backend *backend, const struct backend_queue_options *options,
                                 struct backend_queue **queue, struct failure *failure)
{
	struct scripted_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	q->options = *options;
	q->visible_limit = UINT32_MAX;
	q->post_limit = UINT32_MAX;
	q->raw_step = 1;
	q->slots = calloc(QUEUE_SLOTS_MAX, sizeof(*q->slots));
	q->completions = calloc(QUEUE_SLOTS_MAX, sizeof(*q->completions));
	if (scripted_any_init(&q->any, backend) < 0 || !q->slots || !q->completions) {
		scripted_destroy_queue(&q->any.queue);
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	}
	*queue = &q->any.queue;
	return 0;
}

static int scripted_start(struct backend_queue *queue)
{
	scripted_any(queue)->started = true;
	scripted_any(queue)->failed = false;
	return 0;
}

static int scripted_post(struct backend_queue *queue, const struct backend_run *run)
{
	struct scripted_queue *q = scripted(queue);
	uint32_t n = run->n;

	if (n > q->options.slots - free_slots(q))
		n = q->options.slots - free_slots(q);
	if (n > q->post_limit)
		n = q->post_limit;
	q->post_limit = UINT32_MAX;
	for (uint32_t i = 0; i < n; i++)
		q->slots[q->posted++ % QUEUE_SLOTS_MAX] =
			(struct posted_slot){run->slot + i, run->payload + (size_t)i * q->options.row_stride,
		                             run->headers + (size_t)i * q->options.header_stride};
	q->counts.posted += n;
	backend_use_post(&queue->use, n);
	return (int)n;
}

static int scripted_poll(struct backend_queue *queue, struct backend_event *events, uint32_t max)
{
	struct scripted_queue *q = scripted(queue);
	uint32_t n = 0;

	while (n < max && q->polled != q->completed && q->visible_limit > 0) {
		events[n++] = q->completions[q->polled++ % QUEUE_SLOTS_MAX];
		if (q->visible_limit != UINT32_MAX)
			q->visible_limit--;
	}
	if (q->swap_next && n >= 2) {
		struct backend_event first = events[0];

		events[0] = events[1];
		events[1] = first;
		q->swap_next = false;
	}
	backend_use_take(&queue->use, n);
	return (int)n;
}

static int scripted_fd(const struct backend_queue *queue)
{
	return ((const struct scripted_any *)queue)->fd;
}

static int scripted_arm(struct backend_queue *queue)
{
	scripted_any(queue)->armed = true;
	scripted_any(queue)->arms++;
	return 0;
}

static void scripted_clear(struct backend_queue *queue)
{
	eventfd_t count;

	eventfd_read(scripted_any(queue)->fd, &count);
}

static int scripted_reset(struct backend_queue *queue)
{
	struct scripted_queue *q = scripted(queue);

	if (q->any.reset_error)
		return q->any.reset_error;
	q->any.started = false;
	if (q->any.sends) {
		scripted_reset_send_queue(queue);
		return 0;
	}
	q->used = q->posted;
	q->polled = q->completed;
	backend_use_reset(&queue->use);
	return 0;
}

static int scripted_add_flow(struct backend_queue *queue, const struct flow_rule *rule, struct backend_flow **flow,
                             struct failure *failure)
{
	struct backend_flow *f = calloc(1, sizeof(*f));

	(void)rule;
	if (!f)
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	f->queue = queue;
	scripted(queue)->n_flows++;
	*flow = f;
	return 0;
}

static void scripted_remove_flow(struct backend_flow *flow)
{
	scripted(flow->queue)->n_flows--;
	free(flow);
}

static int scripted_read_matched(struct backend_queue *queue, uint64_t *packets)
{
	*packets = scripted(queue)->counts.matched;
	return 0;
}

static int scripted_read_port(struct backend *backend, struct backend_port_statistics *statistics)
{
	(void)backend;
	*statistics = (struct backend_port_statistics){0};
	return 0;
}

static int scripted_read_clock(struct backend *backend, struct backend_clock_reading *reading)
{
	(void)backend;
	*reading = (struct backend_clock_reading){0};
	return 0;
}

const struct backend_ops scripted_backend_ops = {
	.name = "scripted",
	.open = scripted_open,
	.close = scripted_close,
	.capabilities = scripted_capabilities,
	.register_memory = scripted_register_memory,
	.unregister_memory = scripted_unregister_memory,
	.create_queue = scripted_create_queue,
	.destroy_queue = scripted_destroy_queue,
	.start = scripted_start,
	.post = scripted_post,
	.poll = scripted_poll,
	.fd = scripted_fd,
	.arm = scripted_arm,
	.clear = scripted_clear,
	.reset = scripted_reset,
	.create_send_queue = scripted_create_send_queue,
	.send_post = scripted_send_post,
	.send_post_summed = scripted_send_post_summed,
	.send_reap = scripted_send_reap,
	.add_flow = scripted_add_flow,
	.remove_flow = scripted_remove_flow,
	.read_matched = scripted_read_matched,
	.read_port = scripted_read_port,
	.read_clock = scripted_read_clock,
};
