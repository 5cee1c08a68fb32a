// SPDX-License-Identifier: Apache-2.0
/* Compressed completions, read back as mlx5_core (en_rx.c) and DPDK (mlx5_rx.c) read them. */
#include "device/cq.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <string.h>

#define N_CQE 128u

static unsigned int n_errors;

static void error(struct cq *of)
{
	(void)of;
	n_errors++;
}

static const struct device_events events = {.cq_error = error};
static struct device device;
static uint32_t dbrec[2];
static uint8_t entries[N_CQE * 64];
static struct cq cq;
static uint32_t reader; /* the program's index */
static uint16_t n_posted;

static void set_up(void)
{
	memset(&device, 0, sizeof(device));
	device.events = &events;
	TAILQ_INIT(&device.armed_later);
	dbrec[HW_DBR_CQ_CONSUMER] = 0;
	dbrec[HW_DBR_CQ_ARM] = CQ_NEVER_ARMED;
	cq = (struct cq){.device = &device,
	                 .buf = entries,
	                 .cqe_bytes = 64,
	                 .n_cqe = N_CQE,
	                 .dbrec = dbrec,
	                 .max_compressed = 64};
	memset(entries, HW_CQE_INVALID << 4, sizeof(entries)); /* as libmlx5 leaves it */
	cq_init(&cq);
	reader = n_posted = 0;
	n_errors = 0;
}

static void receive_tagged(uint32_t bytes, uint32_t tag)
{
	struct hw_cqe *cqe = cq_next(&cq);

	cr_assert_not_null(cqe);
	memset(cqe, 0, offsetof(struct hw_cqe, op_own));
	cqe->rx_hash_be = htobe32(bytes * 3);
	cqe->check_sum = (uint16_t)(bytes * 5);
	cqe->byte_cnt_be = htobe32(bytes);
	cqe->timestamp_be = htobe64(bytes);
	cqe->sop_drop_qpn_be = htobe32(tag);
	cqe->wqe_counter_be = htobe16(n_posted++);
	cq_post(&cq, cqe, HW_CQE_RESP_SEND);
}

static void receive(uint32_t first_bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		receive_tagged(first_bytes + i, 7);
}

/* Returns how many completions the next block has; 1: an entry of its own; 0: there is none. They must have the lengths
 * from `first_bytes` on. */
static uint32_t read_block(uint32_t first_bytes)
{
	struct hw_cqe *title = cq_entry(&cq, reader);
	uint32_t n = 1, array = reader + 1;

	if (title->op_own >> 4 == HW_CQE_INVALID || (title->op_own & 1) != !!(reader & N_CQE))
		return 0;
	if ((title->op_own & HW_CQE_COMPRESSED) != HW_CQE_COMPRESSED) {
		cr_assert_eq(be32toh(title->byte_cnt_be), first_bytes);
	} else {
		n = be32toh(title->byte_cnt_be);
		cr_assert_geq(n, 2);
		cr_assert_leq((reader & (N_CQE - 1)) + n, N_CQE);
		cr_assert_eq(be64toh(title->timestamp_be), first_bytes);
	}
	for (uint32_t i = 0; n > 1 && i < n; i++) {
		if (i && i % HW_MINI_ARRAY == 0)
			array = reader + i;
		const struct hw_mini_cqe *mini = (const void *)cq_entry(&cq, array);
		uint32_t bytes = first_bytes + i;

		mini += i % HW_MINI_ARRAY;
		cr_assert_eq(be32toh(mini->byte_cnt_be), bytes, "%u of %u", i, n);
		if (cq.mini_format == HW_MINI_HASH)
			cr_assert_eq(be32toh(mini->rx_hash_be), bytes * 3);
		else
			cr_assert_eq(mini->check_sum, (uint16_t)(bytes * 5));
	}
	for (uint32_t i = 0; i < n; i++)
		cq_entry(&cq, reader + i)->op_own = HW_CQE_INVALID << 4;
	reader += n;
	dbrec[HW_DBR_CQ_CONSUMER] = htobe32(reader);
	return n;
}

TestSuite(cq_compress, .init = set_up);

Test(cq_compress, a_block_of_each_size)
{
	for (uint32_t format = HW_MINI_HASH; format <= HW_MINI_CSUM; format++)
		for (uint32_t n = 1; n <= 64; n++) {
			set_up();
			cq.mini_format = format;
			receive(100, n);
			cr_assert_eq(read_block(100), 0); /* the turn is not over */
			cq_events(&device);
			cr_assert_eq(read_block(100), n);
			cr_assert_eq(read_block(100), 0);
		}
}

Test(cq_compress, many_rounds)
{
	for (uint32_t turn = 0; turn < 200; turn++) {
		receive(1000, 1 + turn * 7 % 60);
		cq_events(&device);
		for (uint32_t bytes = 1000, n; (n = read_block(bytes));)
			bytes += n;
		cr_assert_eq(reader, cq.producer);
	}
}

Test(cq_compress, no_block_goes_beyond_the_end_of_the_buffer)
{
	receive(0, 60);
	cq_events(&device);
	cr_assert_eq(read_block(0), 60);
	receive(60, 60);
	cq_events(&device);
	cr_assert_eq(read_block(60), 60);
	receive(500, 20);
	cq_events(&device);
	cr_assert_eq(read_block(500), N_CQE - 120);
	cr_assert_eq(read_block(500 + N_CQE - 120), 20 - (N_CQE - 120));
}

Test(cq_compress, a_block_has_as_many_as_the_device_says)
{
	receive(0, 70);
	cr_assert_eq(read_block(0), 64); /* it does not wait for more */
	cr_assert_eq(read_block(64), 0);
	cq_events(&device);
	cr_assert_eq(read_block(64), 6);
}

Test(cq_compress, other_tags_are_another_block)
{
	receive_tagged(10, 1);
	receive_tagged(11, 1);
	receive_tagged(12, 2);
	receive_tagged(13, 2);
	receive_tagged(14, 3);
	cq_events(&device);
	cr_assert_eq(read_block(10), 2);
	cr_assert_eq(read_block(12), 2);
	cr_assert_eq(read_block(14), 1);
}

Test(cq_compress, work_requests_that_do_not_follow_each_other_are_another_block)
{
	receive(10, 2);
	n_posted = 100; /* of another queue, or one was in error */
	receive(12, 3);
	n_posted = UINT16_MAX;
	receive(15, 2);
	cq_events(&device);
	cr_assert_eq(read_block(10), 2);
	cr_assert_eq(read_block(12), 3);
	cr_assert_eq(read_block(15), 2);
}

Test(cq_compress, an_error_comes_in_its_place)
{
	receive(10, 3);
	cq_post_error(&cq, 0, 0x41, HW_CQE_RESP_ERR, n_posted++, HW_SYNDROME_LOCAL_LENGTH);
	receive(20, 2);
	cq_events(&device);
	cr_assert_eq(read_block(10), 3);
	cr_assert_eq(cq_entry(&cq, reader)->op_own, HW_CQE_RESP_ERR << 4);
	reader++;
	cr_assert_eq(read_block(20), 2);
}

Test(cq_compress, what_waits_counts_as_unread)
{
	receive(0, N_CQE);
	cr_assert_null(cq_next(&cq));
	cr_assert_eq(n_errors, 1);
	cq_events(&device); /* what came before the overrun can be read */
	cr_assert_eq(read_block(0), 64);
	cr_assert_eq(read_block(64), 64);
}
