// SPDX-License-Identifier: Apache-2.0
/* What a handle says of its mappings, and that it says so before each of them goes. */
#include "tests/unit/ibvcap/several_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define GONE_MAX 32

static struct ibvcap_rx_memory gone[GONE_MAX];
static unsigned n_gone;

/* The mapping is there still. */
static void note_unmap(void *context, const struct ibvcap_rx_memory *memory)
{
	cr_expect(eq(ptr, context, &n_gone));
	cr_expect(zero(int, msync((void *)memory->address, memory->bytes, MS_ASYNC)), "it has gone already");
	gone[n_gone++ % GONE_MAX] = *memory;
}

static uint32_t describe(struct ibvcap_rx_memory *memories)
{
	uint32_t n = 0;

	memories[0] = (struct ibvcap_rx_memory)IBVCAP_INIT(struct ibvcap_rx_memory);
	while (ibvcap_rx_memory(rx, n, &memories[n]) == 1) {
		n++;
		memories[n] = (struct ibvcap_rx_memory)IBVCAP_INIT(struct ibvcap_rx_memory);
	}
	return n;
}

static void begin(void)
{
	n_gone = 0;
	set_up_queues();
}

TestSuite(rx_memory, .init = begin, .fini = tear_down_queues, .timeout = 30);

static bool has(const struct ibvcap_rx_memory *memory, const void *address)
{
	uintptr_t start = (uintptr_t)memory->address;

	return (uintptr_t)address >= start && (uintptr_t)address < start + memory->bytes;
}

static void expect_gone(const struct ibvcap_rx_memory *memories, uint32_t n)
{
	cr_assert(eq(uint, n_gone, n));
	for (uint32_t i = 0; i < n; i++) {
		cr_expect(eq(u64, gone[i].generation, memories[i].generation));
		cr_expect(eq(ptr, (void *)gone[i].address, (void *)memories[i].address));
		cr_expect(eq(u32, gone[i].kind, memories[i].kind));
		cr_expect(eq(u64, gone[i].epoch, memories[i].epoch));
	}
}

Test(rx_memory, each_queue_has_three_mappings_and_its_batches_point_into_them)
{
	struct ibvcap_rx_memory memories[GONE_MAX];

	open_all_queues(queues, 2, NULL);
	cr_assert(eq(u32, describe(memories), 6));
	for (uint32_t i = 0; i < 6; i++) {
		cr_expect(eq(u32, memories[i].queue, i / 3));
		cr_expect(eq(u32, memories[i].kind, i % 3));
		cr_expect(eq(u64, memories[i].epoch, EPOCH));
		cr_expect(eq(u32, memories[i].page_bytes, 4096));
		for (uint32_t k = 0; k < i; k++)
			cr_expect(ne(u64, memories[i].generation, memories[k].generation));
	}
	cr_expect(eq(u64, memories[3].bytes, queues[1].ring.payload.bytes));
	cr_expect(eq(u64, memories[4].bytes, queues[1].ring.headers.bytes));
	cr_expect(eq(u64, memories[5].bytes, queues[1].ring.ring_shm.bytes));
	attached_publish(&queues[1], 5);
	cr_assert(eq(int, take(N), 5));
	cr_expect(has(&memories[3], batch.payload));
	cr_expect(has(&memories[4], batch.headers));
	cr_expect(has(&memories[5], batch.meta));
	cr_expect(zero(int, ibvcap_rx_release(rx, &batch)));
	memories[0].size = 0;
	cr_expect(eq(int, ibvcap_rx_memory(rx, 0, memories), -EINVAL));
}

Test(rx_memory, all_go_before_the_next_epoch_and_the_new_ones_have_other_generations)
{
	struct ibvcap_rx_memory before[GONE_MAX], after[GONE_MAX];

	open_all_queues(queues, 2, NULL);
	cr_assert(eq(u32, describe(before), 6));
	cr_assert(zero(int, ibvcap_rx_on_unmap(rx, note_unmap, &n_gone)));
	attached_publish(&queues[0], 5);
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_STOPPED);
	rx_ring_close(&queues[1].ring, IBVCAP_RING_END_STOPPED);
	cr_assert(eq(int, take(N), 5));
	cr_assert(eq(int, ibvcap_rx_acquire(rx, &(struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch), N, 1, 0),
	             -ENOBUFS));
	cr_expect(eq(uint, n_gone, 3), "of the queue without batches");
	cr_expect(eq(u32, gone[0].queue, 1));
	cr_expect(zero(int, ibvcap_rx_release(rx, &batch)));
	cr_assert(zero(int, take(N)));
	cr_assert(eq(uint, n_gone, 6));
	cr_expect(zero(u32, describe(after)));
	answer_requests(next_queues, 2, EPOCH + 1, 2);
	cr_assert(zero(int, take(N)));
	cr_assert(eq(u32, describe(after), 6));
	for (uint32_t i = 0; i < 36; i++)
		cr_expect(ne(u64, after[i / 6].generation, before[i % 6].generation));
	cr_expect(eq(u64, after[0].epoch, EPOCH + 1));
}

Test(rx_memory, a_queue_that_the_group_recalls_goes_with_its_last_batch)
{
	struct ibvcap_rx_memory memories[GONE_MAX];

	join(2);
	give(&queues[0], 0, 2, EPOCH);
	expect_next_request(2);
	cr_assert(zero(int, ibvcap_rx_on_unmap(rx, note_unmap, &n_gone)));
	cr_assert(eq(u32, describe(memories), 3));
	attached_publish(&queues[0], 5);
	cr_assert(eq(int, take(5), 5));
	recall(&queues[0]);
	cr_assert(zero(int, take(5)));
	cr_expect(zero(uint, n_gone));
	cr_assert(zero(int, ibvcap_rx_release(rx, &batch)));
	expect_gone(memories, 3);
}

Test(rx_memory, a_queue_that_has_failed_goes_alone)
{
	struct ibvcap_rx_memory memories[GONE_MAX];

	open_all_queues(queues, 2, NULL);
	cr_assert(zero(int, ibvcap_rx_on_unmap(rx, note_unmap, &n_gone)));
	cr_assert(eq(u32, describe(memories), 6));
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_FAILED);
	cr_assert(zero(int, take(N)));
	expect_gone(memories, 3);
	cr_expect(eq(u32, describe(memories), 3));
	cr_expect(eq(u32, memories[0].queue, 1));
}

Test(rx_memory, they_go_when_the_handle_is_closed_but_not_in_a_child)
{
	struct ibvcap_rx_memory memories[GONE_MAX];
	int status;
	pid_t child;

	open_all_queues(queues, 2, NULL);
	cr_assert(zero(int, ibvcap_rx_on_unmap(rx, note_unmap, &n_gone)));
	cr_assert(eq(u32, describe(memories), 6));
	child = fork();
	if (child == 0) {
		ibvcap_rx_close(rx);
		_exit((int)n_gone);
	}
	waitpid(child, &status, 0);
	cr_expect(zero(int, status));
	ibvcap_rx_close(rx);
	rx = NULL;
	expect_gone(memories, 6);
}

Test(rx_memory, one_function_at_a_time_is_called)
{
	open_all_queues(queues, 1, NULL);
	cr_assert(zero(int, ibvcap_rx_on_unmap(rx, note_unmap, &n_gone)));
	cr_expect(eq(int, ibvcap_rx_on_unmap(rx, note_unmap, NULL), -EBUSY));
	cr_expect(zero(int, ibvcap_rx_on_unmap(rx, NULL, NULL)));
	rx_ring_close(&queues[0].ring, IBVCAP_RING_END_STOPPED);
	cr_assert(zero(int, take(N)));
	cr_expect(zero(uint, n_gone));
	cr_expect(zero(int, ibvcap_rx_on_unmap(rx, note_unmap, &n_gone)));
}
