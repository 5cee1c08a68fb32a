// SPDX-License-Identifier: Apache-2.0
/* The arithmetic of the rings that AF_XDP sockets share with the kernel: indices that wrap, packets in pieces. */
#include "daemon/backend/xdp/xdp_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define SIZE 8

static struct xdp_desc descriptors[SIZE];
static uint64_t addresses[SIZE];
static uint32_t producer, consumer, flags;

static struct xdp_ring ring_at(uint32_t index, void *entries)
{
	producer = consumer = index;
	return (struct xdp_ring){
		.producer = &producer,
		.consumer = &consumer,
		.flags = &flags,
		.entries = entries,
		.mask = SIZE - 1,
		.next = index,
		.ready = index,
	};
}

/* What the kernel does for a packet of n descriptors. */
static void arrive(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		descriptors[producer++ & (SIZE - 1)].options = i + 1 < n ? XDP_PKT_CONTD : 0;
}

static uint32_t take(struct xdp_ring *ring)
{
	uint32_t n = xdp_ring_next_packet(ring);

	ring->next += n;
	xdp_ring_release(ring);
	return n;
}

Test(xdp_ring, packets_of_several_descriptors_are_taken_whole)
{
	struct xdp_ring ring = ring_at(0, descriptors);

	cr_expect(eq(u32, take(&ring), 0));
	arrive(1);
	arrive(3);
	arrive(2);
	cr_expect(eq(u32, take(&ring), 1));
	cr_expect(eq(u32, take(&ring), 3));
	cr_expect(not(xdp_ring_is_empty(&ring)));
	cr_expect(eq(u32, take(&ring), 2));
	cr_expect(eq(u32, take(&ring), 0));
	cr_expect(xdp_ring_is_empty(&ring));
}

Test(xdp_ring, half_a_packet_stays_until_the_rest_is_there)
{
	struct xdp_ring ring = ring_at(0, descriptors);

	arrive(1);
	arrive(4);
	producer -= 2;
	cr_expect(eq(u32, take(&ring), 1));
	cr_expect(eq(u32, take(&ring), 0));
	cr_expect(eq(u32, consumer, 1));
	producer += 2;
	cr_expect(eq(u32, take(&ring), 4));
}

Test(xdp_ring, indices_wrap_at_32_bits_and_at_the_end_of_the_ring)
{
	struct xdp_ring ring = ring_at(UINT32_MAX - 4, descriptors);

	for (int i = 0; i < 10; i++) {
		arrive(1);
		arrive(5);
		cr_expect(eq(u32, take(&ring), 1));
		cr_expect(eq(u32, take(&ring), 5));
		cr_expect(eq(u32, take(&ring), 0));
	}
	cr_expect(eq(u32, consumer, 55));
}

Test(xdp_ring, frames_are_written_where_the_kernel_will_look)
{
	struct xdp_ring ring = ring_at(UINT32_MAX - 1, addresses);
	const uint64_t frames[] = {4096, 8192, 12288, 16384};

	xdp_ring_add_frames(&ring, frames, 4);
	cr_expect(eq(u32, producer, 2));
	for (uint32_t i = 0; i < 4; i++)
		cr_expect(eq(u64, addresses[(UINT32_MAX - 1 + i) & (SIZE - 1)], frames[i]));
	cr_expect(not(xdp_ring_needs_wakeup(&ring)));
	flags = XDP_RING_NEED_WAKEUP;
	cr_expect(xdp_ring_needs_wakeup(&ring));
}
