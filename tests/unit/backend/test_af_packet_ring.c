// SPDX-License-Identifier: Apache-2.0
/* The order in which the frames of a packet socket's ring are read, and their slots are given back. */
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
	const struct tpacket2_hdr *frame = af_packet_ring_next(&ring);

	cr_assert(ne(ptr, (void *)frame, NULL));
	cr_expect(eq(ptr, (void *)af_packet_ring_next(&ring), (void *)frame), "it stays until it is released");
	cr_expect(eq(u8, ((const uint8_t *)frame)[frame->tp_mac], n_read++));
}

static void expect_none(void)
{
	cr_expect(eq(ptr, (void *)af_packet_ring_next(&ring), NULL));
}

static void expect_frames(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		expect_next();
		af_packet_ring_release(&ring);
	}
}

/* The kernel writes the other bits of the status with the last one. */
Test(af_packet_ring, a_frame_is_there_when_its_status_says_so)
{
	uint8_t bytes[60] = {n_put++};
	struct tpacket2_hdr *header =
		write_frame(&(struct ring_frame){.bytes = bytes, .snaplen = 60, .status = TP_STATUS_CSUM_VALID});

	put(1);
	expect_none();
	header->tp_status |= TP_STATUS_USER;
	expect_frames(2);
	expect_none();
}

Test(af_packet_ring, each_slot_goes_back_with_its_frame_and_not_before)
{
	put(3);
	expect_next();
	cr_expect(eq(u32, n_slots_held(), 3));
	for (uint32_t slot = 0; slot < 3; slot++) {
		cr_expect(not(is_kernels(slot)));
		af_packet_ring_release(&ring);
		cr_expect(is_kernels(slot));
		cr_expect(eq(u32, n_slots_held(), 2 - slot));
	}
	expect_none();
}

Test(af_packet_ring, the_first_slot_follows_the_last_one_and_no_rest_of_a_block_is_read)
{
	for (uint32_t round = 0; round < 3 * RING_N_SLOTS + 1; round++) {
		put(round % 7 + 1);
		expect_frames(round % 7 + 1);
		expect_none();
	}
}

Test(af_packet_ring, all_slots_of_a_full_ring_are_read)
{
	put(5); /* the ring does not begin with its first slot */
	expect_frames(5);
	for (uint32_t round = 0; round < 3; round++) {
		put(RING_N_SLOTS);
		cr_expect(eq(u32, n_slots_held(), RING_N_SLOTS));
		expect_frames(RING_N_SLOTS);
		expect_none();
	}
}
