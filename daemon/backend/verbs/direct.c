// SPDX-License-Identifier: Apache-2.0
/*
 * The direct path: the worker reads completions and writes receive queue entries itself, at the addresses that libmlx5
 * names (mlx5dv_init_obj(3)). The library still makes, changes and destroys the objects. The rules of the hardware that
 * this file relies on are in doc/verbs-rules.md, the direct path.
 */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/backend/verbs/dma_barrier.h"
#include "lib/base/pause.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CQE_BYTES 64

/* Records of a completion queue that the device reads: libmlx5, MLX5_CQ_SET_CI and MLX5_CQ_ARM_DB. */
enum { CQ_CONSUMER_RECORD, CQ_ARM_RECORD };

#define CQ_INDEX_MASK 0xffffff /* bits of a completion queue's indices */

/* Packets are dense once DENSE_FROM have come in polls of DENSE_POLL or more. A pause takes some 15 to 50 ns. */
#define DENSE_POLL 16
#define DENSE_FROM 1024
enum { BATCH_LOOKS = 8, BATCH_PAUSES = 8 };

/* Bits of op_own: opcode (4), format (2), solicited event, owner. */
#define OP_OWN_SOLICITED  (1 << 1)
#define OP_OWN_OF(opcode) ((opcode) << 4)

/* ---- posting ------------------------------------------------------------------------------------- */

/* The device sees the entries before their count. It reads the count from the record, modulo 2^16. */
static inline void direct_ring_doorbell(struct verbs_direct *direct)
{
	dma_store_barrier();
	__atomic_store_n(direct->doorbell, htobe32(direct->n_posted & UINT16_MAX), __ATOMIC_RELEASE);
}

/* The addresses of n entries, which lie in a row. Lengths and keys never change: direct_init_entries(). */
static inline __attribute__((always_inline)) void direct_fill(const struct verbs_receive_queue *receive,
                                                              struct mlx5_wqe_data_seg *entry, uint32_t *slots,
                                                              const struct backend_run *run, uint32_t done, uint32_t n,
                                                              bool has_headers)
{
	const size_t stride = receive->direct.entry_segments, row = receive->row_stride,
		     header_row = receive->header_stride;
	uintptr_t payload = (uintptr_t)run->payload + done * row;
	uintptr_t headers = (uintptr_t)run->headers + done * header_row;
	uint32_t slot = run->slot + done;

	for (const uint32_t *end = slots + n; slots != end; slots++, entry += stride) {
		if (has_headers)
			entry[0].addr = htobe64(headers);
		entry[has_headers].addr = htobe64(payload);
		*slots = slot++;
		payload += row;
		headers += header_row;
	}
}

static int verbs_direct_post(struct backend_queue *base, const struct backend_run *run)
{
	struct verbs_receive_queue *receive = verbs_receive_queue(base);
	struct verbs_direct *direct = &receive->direct;
	uint32_t n_entries = direct->entry_mask + 1;
	uint32_t n_free = n_entries - (uint32_t)(base->use.posted - base->use.taken);
	uint32_t n = run->n < n_free ? run->n : n_free;

	for (uint32_t done = 0, part; done < n; done += part, direct->n_posted += part) {
		uint32_t at = direct->n_posted & direct->entry_mask;
		struct mlx5_wqe_data_seg *entry = direct->entries + (size_t)at * direct->entry_segments;

		part = n - done < n_entries - at ? n - done : n_entries - at;
		if (direct->has_headers)
			direct_fill(receive, entry, &receive->slots[at], run, done, part, true);
		else
			direct_fill(receive, entry, &receive->slots[at], run, done, part, false);
	}
	direct_ring_doorbell(direct);
	backend_use_post(&base->use, n);
	return (int)n;
}

/* ---- polling ------------------------------------------------------------------------------------- */

static enum ibv_wc_status direct_wc_status(const struct mlx5_err_cqe *cqe)
{
	if (cqe->op_own >> 4 != MLX5_CQE_RESP_ERR)
		return IBV_WC_GENERAL_ERR;
	switch (cqe->syndrome) {
	case MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR:
		return IBV_WC_LOC_LEN_ERR;
	case MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR:
		return IBV_WC_LOC_QP_OP_ERR;
	case MLX5_CQE_SYNDROME_LOCAL_PROT_ERR:
		return IBV_WC_LOC_PROT_ERR;
	case MLX5_CQE_SYNDROME_WR_FLUSH_ERR:
		return IBV_WC_WR_FLUSH_ERR;
	default:
		return IBV_WC_GENERAL_ERR;
	}
}

/* A completion is the host's if it has an opcode, and the owner bit of this round through the buffer. */
static bool direct_is_owned(uint8_t op_own, uint8_t owner)
{
	return op_own >> 4 != MLX5_CQE_INVALID && (op_own & MLX5_CQE_OWNER_MASK) == owner;
}

static inline uint8_t direct_owner(const struct verbs_direct *direct, uint32_t index)
{
	return (index & (direct->cqe_mask + 1)) != 0;
}

/* The slot of the entry that the device has used: a completion has its index, modulo 2^16. */
static inline uint32_t direct_slot(const struct verbs_receive_queue *receive, uint16_t counter_be)
{
	return receive->slots[be16toh(counter_be) & receive->direct.entry_mask];
}

/* A completion that is the host's, and not a plain one of a packet. */
static __attribute__((noinline, cold)) void direct_take_error(struct verbs_receive_queue *receive,
                                                              const struct mlx5_cqe64 *cqe, struct backend_event *event)
{
	const struct mlx5_err_cqe *error = (const struct mlx5_err_cqe *)cqe;

	dma_load_barrier();
	verbs_take_receive_error(&receive->queue, direct_slot(receive, error->wqe_counter), direct_wc_status(error),
	                         event);
}

/* What the loop reads of a completion: each has a loop of its own, which tests nothing for the others. */
enum direct_fields { DIRECT_PLAIN, DIRECT_TAG, DIRECT_TAG_AND_CHECKS };

/* A fragment and a packet with an error do not have both bits. */
static inline uint8_t direct_checksum_flags(const struct mlx5_cqe64 *cqe)
{
	const uint8_t right = MLX5_CQE_L3_OK | MLX5_CQE_L4_OK;

	return (cqe->hds_ip_ext & right) == right ? BACKEND_EVENT_CHECKSUM_GOOD : 0;
}

/* Take completions that lie in a row. Returns the end of the events. */
static inline __attribute__((always_inline)) struct backend_event *
direct_take(struct verbs_receive_queue *receive, const struct mlx5_cqe64 *cqe, uint8_t owner,
            struct backend_event *event, const struct backend_event *end, const enum direct_fields fields)
{
	const uint8_t plain = (uint8_t)(OP_OWN_OF(MLX5_CQE_RESP_SEND) | owner);

	for (; event != end; event++, cqe++) {
		uint8_t op_own = __atomic_load_n(&cqe->op_own, __ATOMIC_ACQUIRE);

		if (__builtin_expect((op_own & ~OP_OWN_SOLICITED) != plain, 0)) {
			if (!direct_is_owned(op_own, owner)) /* by the same load: it may become a packet's any time */
				break;
			direct_take_error(receive, cqe, event);
			continue;
		}
		dma_load_barrier();
		event->timestamp_raw = be64toh(cqe->timestamp);
		event->bytes = be32toh(cqe->byte_cnt);
		/* BACKEND_OK and no flags in one store. */
		memset(&event->status, 0,
		       offsetof(struct backend_event, slot) - offsetof(struct backend_event, status));
		event->slot = direct_slot(receive, cqe->wqe_counter);
		if (fields != DIRECT_PLAIN)
			event->tag = be32toh(cqe->sop_drop_qpn) & VERBS_FLOW_TAG_MASK;
		if (fields == DIRECT_TAG_AND_CHECKS)
			event->flags = direct_checksum_flags(cqe);
	}
	return event;
}

/* Every completion has a time. It becomes nanoseconds if the device has a real-time clock, else 0. */
static __attribute__((noinline)) void direct_convert_times(struct backend_event *event, const struct backend_event *end,
                                                           bool are_real)
{
	for (; event != end; event++)
		event->timestamp_raw = are_real ? verbs_real_time_ns(event->timestamp_raw) : 0;
}

/* The device may write to the places before n_polled again. The loads above come before this store. */
static inline void direct_give_back(struct verbs_direct *direct)
{
	__atomic_store_n(&direct->cq_records[CQ_CONSUMER_RECORD], htobe32(direct->n_polled & CQ_INDEX_MASK),
	                 __ATOMIC_RELEASE);
}

/*
 * A worker that is faster than the device would take each completion while it is being written: their cache line goes
 * to and fro, and those that the processor reads ahead are taken from the device before it has written them. Both sides
 * are then a third as fast (doc/measured.md). So while packets are dense, look at the last completion of a batch alone,
 * for one to three microseconds, by processor. A poll that finds few ends this.
 */
static inline void direct_wait_for_batch(const struct verbs_direct *direct, uint32_t n)
{
	uint32_t last = direct->n_polled + n - 1;
	const struct mlx5_cqe64 *cqe = &direct->cqes[last & direct->cqe_mask];

	for (int i = 0; i < BATCH_LOOKS; i++) {
		if (direct_is_owned(__atomic_load_n(&cqe->op_own, __ATOMIC_RELAXED), direct_owner(direct, last)))
			return;
		for (int j = 0; j < BATCH_PAUSES; j++)
			pause_briefly();
	}
}

static int verbs_direct_poll(struct backend_queue *base, struct backend_event *events, uint32_t max)
{
	struct verbs_receive_queue *receive = verbs_receive_queue(base);
	struct verbs_direct *direct = &receive->direct;
	struct backend_event *event = events, *from, *to;
	uint32_t n;

	if (__builtin_expect(direct->n_dense >= DENSE_FROM, 0))
		direct_wait_for_batch(direct, max);
	do { /* a second round at the end of the buffer, where the owner bit changes */
		uint32_t at = direct->n_polled & direct->cqe_mask, n_row = direct->cqe_mask + 1 - at;
		uint32_t n_left = max - (uint32_t)(event - events);
		uint8_t owner = direct_owner(direct, direct->n_polled);

		from = event;
		to = event + (n_left < n_row ? n_left : n_row);
		if (__builtin_expect(!receive->has_more, 1))
			event = direct_take(receive, direct->cqes + at, owner, event, to, DIRECT_PLAIN);
		else if (!base->checks_checksums)
			event = direct_take(receive, direct->cqes + at, owner, event, to, DIRECT_TAG);
		else
			event = direct_take(receive, direct->cqes + at, owner, event, to, DIRECT_TAG_AND_CHECKS);
		direct->n_polled += (uint32_t)(event - from);
	} while (event == to && event != events + max);
	n = (uint32_t)(event - events);
	direct->n_dense = n < DENSE_POLL ? 0 : direct->n_dense + n;
	if (n == 0)
		return atomic_load_explicit(&receive->queue.failed, memory_order_relaxed) ? -EIO : 0;
	backend_use_take(&base->use, n);
	if (__builtin_expect(receive->timestamps != VERBS_TIMESTAMPS_TICKS, 0))
		direct_convert_times(events, event, receive->timestamps == VERBS_TIMESTAMPS_REAL_TIME);
	direct_give_back(direct);
	return (int)n;
}

/* ---- states and events --------------------------------------------------------------------------- */

/*
 * As mlx5_arm_cq() of libmlx5, whose own consumer index stands still here. The number of events that were read tells
 * the device which of them this asks for.
 */
static int verbs_direct_arm(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);
	struct verbs_direct *direct = &verbs_receive_queue(base)->direct;
	uint32_t command = (queue->n_cq_events & 3) << 28 | MLX5_CQ_DB_REQ_NOT | (direct->n_polled & CQ_INDEX_MASK);

	if (!queue->channel)
		return -ENOTSUP;
	__atomic_store_n(&direct->cq_records[CQ_ARM_RECORD], htobe32(command), __ATOMIC_RELEASE);
	dma_doorbell_barrier(); /* the record is in memory before the device gets the doorbell */
	/* All completion queues share the register, so it is one store (util/mmio.h: mmio_write64_be). */
	__atomic_store_n(direct->cq_doorbell, htobe64((uint64_t)command << 32 | direct->cqn), __ATOMIC_RELAXED);
	dma_doorbell_barrier();
	return 0;
}

/* The library withholds the doorbell of a raw queue pair until RTR, and then writes its own count, which is 0 here. */
static int verbs_direct_start(struct backend_queue *base)
{
	struct verbs_direct *direct = &verbs_receive_queue(base)->direct;
	int error = verbs_start(base);

	if (error)
		return error;
	direct->doorbell = direct->doorbell_record;
	direct_ring_doorbell(direct);
	return 0;
}

/*
 * The device counts from 0 again, and the library has zeroed the doorbell record. The library does not clean a
 * completion queue that it has shown (mlx5_cq_clean: MLX5_CQ_FLAGS_DV_OWNED). No completion comes before the next post.
 */
static int verbs_direct_reset(struct backend_queue *base)
{
	struct verbs_queue *queue = verbs_queue(base);
	struct verbs_direct *direct = &verbs_receive_queue(base)->direct;
	int error = verbs_reset(base);

	direct->n_posted = 0;
	direct->doorbell = queue->wq ? direct->doorbell_record : &direct->withheld;
	while (direct_is_owned(
		__atomic_load_n(&direct->cqes[direct->n_polled & direct->cqe_mask].op_own, __ATOMIC_ACQUIRE),
		direct_owner(direct, direct->n_polled)))
		direct->n_polled++;
	direct_give_back(direct);
	return error;
}

static const struct backend_ops verbs_direct_ops = {
	.name = "verbs",
	.destroy_queue = verbs_destroy_queue,
	.start = verbs_direct_start,
	.post = verbs_direct_post,
	.poll = verbs_direct_poll,
	.fd = verbs_fd,
	.arm = verbs_direct_arm,
	.clear = verbs_clear,
	.reset = verbs_direct_reset,
	.add_flow = verbs_add_flow,
	.remove_flow = verbs_remove_flow,
	.read_matched = verbs_read_matched,
};

/* ---- set-up -------------------------------------------------------------------------------------- */

/* All of each entry but the addresses. An entry that is longer than its list ends with the invalid key (libmlx5). */
static void direct_init_entries(struct verbs_direct *direct, const struct ibv_sge *sges, uint32_t n_sges)
{
	for (uint32_t i = 0; i <= direct->entry_mask; i++) {
		struct mlx5_wqe_data_seg *entry = direct->entries + (size_t)i * direct->entry_segments;

		for (uint32_t j = 0; j < n_sges; j++)
			mlx5dv_set_data_seg(&entry[j], sges[j].length, sges[j].lkey, sges[j].addr);
		if (n_sges < direct->entry_segments)
			mlx5dv_set_data_seg(&entry[n_sges], 0, MLX5_INVALID_LKEY, 0);
	}
}

int verbs_direct_init(struct verbs_receive_queue *receive, const struct backend_queue_options *options,
                      struct failure *failure)
{
	const struct ibv_recv_wr *slot = &receive->chain[0].wr;
	struct verbs_queue *queue = &receive->queue;
	struct verbs_direct *direct = &receive->direct;
	struct mlx5dv_cq cq = {0};
	struct mlx5dv_qp qp = {0};
	struct mlx5dv_rwq rwq = {0};
	struct mlx5dv_obj objects = {.cq = {.in = ibv_cq_ex_to_cq(queue->cq), .out = &cq},
	                             .qp = {.in = queue->qp, .out = &qp},
	                             .rwq = {.in = queue->wq, .out = &rwq}};
	int error = mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ | (queue->wq ? MLX5DV_OBJ_RWQ : MLX5DV_OBJ_QP));
	uint32_t n_sges = (uint32_t)slot->num_sge;

	if (!queue->wq)
		rwq = (struct mlx5dv_rwq){
			.buf = qp.rq.buf, .dbrec = qp.dbrec, .wqe_cnt = qp.rq.wqe_cnt, .stride = qp.rq.stride};
	if (error || cq.cqe_size != CQE_BYTES || !is_power_of_two(cq.cqe_cnt) || !is_power_of_two(rwq.wqe_cnt) ||
	    rwq.wqe_cnt > verbs_n_entries(options) || rwq.stride < n_sges * sizeof(struct mlx5_wqe_data_seg) ||
	    rwq.stride % sizeof(struct mlx5_wqe_data_seg))
		return failure_set(failure, EX_UNAVAILABLE, error ? error : EPROTO,
		                   "%s gave a receive queue that cannot be read directly (%u entries of %u bytes, %u "
		                   "completions of %u): set direct = false",
		                   verbs_device_name(queue->backend), rwq.wqe_cnt, rwq.stride, cq.cqe_cnt, cq.cqe_size);
	*direct = (struct verbs_direct){
		.cqes = cq.buf,
		.cqe_mask = cq.cqe_cnt - 1,
		.cq_records = cq.dbrec,
		.cq_doorbell = (uint64_t *)((uint8_t *)cq.cq_uar + MLX5_CQ_DOORBELL),
		.cqn = cq.cqn,
		.entries = rwq.buf,
		.entry_mask = rwq.wqe_cnt - 1,
		.entry_segments = rwq.stride / (uint32_t)sizeof(struct mlx5_wqe_data_seg),
		.has_headers = options->header_bytes != 0,
		.doorbell_record = rwq.dbrec,
	};
	direct->doorbell = queue->wq ? direct->doorbell_record : &direct->withheld;
	direct_init_entries(direct, slot->sg_list, n_sges);
	queue->base.ops = &verbs_direct_ops;
	return 0;
}

/* A small queue is tried, since libmlx5's environment and the kernel decide how large completions are. */
bool verbs_direct_works(const struct verbs_backend *backend, char why_not[BACKEND_HOW_BYTES])
{
	struct ibv_cq *cq = NULL;
	struct mlx5dv_cq shown = {0};
	struct mlx5dv_obj objects = {.cq = {.out = &shown}};
	const char *why = NULL;

	if (!DMA_BARRIERS_ARE_KNOWN)
		why = "the order of this processor's accesses is not known";
	else if (!mlx5dv_is_supported(backend->context->device))
		why = "only mlx5 devices can";
	else if (getenv("MLX5_QP_SIGNATURE") || getenv("MLX5_RWQ_SIGNATURE"))
		why = "MLX5_QP_SIGNATURE or MLX5_RWQ_SIGNATURE is set, which changes the receive queue's entries";
	else if (!(cq = objects.cq.in = ibv_create_cq(backend->context, 1, NULL, NULL, 0)) ||
	         mlx5dv_init_obj(&objects, MLX5DV_OBJ_CQ))
		why = "libmlx5 does not show a completion queue";
	else if (shown.cqe_size != CQE_BYTES)
		why = "completions are not of 64 bytes (MLX5_CQE_SIZE)";
	if (cq)
		ibv_destroy_cq(cq);
	snprintf(why_not, BACKEND_HOW_BYTES, "%s", why ? why : "");
	return !why;
}
