// SPDX-License-Identifier: Apache-2.0
/*
 * Frames that are longer than their slot: the kernel puts each of them whole into the socket's receive queue, too. The
 * socket is one of a pair, and the test writes what the kernel would.
 */
#include "tests/unit/backend/packet_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADER_BYTES  42u
#define SLOT_BYTES    1000u
#define SLOTS         16u
#define UDP_L4        5 /* VIRTIO_NET_HDR_GSO_UDP_L4 */
#define SNAP_BYTES    200u
#define LENGTHS_BYTES ((uint32_t)sizeof(struct virtio_net_hdr))

static struct af_packet backend;
static struct af_packet_receive receive;
static int sockets[2];
static uint8_t payload[SLOTS][SLOT_BYTES], headers[SLOTS][64];
static struct backend_event events[SLOTS];
static uint8_t with_lengths[LENGTHS_BYTES + 4096], *const bytes = with_lengths + LENGTHS_BYTES;

static void set_up(void)
{
	const struct backend_queue_options options = ring_queue_options(SLOTS, HEADER_BYTES, SLOT_BYTES);

	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets), 0));
	backend = (struct af_packet){.has_ethernet = true};
	receive = (struct af_packet_receive){
		.queue = {.base.ops = &af_packet_ops, .backend = &backend, .fd = sockets[0]},
		.has_lengths = true,
		.whole = malloc(AF_PACKET_WHOLE_BYTES),
	};
	cr_assert(ne(ptr, receive.whole, NULL));
	make_ring(&receive.ring);
	cr_assert(eq(int, posted_rows_init(&receive.rows, &options), 0));
	bytes[12] = 0x08;
	bytes[14] = 0x45;
	bytes[23] = IPPROTO_UDP;
}

static void tear_down(void)
{
	posted_rows_deinit(&receive.rows);
	free(receive.whole);
	close(sockets[0]);
	close(sockets[1]);
}

TestSuite(af_packet_whole, .init = set_up, .fini = tear_down);

static void post(uint32_t n)
{
	const struct backend_run run = {0, n, payload[0], headers[0]};

	af_packet_receive_reset(&receive.queue.base);
	cr_assert(eq(int, af_packet_post(&receive.queue.base, &run), (int)n));
}

static void expect_events(int n)
{
	cr_assert(eq(int, af_packet_poll(&receive.queue.base, events, SLOTS), n));
}

/* All bytes of the payload are the number. In the ring is the begin of the frame only. */
static void put_in_ring(uint8_t number, uint32_t n_bytes, struct ring_frame frame)
{
	memset(bytes + HEADER_BYTES, number, n_bytes - HEADER_BYTES);
	frame.bytes = bytes;
	frame.snaplen = n_bytes < SNAP_BYTES ? n_bytes : SNAP_BYTES;
	frame.len = n_bytes;
	frame.net_at = 14;
	put_frame(&frame);
}

static void put_whole(uint8_t number, uint32_t n_bytes, struct ring_frame frame)
{
	frame.status |= TP_STATUS_COPY;
	put_in_ring(number, n_bytes, frame);
	cr_assert(
		eq(int, (int)write(sockets[1], with_lengths, LENGTHS_BYTES + n_bytes), (int)(LENGTHS_BYTES + n_bytes)));
}

static const struct ring_frame joined_of_400 = {.lengths = {.gso_type = UDP_L4, .gso_size = 400}};

static void expect_row(uint32_t i, uint8_t number, uint32_t n_payload)
{
	cr_expect(eq(uint, events[i].status, BACKEND_OK), "row %u", i);
	cr_expect(eq(u32, events[i].bytes, HEADER_BYTES + n_payload), "row %u", i);
	for (uint32_t byte = 0; byte < n_payload; byte++)
		cr_assert(eq(u8, payload[events[i].slot][byte], number), "row %u, byte %u", i, byte);
}

static bool socket_is_empty(void)
{
	uint8_t byte;

	return recv(sockets[0], &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
}

Test(af_packet_whole, each_frame_that_is_longer_than_its_slot_is_read_from_the_socket)
{
	post(SLOTS);
	put_whole(1, HEADER_BYTES + 900, (struct ring_frame){0});
	put_in_ring(2, 60, (struct ring_frame){0});
	put_whole(3, HEADER_BYTES + 1000, (struct ring_frame){0});
	expect_events(3);
	expect_row(0, 1, 900);
	expect_row(1, 2, 60 - HEADER_BYTES);
	expect_row(2, 3, 1000);
	cr_expect(socket_is_empty());
	cr_expect(eq(u32, n_slots_held(), 0));
}

Test(af_packet_whole, a_tag_that_the_kernel_took_out_is_put_back)
{
	post(SLOTS);
	put_whole(1, HEADER_BYTES + 900, (struct ring_frame){.status = TP_STATUS_VLAN_VALID, .tci = 5});
	expect_events(1);
	cr_expect(eq(u32, events[0].bytes, HEADER_BYTES + 904));
	cr_expect(eq(int, memcmp(headers[0] + 12, "\x81\x00\x00\x05\x08\x00", 6), 0));
	cr_expect(eq(u8, payload[0][903], 1));
}

Test(af_packet_whole, a_tunnels_frame_gets_its_ethernet_header)
{
	backend.has_ethernet = false;
	post(SLOTS);
	put_whole(1, HEADER_BYTES + 900, (struct ring_frame){0});
	expect_events(1);
	expect_row(0, 1, 900);
	cr_expect(eq(int, memcmp(headers[0], "\0\0\0\0\0\0\0\0\0\0\0\0\x08\0\x45", 15), 0));
}

Test(af_packet_whole, an_oversize_frame_is_taken_from_the_socket_too)
{
	post(SLOTS);
	put_whole(1, 3000, (struct ring_frame){0});
	put_whole(2, HEADER_BYTES + 900, (struct ring_frame){0});
	expect_events(2);
	cr_expect(eq(uint, events[0].status, BACKEND_LENGTH_ERROR));
	expect_row(1, 2, 900);
	cr_expect(socket_is_empty());
}

Test(af_packet_whole, one_reading_is_for_all_datagrams_of_a_joined_frame)
{
	put_whole(1, HEADER_BYTES + 1000, joined_of_400);
	put_whole(2, HEADER_BYTES + 700, joined_of_400);
	for (uint32_t i = 0; i < 5; i++) { /* a slot each: between two datagrams the frame stays in the ring */
		cr_expect(eq(int, socket_is_empty(), i > 3));
		cr_expect(eq(u32, n_slots_held(), i < 3 ? 2 : 1));
		post(1);
		expect_events(1);
		expect_row(0, i < 3 ? 1 : 2, (const uint32_t[]){400, 400, 200, 400, 300}[i]);
	}
	cr_expect(eq(u64, atomic_load(&receive.queue.base.n_split), 3));
	cr_expect(eq(u32, n_slots_held(), 0));
}

/* The socket's buffer was full: the kernel put nothing into it, and says so. */
Test(af_packet_whole, without_its_copy_a_frame_is_cut)
{
	post(SLOTS);
	put_in_ring(1, HEADER_BYTES + 900, (struct ring_frame){0});
	put_whole(2, HEADER_BYTES + 900, (struct ring_frame){0});
	expect_events(2);
	cr_expect(eq(uint, events[0].status, BACKEND_LENGTH_ERROR));
	expect_row(1, 2, 900);
}

Test(af_packet_whole, no_datagram_gets_bytes_of_the_frame_before)
{
	post(SLOTS);
	put_whole(1, HEADER_BYTES + 1000, joined_of_400);
	expect_events(3);
	put_in_ring(2, HEADER_BYTES + 1000,
	            (struct ring_frame){.status = TP_STATUS_COPY, .lengths = joined_of_400.lengths});
	expect_events(3);
	for (uint32_t i = 0; i < 3; i++) {
		cr_expect(eq(uint, events[i].status, BACKEND_LENGTH_ERROR));
		cr_expect(ne(u8, payload[events[i].slot][0], 1), "datagram %u", i);
	}
	cr_expect(eq(u32, n_slots_held(), 0));
}
