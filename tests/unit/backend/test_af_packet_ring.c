// SPDX-License-Identifier: Apache-2.0
/* The order in which the frames and blocks of a packet socket's ring are read and given back. */
#include "tests/unit/backend/packet_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

static struct af_packet_ring ring;
static uint8_t n_put, n_read;

static void set_up(void)
{
	make_ring(&ring);
}

TestSuite(af_packet_ring, .init = set_up);

static void put(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		uint8_t bytes[100] = {n_put++};

		/* Frames of several lengths. */
		put_frame(&(struct ring_frame){.bytes = bytes, .snaplen = 20 + 7 * (i % 5)});
	}
}

static void expect_next(void)
{
	const struct tpacket3_hdr *frame = af_packet_ring_next(&ring);

	cr_assert(ne(ptr, (void *)frame, NULL));
	cr_expect(eq(ptr, (void *)af_packet_ring_next(&ring), (void *)frame), "it stays until it is released");
	cr_expect(eq(u8, ((const uint8_t *)frame)[frame->tp_mac], n_read++));
}

static void expect_frames(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		expect_next();
		af_packet_ring_release(&ring);
	}
}

Test(af_packet_ring, a_block_that_the_kernel_still_fills_is_not_read)
{
	put(2);
	cr_expect(eq(ptr, (void *)af_packet_ring_next(&ring), NULL));
	hand_block_over();
	expect_frames(2);
	cr_expect(eq(ptr, (void *)af_packet_ring_next(&ring), NULL));
}

Test(af_packet_ring, a_block_goes_back_with_its_last_frame_and_not_before)
{
	put(3);
	hand_block_over();
	put(1);
	hand_block_over();
	expect_frames(2);
	expect_next();
	cr_expect(not(is_kernels(0)));
	af_packet_ring_release(&ring);
	cr_expect(is_kernels(0));
	cr_expect(not(is_kernels(1)));
	expect_frames(1);
	cr_expect(is_kernels(1));
}

Test(af_packet_ring, the_first_block_follows_the_last_one)
{
	for (uint32_t round = 0; round < 3 * RING_N_BLOCKS + 1; round++) {
		put(round % 4 + 1);
		hand_block_over();
		expect_frames(round % 4 + 1);
		for (uint32_t block = 0; block < RING_N_BLOCKS; block++)
			cr_expect(is_kernels(block));
	}
	for (uint32_t i = 0; i < RING_N_BLOCKS; i++) { /* all of them at once */
		put(2);
		hand_block_over();
	}
	expect_frames(2 * RING_N_BLOCKS);
	cr_expect(eq(ptr, (void *)af_packet_ring_next(&ring), NULL));
}

/* The kernel hands a block over on time alone. */
Test(af_packet_ring, empty_blocks_are_given_back_and_passed_over)
{
	hand_block_over();
	hand_block_over();
	put(1);
	hand_block_over();
	expect_next();
	cr_expect(is_kernels(0));
	cr_expect(is_kernels(1));
	cr_expect(not(is_kernels(2)));
	af_packet_ring_release(&ring);
	cr_expect(is_kernels(2));
	hand_block_over();
	cr_expect(eq(ptr, (void *)af_packet_ring_next(&ring), NULL));
	cr_expect(is_kernels(0));
}
