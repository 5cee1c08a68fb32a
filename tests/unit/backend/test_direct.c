// SPDX-License-Identifier: Apache-2.0
/* The direct path on rings that the test made, and in which it is the device. */
#include "daemon/backend/verbs/verbs.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <endian.h>
#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define N_CQES        16u
#define N_ENTRIES     8u
#define HEADER_BYTES  42u
#define HEADER_STRIDE 64u
#define SLOT_BYTES    100u
#define ROW_STRIDE    128u
#define ERROR(name)   MLX5_CQE_SYNDROME_##name
#define CQN           0x123456u

/* What mlx5dv_init_obj() shows. */
static struct mlx5_cqe64 cqes[N_CQES];
static struct mlx5_wqe_data_seg entries[N_ENTRIES][4];
static uint32_t cq_records[2], receive_records[2];
static uint64_t registers[8];
static uint32_t cqe_size = 64, stride = 4 * sizeof(entries[0][0]);
static enum ibv_qp_state last_state;

static struct verbs_backend backend;
static struct ibv_device device = {.name = "mlx5_7"};
static struct ibv_context context = {.device = &device};
static struct ibv_cq_ex cq;
static struct ibv_qp qp;
static struct ibv_comp_channel channel;
static struct verbs_receive_queue *receive;
static struct backend_queue *queue;
static struct ibv_mr key_of_headers = {.lkey = 0x11}, key_of_payload = {.lkey = 0x22}, key_of_sink = {.lkey = 0x33};
static uint32_t n_completed; /* by the device, of all time */

int __wrap_mlx5dv_init_obj(struct mlx5dv_obj *objects, uint64_t types);
int __wrap_ibv_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask);

int __wrap_mlx5dv_init_obj(struct mlx5dv_obj *objects, uint64_t types)
{
	cr_assert(eq(u64, types, MLX5DV_OBJ_CQ | MLX5DV_OBJ_QP));
	*objects->cq.out = (struct mlx5dv_cq){.buf = cqes,
	                                      .dbrec = cq_records,
	                                      .cqe_cnt = N_CQES,
	                                      .cqe_size = cqe_size,
	                                      .cq_uar = registers,
	                                      .cqn = CQN};
	*objects->qp.out = (struct mlx5dv_qp){.dbrec = receive_records,
	                                      .rq = {.buf = entries, .wqe_cnt = N_ENTRIES, .stride = stride}};
	return 0;
}

/* libmlx5 writes its own count to the record at RTR, and 0 at RESET. It has posted nothing. */
int __wrap_ibv_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	(void)of, (void)mask;
	last_state = attr->qp_state;
	if (last_state == IBV_QPS_RTR || last_state == IBV_QPS_RESET)
		receive_records[0] = 0;
	return 0;
}

static int make(struct failure *failure)
{
	const struct backend_queue_options options = {.slots = N_ENTRIES, .header_bytes = HEADER_BYTES};
	struct verbs_slot_wr *slot;

	for (uint32_t i = 0; i < N_CQES; i++)
		cqes[i].op_own = MLX5_CQE_INVALID << 4;
	backend = (struct verbs_backend){.base = {.ops = &verbs_backend_ops}, .context = &context};
	receive = calloc(1, sizeof(*receive) + N_ENTRIES * sizeof(receive->slots[0]));
	receive->queue = (struct verbs_queue){.backend = &backend, .qp = &qp, .cq = &cq};
	receive->timestamps = VERBS_TIMESTAMPS_TICKS;
	receive->header_stride = HEADER_STRIDE;
	receive->row_stride = ROW_STRIDE;
	slot = &receive->chain[0];
	slot->sges[0] = (struct ibv_sge){.length = HEADER_BYTES, .lkey = key_of_headers.lkey};
	slot->sges[1] = (struct ibv_sge){.length = SLOT_BYTES, .lkey = key_of_payload.lkey};
	slot->sges[2] = (struct ibv_sge){.length = VERBS_SINK_BYTES, .lkey = key_of_sink.lkey};
	slot->wr = (struct ibv_recv_wr){.sg_list = slot->sges, .num_sge = 3};
	queue = &receive->queue.base;
	return verbs_direct_init(receive, &options, failure);
}

static void set_up(void)
{
	cr_assert(eq(int, make(NULL), 0));
}

static void tear_down(void)
{
	free(receive);
}

TestSuite(direct, .init = set_up, .fini = tear_down);

/* ---- the device ---------------------------------------------------------------------------------- */

static struct mlx5_cqe64 *next_cqe(void)
{
	return &cqes[n_completed % N_CQES];
}

static void own(int opcode)
{
	next_cqe()->op_own = (uint8_t)(opcode << 4 | ((n_completed / N_CQES) & 1));
	n_completed++;
}

static void complete(uint16_t counter, uint32_t bytes)
{
	struct mlx5_cqe64 *cqe = next_cqe();

	memset(cqe, 0xa5, offsetof(struct mlx5_cqe64, op_own));
	cqe->wqe_counter = htobe16(counter);
	cqe->byte_cnt = htobe32(bytes);
	cqe->timestamp = htobe64(UINT64_C(0x1122334455667788) + n_completed);
	cqe->sop_drop_qpn = htobe32(0xff000000 | n_completed);
	own(MLX5_CQE_RESP_SEND);
}

static void fail(uint16_t counter, uint8_t syndrome)
{
	struct mlx5_err_cqe *cqe = (struct mlx5_err_cqe *)next_cqe();

	memset(cqe, 0xa5, offsetof(struct mlx5_err_cqe, op_own));
	cqe->wqe_counter = htobe16(counter);
	cqe->syndrome = syndrome;
	own(MLX5_CQE_RESP_ERR);
}

/* ---- the worker ---------------------------------------------------------------------------------- */

static uint8_t payload[64 * ROW_STRIDE], headers[64 * HEADER_STRIDE];

static int post(uint32_t slot, uint32_t n)
{
	const struct backend_run run = {slot, n, payload + slot * ROW_STRIDE, headers + slot * HEADER_STRIDE};

	return queue->ops->post(queue, &run);
}

static int poll_one(struct backend_event *event)
{
	*event = (struct backend_event){.slot = 99, .bytes = 99, .status = 99, .flags = 99, .reserved = 99};
	return queue->ops->poll(queue, event, 1);
}

static void expect_packet(uint32_t slot, uint32_t bytes)
{
	struct backend_event event;

	cr_assert(eq(int, poll_one(&event), 1));
	cr_expect(eq(u32, event.slot, slot));
	cr_expect(eq(u32, event.bytes, bytes));
	cr_expect(eq(uint, event.status | event.flags | event.reserved, 0));
}

/* ---- posting ------------------------------------------------------------------------------------- */

static void expect_entry(uint32_t i, uint32_t slot)
{
	const struct mlx5_wqe_data_seg *entry = entries[i];

	cr_expect(eq(u64, be64toh(entry[0].addr), (uintptr_t)headers + (size_t)slot * HEADER_STRIDE), "entry %u", i);
	cr_expect(eq(u64, be64toh(entry[1].addr), (uintptr_t)payload + (size_t)slot * ROW_STRIDE), "entry %u", i);
	cr_expect(eq(u32, be32toh(entry[0].byte_count), HEADER_BYTES));
	cr_expect(eq(u32, be32toh(entry[1].byte_count), SLOT_BYTES));
	cr_expect(eq(u32, be32toh(entry[2].byte_count), VERBS_SINK_BYTES));
	cr_expect(eq(u32, be32toh(entry[0].lkey), key_of_headers.lkey));
	cr_expect(eq(u32, be32toh(entry[1].lkey), key_of_payload.lkey));
	cr_expect(eq(u32, be32toh(entry[2].lkey), key_of_sink.lkey));
	cr_expect(eq(u32, be32toh(entry[3].lkey), MLX5_INVALID_LKEY));
	cr_expect(eq(u32, entry[3].byte_count, 0));
}

Test(direct, posts_fill_entries_round_the_ring_as_far_as_there_are_free_ones)
{
	cr_assert(eq(int, queue->ops->start(queue), 0));
	cr_expect(eq(int, post(0, 6), 6));
	cr_expect(eq(u32, be32toh(receive_records[0]), 6));
	for (uint16_t i = 0; i < 4; i++) {
		complete(i, 60);
		expect_packet(i, 60);
	}
	cr_expect(eq(int, post(20, 9), 6)); /* two are not completed yet */
	cr_expect(eq(u32, be32toh(receive_records[0]), 12));
	expect_entry(4, 4);
	expect_entry(5, 5);
	expect_entry(6, 20);
	expect_entry(7, 21);
	for (uint32_t i = 0; i < 4; i++)
		expect_entry(i, 22 + i);
	cr_expect(eq(int, post(40, 1), 0));
}

Test(direct, the_doorbell_is_withheld_until_the_queue_receives)
{
	cr_assert(eq(int, post(0, 5), 5));
	cr_expect(eq(u32, receive_records[0], 0));
	cr_assert(eq(int, queue->ops->start(queue), 0));
	cr_expect(eq(int, last_state, IBV_QPS_RTR));
	cr_expect(eq(u32, be32toh(receive_records[0]), 5));
	cr_expect(eq(u32, receive_records[1], 0)); /* of the send queue */
}

Test(direct, the_count_of_posts_wraps_at_16_bits)
{
	struct backend_event event;

	cr_assert(eq(int, queue->ops->start(queue), 0));
	for (uint32_t i = 0; i < 0x10000 + 3; i++) {
		cr_assert(eq(int, post(i % 32, 1), 1));
		complete((uint16_t)i, 60);
		cr_assert(eq(int, poll_one(&event), 1));
		cr_assert(eq(u32, event.slot, i % 32));
	}
	cr_expect(eq(u32, be32toh(receive_records[0]), 3));
	cr_expect(eq(u32, be32toh(cq_records[0]), 0x10003));
}

/* ---- polling ------------------------------------------------------------------------------------- */

Test(direct, a_completion_becomes_an_event)
{
	struct backend_event event;

	post(7, 3);
	complete(1, 0x01020304);
	cr_assert(eq(int, poll_one(&event), 1));
	cr_expect(eq(u64, event.timestamp_raw, UINT64_C(0x1122334455667788)));
	cr_expect(eq(u32, event.bytes, 0x01020304));
	cr_expect(eq(u32, event.slot, 8));
	cr_expect(eq(uint, event.status | event.flags | event.reserved, 0));
	cr_expect(eq(u32, be32toh(cq_records[0]), 1));
	cr_expect(eq(int, poll_one(&event), 0));
}

Test(direct, tags_and_times_are_as_the_queue_was_made)
{
	struct backend_event event;

	post(0, 4);
	receive->flow_tags = receive->has_more = true;
	complete(0, 60);
	cr_assert(eq(int, poll_one(&event), 1));
	cr_expect(eq(u32, event.tag, 0)); /* the upper byte is not of the tag */
	complete(1, 60);
	cr_assert(eq(int, poll_one(&event), 1));
	cr_expect(eq(u32, event.tag, 1));
	receive->timestamps = VERBS_TIMESTAMPS_NONE;
	complete(2, 60);
	cr_assert(eq(int, poll_one(&event), 1));
	cr_expect(eq(u64, event.timestamp_raw, 0));
	receive->timestamps = VERBS_TIMESTAMPS_REAL_TIME;
	complete(3, 60);
	cr_assert(eq(int, poll_one(&event), 1));
	cr_expect(eq(u64, event.timestamp_raw, 0x11223344 * UINT64_C(1000000000) + 0x55667788 + 3));
}

/* The first round has owner bit 0, the second 1. A poll goes over the end of the buffer. */
Test(direct, owner_bits_turn_with_each_round_through_the_buffer)
{
	struct backend_event events[N_CQES];
	uint16_t counter = 0;

	cr_expect(eq(int, queue->ops->poll(queue, events, N_CQES), 0));
	for (uint32_t round = 0; round < 20; round++) {
		cr_assert(eq(int, post(0, 7), 7));
		for (uint32_t i = 0; i < 7; i++)
			complete(counter++, 60 + i);
		cr_assert(eq(int, queue->ops->poll(queue, events, N_CQES), 7), "round %u", round);
		for (uint32_t i = 0; i < 7; i++)
			cr_expect(eq(u32, events[i].bytes, 60 + i));
		cr_expect(eq(u32, be32toh(cq_records[0]), counter));
		cr_assert(eq(int, queue->ops->poll(queue, events, N_CQES), 0), "round %u", round);
	}
}

Test(direct, no_more_is_taken_than_asked_for)
{
	struct backend_event events[4];

	post(0, 8);
	for (uint16_t i = 0; i < 8; i++)
		complete(i, 60);
	cr_expect(eq(int, queue->ops->poll(queue, events, 3), 3));
	cr_expect(eq(u32, be32toh(cq_records[0]), 3));
	cr_expect(eq(int, queue->ops->poll(queue, events, 4), 4));
	cr_expect(eq(u32, events[3].slot, 6));
	cr_expect(eq(int, queue->ops->poll(queue, events, 4), 1));
}

/* All of a completion may be there before its last byte, which gives it to the host. */
Test(direct, a_torn_completion_is_not_taken)
{
	struct backend_event event;

	post(0, 8);
	complete(0, 60);
	n_completed--;
	next_cqe()->op_own ^= MLX5_CQE_OWNER_MASK;
	cr_expect(eq(int, poll_one(&event), 0));
	next_cqe()->op_own = MLX5_CQE_INVALID
	                     << 4; /* as libmlx5 makes the buffer, with the owner bit of the first round */
	cr_expect(eq(int, poll_one(&event), 0));
	own(MLX5_CQE_RESP_SEND);
	expect_packet(0, 60);
}

Test(direct, a_solicited_event_is_a_packet_too)
{
	post(0, 8);
	complete(0, 61);
	cqes[0].op_own |= 2;
	expect_packet(0, 61);
}

#define N_LIVE 200000u

static void *complete_live(void *unused)
{
	(void)unused;
	for (uint32_t i = 0; i < N_LIVE; i++) {
		struct mlx5_cqe64 *cqe = next_cqe();
		uint8_t owner = (n_completed / N_CQES) & 1;

		while (i - be32toh(__atomic_load_n(&cq_records[0], __ATOMIC_ACQUIRE)) >= N_ENTRIES)
			;
		cqe->wqe_counter = htobe16((uint16_t)i);
		cqe->byte_cnt = htobe32(i);
		__atomic_store_n(&cqe->op_own, (uint8_t)(MLX5_CQE_RESP_SEND << 4 | owner), __ATOMIC_RELEASE);
		n_completed++;
	}
	return NULL;
}

/* A completion may come between any two loads of the worker's. */
Test(direct, completions_that_come_during_a_poll_are_packets, .timeout = 60)
{
	struct backend_event event;
	uint32_t taken = 0;
	pthread_t other;

	post(0, 8);
	cr_assert(eq(int, pthread_create(&other, NULL, complete_live, NULL), 0));
	while (taken < N_LIVE) {
		int n = poll_one(&event);

		cr_assert(eq(int, event.status *(n != 0), BACKEND_OK));
		cr_assert(n == 0 || event.bytes == taken, "%u for %u", event.bytes, taken);
		taken += (uint32_t)n;
	}
	pthread_join(other, NULL);
}

/* A counter or a length beyond what there is stays within the queue's own memory. The worker cuts the length. */
Test(direct, numbers_beyond_the_queue_do_no_harm)
{
	post(0, 8);
	complete(0xffff, UINT32_MAX);
	expect_packet(7, UINT32_MAX);
}

/* ---- errors -------------------------------------------------------------------------------------- */

static void expect_error(uint32_t slot, enum backend_status status)
{
	struct backend_event event;

	cr_assert(eq(int, poll_one(&event), 1));
	cr_expect(eq(u32, event.slot, slot));
	cr_expect(eq(u32, event.status, status));
	cr_expect(eq(u64, event.bytes | event.timestamp_raw, 0));
}

Test(direct, a_packet_that_is_too_long_leaves_the_queue_as_it_is)
{
	struct backend_event event;

	post(0, 8);
	fail(0, ERROR(LOCAL_LENGTH_ERR));
	complete(1, 60);
	expect_error(0, BACKEND_LENGTH_ERROR);
	expect_packet(1, 60);
	cr_expect(eq(int, poll_one(&event), 0));
	cr_expect(eq(ptr, (void *)queue->error, NULL));
}

Test(direct, other_errors_fail_the_queue_after_what_is_flushed)
{
	struct backend_event event;

	post(0, 8);
	fail(0, ERROR(LOCAL_PROT_ERR));
	fail(1, ERROR(WR_FLUSH_ERR));
	expect_error(0, BACKEND_SLOT_ERROR);
	expect_error(1, BACKEND_FLUSHED);
	cr_expect(eq(int, poll_one(&event), -EIO));
	cr_expect(eq(str, (char *)queue->error, (char *)ibv_wc_status_str(IBV_WC_LOC_PROT_ERR)));
}

Test(direct, what_no_receive_queue_completes_with_fails_it)
{
	static const int opcodes[] = {MLX5_CQE_REQ, MLX5_CQE_RESIZE_CQ, MLX5_CQE_NO_PACKET, MLX5_CQE_SIG_ERR};
	struct backend_event event;

	post(0, 8);
	for (uint16_t i = 0; i < 4; i++) {
		complete(i, 60);
		n_completed--;
		own(opcodes[i]);
		expect_error(i, BACKEND_SLOT_ERROR);
	}
	complete(4, 60);
	cqes[4].op_own |= 0xc; /* compressed */
	expect_error(4, BACKEND_SLOT_ERROR);
	fail(5, 0x77);
	expect_error(5, BACKEND_SLOT_ERROR);
	cr_expect(eq(int, poll_one(&event), -EIO));
	cr_expect(eq(str, (char *)queue->error, (char *)ibv_wc_status_str(IBV_WC_GENERAL_ERR)));
}

Test(direct, after_a_reset_old_completions_are_gone_and_counts_begin_at_0)
{
	struct backend_event event;

	cr_assert(eq(int, queue->ops->start(queue), 0));
	post(0, 8);
	fail(0, ERROR(LOCAL_QP_OP_ERR));
	for (uint16_t i = 1; i < 8; i++)
		fail(i, ERROR(WR_FLUSH_ERR));
	expect_error(0, BACKEND_SLOT_ERROR);
	cr_assert(eq(int, queue->ops->reset(queue), 0));
	cr_expect(eq(int, last_state, IBV_QPS_INIT));
	cr_expect(eq(u32, be32toh(cq_records[0]), 8));
	cr_expect(eq(int, poll_one(&event), 0));
	cr_expect(eq(int, post(30, 9), 8));
	cr_expect(eq(u32, receive_records[0], 0));
	expect_entry(0, 30);
	cr_assert(eq(int, queue->ops->start(queue), 0));
	cr_expect(eq(u32, be32toh(receive_records[0]), 8));
	complete(0, 60);
	expect_packet(30, 60);
}

/* ---- events and set-up --------------------------------------------------------------------------- */

Test(direct, arming_tells_the_device_what_was_taken_and_which_event_is_meant)
{
	cr_expect(eq(int, queue->ops->arm(queue), -ENOTSUP));
	receive->queue.channel = &channel;
	receive->queue.n_cq_events = 6;
	post(0, 8);
	for (uint16_t i = 0; i < 3; i++) {
		complete(i, 60);
		expect_packet(i, 60);
	}
	cr_assert(eq(int, queue->ops->arm(queue), 0));
	cr_expect(eq(u32, be32toh(cq_records[1]), 2u << 28 | 3));
	cr_expect(eq(u64, be64toh(registers[MLX5_CQ_DOORBELL / 8]), (UINT64_C(2) << 28 | 3) << 32 | CQN));
}

static void expect_refused(void)
{
	struct failure failure = {0};

	free(receive);
	cr_expect(eq(int, make(&failure), -EPROTO));
	cr_expect(ne(ptr, strstr(failure.text, "set direct = false"), NULL), "%s", failure.text);
}

Test(direct, a_layout_that_is_not_known_is_refused)
{
	cqe_size = 128;
	expect_refused();
	cqe_size = 64;
	stride = 2 * sizeof(entries[0][0]);
	expect_refused();
}

Test(direct, tells_which_checksums_the_card_has_found_right_if_it_is_asked)
{
	static const struct {
		uint8_t checked;
		uint8_t flags;
	} cases[] = {
		{0, 0},
		{MLX5_CQE_L3_OK, 0},
		{MLX5_CQE_L4_OK, 0},
		{MLX5_CQE_L3_OK | MLX5_CQE_L4_OK | 1, BACKEND_EVENT_CHECKSUM_GOOD},
	};
	const size_t n = sizeof(cases) / sizeof(cases[0]);
	struct backend_event event;

	receive->has_more = true;
	cr_assert(eq(int, queue->ops->start(queue), 0));
	cr_assert(eq(int, post(0, N_ENTRIES), N_ENTRIES));
	for (uint16_t i = 0; i < 2 * n; i++) {
		struct mlx5_cqe64 *cqe = next_cqe();

		queue->checks_checksums = i < n;
		complete(i, 60);
		cqe->hds_ip_ext = cases[i % n].checked;
		cr_assert(eq(int, poll_one(&event), 1));
		cr_expect(eq(u8, event.flags, i < n ? cases[i].flags : 0), "case %u", i);
		cr_expect(eq(u32, event.tag, n_completed - 1));
	}
}
