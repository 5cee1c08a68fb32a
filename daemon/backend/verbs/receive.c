// SPDX-License-Identifier: Apache-2.0
/* The hot path of receiving: posts slots and polls completions. No allocation, no lock, no system call. */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/time.h"

#include <errno.h>
#include <string.h>

int verbs_sges_of_slot(const struct backend_queue_options *options)
{
	return (options->header_bytes ? 2 : 1) + (options->oversize_sink ? 1 : 0);
}

void verbs_chain_init(struct verbs_receive_queue *receive, const struct backend_queue_options *options)
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
	struct ibv_recv_wr *last = &receive->chain[n - 1].wr, *next = last->next, *bad;
	int error;

	verbs_fill_chain(receive, n, slot, payload, headers);
	last->next = NULL;
	error = receive->queue.wq ? ibv_post_wq_recv(receive->queue.wq, &receive->chain[0].wr, &bad)
	                          : ibv_post_recv(receive->queue.qp, &receive->chain[0].wr, &bad);
	last->next = next;
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
	return (int)done;
}

static enum backend_status verbs_backend_status(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return BACKEND_OK;
	case IBV_WC_LOC_LEN_ERR:
		return BACKEND_LENGTH_ERROR;
	case IBV_WC_WR_FLUSH_ERR:
		return BACKEND_FLUSHED;
	default:
		return BACKEND_SLOT_ERROR;
	}
}

/*
 * The other fields of a failed completion are undefined (ibv_create_cq_ex(3)). Every error except a packet that is too
 * long stops the queue pair, with or without an asynchronous event (doc/verbs-rules.md, posting and polling).
 */
static __attribute__((noinline, cold)) void verbs_take_receive_error(const struct ibv_cq_ex *cq,
                                                                     struct backend_event *event)
{
	struct verbs_queue *queue = cq->cq_context;

	*event = (struct backend_event){.slot = (uint32_t)cq->wr_id,
	                                .status = (uint8_t)verbs_backend_status(cq->status)};
	if (event->status == BACKEND_SLOT_ERROR)
		atomic_store_explicit(&queue->base.error, ibv_wc_status_str(cq->status), memory_order_relaxed);
	if (event->status != BACKEND_LENGTH_ERROR)
		atomic_store_explicit(&queue->failed, true, memory_order_relaxed);
}

static inline __attribute__((always_inline)) uint64_t verbs_take_timestamp(struct ibv_cq_ex *cq,
                                                                           enum verbs_timestamps timestamps)
{
	uint64_t real_time;

	if (timestamps == VERBS_TIMESTAMPS_TICKS)
		return ibv_wc_read_completion_ts(cq);
	if (timestamps == VERBS_TIMESTAMPS_NONE)
		return 0;
	real_time = ibv_wc_read_completion_wallclock_ns(cq);
	return (real_time >> 32) * TIME_SECOND_NS + (uint32_t)real_time;
}

/*
 * Bad checksums cannot be reported: a missing IBV_WC_IP_CSUM_OK can also mean that the device did not check.
 */
static inline __attribute__((always_inline)) void
verbs_take_completion(struct ibv_cq_ex *cq, struct backend_event *event, enum verbs_timestamps timestamps)
{
	if (__builtin_expect(cq->status != IBV_WC_SUCCESS, 0)) {
		verbs_take_receive_error(cq, event);
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

/* Apart, so that the loops without tags do not test for them. */
static __attribute__((noinline)) struct backend_event *verbs_take_tagged(struct ibv_cq_ex *cq,
                                                                         struct backend_event *event,
                                                                         const struct backend_event *end,
                                                                         enum verbs_timestamps timestamps)
{
	do {
		verbs_take_completion(cq, event, timestamps);
		event->tag = event->status == BACKEND_OK ? ibv_wc_read_flow_tag(cq) : 0;
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
	if (__builtin_expect(receive->flow_tags, 0))
		end = verbs_take_tagged(cq, events, end, receive->timestamps);
	else if (receive->timestamps == VERBS_TIMESTAMPS_TICKS)
		end = verbs_take_completions(cq, events, end, VERBS_TIMESTAMPS_TICKS);
	else if (receive->timestamps == VERBS_TIMESTAMPS_REAL_TIME)
		end = verbs_take_completions(cq, events, end, VERBS_TIMESTAMPS_REAL_TIME);
	else
		end = verbs_take_completions(cq, events, end, VERBS_TIMESTAMPS_NONE);
	ibv_end_poll(cq);
	return (int)(end - events);
}
