// SPDX-License-Identifier: Apache-2.0
/*
 * Receive queues and groups of them, and the hot path of receiving, which posts slots and polls completions: no
 * allocation, no lock, no system call there.
 */
#include "daemon/backend/verbs/verbs.h"
#include "daemon/base/log.h"

#include <errno.h>
#include <string.h>

static int verbs_sges_of_slot(const struct backend_queue_options *options)
{
	return (options->header_bytes ? 2 : 1) + (options->oversize_sink ? 1 : 0);
}

static void verbs_chain_init(struct verbs_receive_queue *receive, const struct backend_queue_options *options)
{
	for (uint32_t i = 0; i < VERBS_CHAIN; i++) {
		struct verbs_slot_wr *slot = &receive->chain[i];

		slot->sges[0] = (struct ibv_sge){.length = options->header_bytes, .lkey = verbs_lkey(options->headers)};
		slot->sges[1] = (struct ibv_sge){.length = options->slot_bytes, .lkey = verbs_lkey(options->payload)};
		if (options->oversize_sink)
			slot->sges[2] = (struct ibv_sge){.length = VERBS_SINK_BYTES,
			                                 .lkey = receive->queue.backend->sink->lkey};
		slot->wr.sg_list = options->header_bytes ? slot->sges : &slot->sges[1]; /* none is of 0 bytes */
		slot->wr.num_sge = verbs_sges_of_slot(options);
		slot->wr.next = i + 1 < VERBS_CHAIN ? &receive->chain[i + 1].wr : NULL;
	}
}

static inline void verbs_fill_slot(struct verbs_slot_wr *wr, uint64_t slot, const uint8_t *payload,
                                   const uint8_t *headers)
{
	wr->wr.wr_id = slot;
	wr->sges[0].addr = (uintptr_t)headers;
	wr->sges[1].addr = (uintptr_t)payload;
}

/* Four slots in a round take 7 instructions each; one slot in a round would take 9. */
static inline void verbs_fill_chain(struct verbs_receive_queue *receive, uint32_t n, uint64_t slot,
                                    const uint8_t *payload, const uint8_t *headers)
{
	const size_t row = receive->row_stride, header_row = receive->header_stride;
	struct verbs_slot_wr *wr = receive->chain;

	for (; n >= 4; n -= 4, wr += 4, slot += 4, payload += 4 * row, headers += 4 * header_row) {
		verbs_fill_slot(wr, slot, payload, headers);
		verbs_fill_slot(wr + 1, slot + 1, payload + row, headers + header_row);
		verbs_fill_slot(wr + 2, slot + 2, payload + 2 * row, headers + 2 * header_row);
		verbs_fill_slot(wr + 3, slot + 3, payload + 3 * row, headers + 3 * header_row);
	}
	for (; n; n--, wr++, slot++, payload += row, headers += header_row)
		verbs_fill_slot(wr, slot, payload, headers);
}

/* One doorbell. Returns how many of n slots the device accepted, or -errno. */
static int verbs_post_chain(struct verbs_receive_queue *receive, uint32_t n, uint64_t slot, const uint8_t *payload,
                            const uint8_t *headers)
{
	struct verbs_slot_wr *last = &receive->chain[n - 1];
	struct ibv_recv_wr *bad;
	int error;

	verbs_fill_chain(receive, n, slot, payload, headers);
	if (n < VERBS_CHAIN)
		last->wr.next = NULL;
	error = receive->queue.wq ? ibv_post_wq_recv(receive->queue.wq, &receive->chain[0].wr, &bad)
	                          : ibv_post_recv(receive->queue.qp, &receive->chain[0].wr, &bad);
	if (n < VERBS_CHAIN)
		last->wr.next = &last[1].wr;
	if (__builtin_expect(error == 0, 1))
		return (int)n;
	/* ENOMEM: the queue is full, and the slots before the bad one are posted. */
	return error == ENOMEM ? (int)((const struct verbs_slot_wr *)bad - receive->chain) : -error;
}

int verbs_post(struct backend_queue *base, const struct backend_run *run)
{
	struct verbs_receive_queue *receive = verbs_receive_queue(base);
	uint32_t done = 0;

	while (done < run->n) {
		uint32_t n = run->n - done < VERBS_CHAIN ? run->n - done : VERBS_CHAIN;
		int taken = verbs_post_chain(receive, n, run->slot + done,
		                             run->payload + (size_t)done * receive->row_stride,
		                             run->headers + (size_t)done * receive->header_stride);

		if (taken < 0)
			return taken;
		done += (uint32_t)taken;
		if ((uint32_t)taken < n)
			break;
	}
	backend_use_post(&base->use, done);
	return (int)done;
}

static inline __attribute__((always_inline)) uint64_t verbs_take_timestamp(struct ibv_cq_ex *cq,
                                                                           enum verbs_timestamps timestamps)
{
	if (timestamps == VERBS_TIMESTAMPS_TICKS)
		return ibv_wc_read_completion_ts(cq);
	if (timestamps == VERBS_TIMESTAMPS_NONE)
		return 0;
	return verbs_real_time_ns(ibv_wc_read_completion_wallclock_ns(cq));
}

static inline __attribute__((always_inline)) void
verbs_take_completion(struct ibv_cq_ex *cq, struct backend_event *event, enum verbs_timestamps timestamps)
{
	if (__builtin_expect(cq->status != IBV_WC_SUCCESS, 0)) {
		verbs_take_receive_error(cq->cq_context, (uint32_t)cq->wr_id, cq->status, event);
		return;
	}
	event->bytes = ibv_wc_read_byte_len(cq);
	event->timestamp_raw = verbs_take_timestamp(cq, timestamps);
	/* BACKEND_OK and no flags in one store; gcc 12 would make three stores of assignments. */
	memset(&event->status, 0, offsetof(struct backend_event, slot) - offsetof(struct backend_event, status));
	event->slot = (uint32_t)cq->wr_id;
}

/* To be called after ibv_start_poll() succeeded, with the first completion present. Returns the end of the events. */
static inline __attribute__((always_inline)) struct backend_event *
verbs_take_completions(struct ibv_cq_ex *cq, struct backend_event *event, const struct backend_event *end,
                       enum verbs_timestamps timestamps)
{
	do {
		verbs_take_completion(cq, event, timestamps);
	} while (++event < end && ibv_next_poll(cq) == 0);
	return event;
}

/*
 * What few streams ask for. A missing IBV_WC_IP_CSUM_OK can also mean that the device did not check, or that the packet
 * has no checksum.
 */
static void verbs_take_more(const struct verbs_receive_queue *receive, struct backend_event *event)
{
	struct ibv_cq_ex *cq = receive->queue.cq;

	event->tag = 0;
	if (event->status != BACKEND_OK)
		return;
	if (receive->flow_tags)
		event->tag = ibv_wc_read_flow_tag(cq);
	if (receive->queue.base.checks_checksums && ibv_wc_read_wc_flags(cq) & IBV_WC_IP_CSUM_OK)
		event->flags = BACKEND_EVENT_CHECKSUM_GOOD;
}

/* Apart, so that the loops without it do not test for it. */
static __attribute__((noinline)) struct backend_event *verbs_take_with_more(const struct verbs_receive_queue *receive,
                                                                            struct backend_event *event,
                                                                            const struct backend_event *end)
{
	struct ibv_cq_ex *cq = receive->queue.cq;

	do {
		verbs_take_completion(cq, event, receive->timestamps);
		verbs_take_more(receive, event);
	} while (++event < end && ibv_next_poll(cq) == 0);
	return event;
}

int verbs_poll(struct backend_queue *base, struct backend_event *events, uint32_t max)
{
	struct verbs_receive_queue *receive = verbs_receive_queue(base);
	const struct backend_event *end = events + max;
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *cq = receive->queue.cq;
	int error;

	error = ibv_start_poll(cq, &attr);
	if (error == ENOENT) /* no ibv_end_poll() is due after ibv_start_poll() failed */
		return atomic_load_explicit(&receive->queue.failed, memory_order_relaxed) ? -EIO : 0;
	if (error)
		return -error;
	/* Three loops, so that none tests in each round which timestamps there are. */
	if (__builtin_expect(receive->has_more, 0))
		end = verbs_take_with_more(receive, events, end);
	else if (receive->timestamps == VERBS_TIMESTAMPS_TICKS)
		end = verbs_take_completions(cq, events, end, VERBS_TIMESTAMPS_TICKS);
	else if (receive->timestamps == VERBS_TIMESTAMPS_REAL_TIME)
		end = verbs_take_completions(cq, events, end, VERBS_TIMESTAMPS_REAL_TIME);
	else
		end = verbs_take_completions(cq, events, end, VERBS_TIMESTAMPS_NONE);
	ibv_end_poll(cq);
	backend_use_take(&base->use, (uint32_t)(end - events));
	return (int)(end - events);
}

/* ---- the queue ---------------------------------------------------------------------------------- */

static int verbs_check_receive_options(const struct verbs_backend *backend, const struct backend_queue_options *options,
                                       struct failure *failure)
{
	const char *device = verbs_device_name(backend);
	const struct ibv_device_attr *attr = &backend->attr.orig_attr;
	int n_sges = verbs_sges_of_slot(options);

	if (options->slots == 0 || options->slots % VERBS_CHAIN != 0 || options->slots > (uint32_t)attr->max_qp_wr ||
	    options->slots > (uint32_t)attr->max_cqe)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "receive queue of %u slots on %s: accepted are multiples of %d up to %d",
		                   options->slots, device, VERBS_CHAIN, attr->max_qp_wr / VERBS_CHAIN * VERBS_CHAIN);
	if (options->oversize_sink && !backend->sink)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP, "%s has no null memory region for longer packets",
		                   device);
	if (options->timestamps && backend->timestamps == VERBS_TIMESTAMPS_NONE)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP,
		                   "%s has no timestamps in its completions: set timestamps = \"software\"", device);
	if (attr->max_sge < n_sges)
		return failure_set(failure, EX_UNAVAILABLE, ENOTSUP, "%s takes %d SGEs a receive, %d are needed",
		                   device, attr->max_sge, n_sges);
	return 0;
}

/* Three quarters of the slots are left for what comes until the worker runs. */
int verbs_moderate(const struct verbs_queue *queue, const struct backend_queue_options *options,
                   struct failure *failure)
{
	uint32_t count = options->slots / 4, max = queue->backend->attr.cq_mod_caps.max_cq_count;
	struct ibv_modify_cq_attr attr = {
		.attr_mask = IBV_CQ_ATTR_MODERATE,
		.moderate = {.cq_count = (uint16_t)(count < max ? count : max),
	                     .cq_period = (uint16_t)options->moderation_us},
	};
	int error = options->moderation_us ? ibv_modify_cq(ibv_cq_ex_to_cq(queue->cq), &attr) : 0;

	if (!error)
		return 0;
	return failure_set(failure, EX_UNAVAILABLE, error,
	                   "%s refuses events of %u completions or %u us: %s: set moderation_us = 0",
	                   verbs_device_name(queue->backend), attr.moderate.cq_count, options->moderation_us,
	                   strerror(error));
}

static int verbs_create_receive_cq(struct verbs_queue *queue, const struct backend_queue_options *options,
                                   struct failure *failure)
{
	uint64_t wc_flags = IBV_WC_EX_WITH_BYTE_LEN;
	int error;

	/*
	 * Raw ticks, because the library converts WALLCLOCK by a clock that it reads itself; real time needs no
	 * conversion.
	 */
	if (options->timestamps)
		wc_flags |= queue->backend->timestamps == VERBS_TIMESTAMPS_REAL_TIME
		                    ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK
		                    : IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
	if (options->flow_tags)
		wc_flags |= IBV_WC_EX_WITH_FLOW_TAG;
	/* A completion queue that overruns is lost. */
	error = verbs_queue_create_cq(queue, verbs_n_entries(options), wc_flags, options->completion_events, failure);
	return error ? error : verbs_moderate(queue, options, failure);
}

static int verbs_create_receive_qp(struct verbs_queue *queue, const struct backend_queue_options *options,
                                   struct failure *failure)
{
	struct ibv_qp_cap given = {.max_recv_wr = options->slots,
	                           .max_recv_sge = (uint32_t)verbs_sges_of_slot(options)};
	const char *device = verbs_device_name(queue->backend);
	int n_cqe = ibv_cq_ex_to_cq(queue->cq)->cqe, error;

	error = verbs_queue_create_qp(queue, &given, failure);
	if (error)
		return error;
	if (given.max_recv_wr != options->slots)
		log_info("%s: receive queue on %s: asked for %u slots, given %u; completion queue %d entries",
		         queue->backend->interface, device, options->slots, given.max_recv_wr, n_cqe);
	if ((uint32_t)n_cqe < given.max_recv_wr)
		return failure_set(
			failure, EX_UNAVAILABLE, EOVERFLOW,
			"%s gave a completion queue of %d entries for a receive queue of %u: it would overrun", device,
			n_cqe, given.max_recv_wr);
	return 0;
}

/* Only a receive queue without a queue pair of its own can be one of a group, or have delay drop. */
static bool verbs_needs_wq(const struct backend_queue_options *options)
{
	return options->in_group || options->delay_drop;
}

/* libmlx5 tells it of queue pairs only: its MLX5_CQ_FLAGS_RX_CSUM_VALID is never set for a WQ. */
static bool verbs_checks_checksums(const struct verbs_backend *backend, const struct backend_queue_options *options)
{
	return options->checksums && backend->attr.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM &&
	       (backend->direct || !verbs_needs_wq(options));
}

int verbs_create_queue(struct backend *base, const struct backend_queue_options *options, struct backend_queue **out,
                       struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_receive_queue *receive;
	struct verbs_queue *queue;
	int error;

	error = verbs_check_receive_options(backend, options, failure);
	if (error)
		return error;
	queue = verbs_queue_new(backend, sizeof(*receive) + verbs_n_entries(options) * sizeof(receive->slots[0]),
	                        failure);
	if (!queue)
		return -ENOMEM;
	receive = verbs_receive_queue(&queue->base);
	receive->header_stride = options->header_stride;
	receive->row_stride = options->row_stride;
	receive->flow_tags = options->flow_tags;
	queue->base.checks_checksums = verbs_checks_checksums(backend, options);
	receive->has_more = receive->flow_tags || queue->base.checks_checksums;
	receive->timestamps = options->timestamps ? backend->timestamps : VERBS_TIMESTAMPS_NONE;
	verbs_chain_init(receive, options);
	error = verbs_create_receive_cq(queue, options, failure);
	if (!error)
		error = verbs_needs_wq(options) ? verbs_create_member(queue, options, failure)
		                                : verbs_create_receive_qp(queue, options, failure);
	if (!error && backend->direct)
		error = verbs_direct_init(receive, options, failure);
	if (!error)
		error = verbs_counters_create(queue, failure);
	if (error)
		verbs_destroy_queue(&queue->base);
	else
		*out = &queue->base;
	return error;
}

/* ---- a group of queues -------------------------------------------------------------------------- */

int verbs_create_group(struct backend *base, const struct backend_group_options *options, struct backend_queue **out,
                       struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_queue *queue = verbs_queue_new(backend, sizeof(struct verbs_group), failure);
	struct ibv_wq *members[VERBS_GROUP_QUEUES_MAX];
	int error;

	if (!queue)
		return -ENOMEM;
	queue->is_group = true;
	verbs_group(queue)->options = *options;
	verbs_group(queue)->options.queues = NULL;
	for (uint32_t i = 0; i < options->n_queues; i++)
		members[i] = verbs_queue(options->queues[i])->wq;
	error = verbs_group_create_table(queue, members, options->n_queues);
	if (!error)
		error = verbs_group_make_kind(verbs_group(queue), VERBS_GROUP_IPV4);
	if (error) {
		failure_set(failure, EX_UNAVAILABLE, -error, "cannot share packets out to %u queues of %s: %s%s",
		            options->n_queues, verbs_device_name(backend), strerror(-error),
		            verbs_explain_limit(-error));
	} else {
		queue->qp = verbs_group(queue)->qps[VERBS_GROUP_IPV4];
		error = verbs_counters_create(queue, failure);
	}
	if (error)
		verbs_destroy_queue(&queue->base);
	else
		*out = &queue->base;
	return error;
}
