// SPDX-License-Identifier: Apache-2.0
/* Packets in which the kernel joined several datagrams, and flows' tags: what the receive queue makes of both. */
#include "tests/unit/backend/packet_ring.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <netinet/in.h>
#include <string.h>

#define HEADER_BYTES 42u
#define SLOT_BYTES   1000u
#define SLOTS        8u
#define UDP_L4       5 /* VIRTIO_NET_HDR_GSO_UDP_L4 */
#define PORT         7502

static struct af_packet backend;
static struct af_packet_receive receive;
static uint8_t payload[SLOTS][SLOT_BYTES], headers[SLOTS][64];
static struct backend_event events[SLOTS];
static uint8_t bytes[2048];

/* UDP from 10.0.0.9 to 10.0.0.1:PORT, with a payload whose bytes count up. */
static void make_frame(void)
{
	memset(bytes, 0, sizeof(bytes));
	bytes[0] = 2;
	bytes[12] = 0x08;
	bytes[14] = 0x45;
	bytes[23] = IPPROTO_UDP;
	memcpy(bytes + 26, (const uint8_t[]){10, 0, 0, 9, 10, 0, 0, 1}, 8);
	bytes[36] = PORT >> 8;
	bytes[37] = PORT & 0xff;
	for (uint32_t i = 42; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i - 42);
}

static void set_up(void)
{
	const struct backend_queue_options options = ring_queue_options(SLOTS, HEADER_BYTES, SLOT_BYTES);

	backend = (struct af_packet){.has_ethernet = true};
	receive = (struct af_packet_receive){.queue = {.base.ops = &af_packet_ops, .backend = &backend, .fd = -1},
	                                     .has_lengths = true};
	make_ring(&receive.ring);
	cr_assert(eq(int, posted_rows_init(&receive.rows, &options), 0));
	make_frame();
}

static void tear_down(void)
{
	posted_rows_deinit(&receive.rows);
	flow_tags_free(receive.tags);
}

TestSuite(af_packet_joined, .init = set_up, .fini = tear_down);

static void post_all(void)
{
	const struct backend_run run = {0, SLOTS, payload[0], headers[0]};

	af_packet_receive_reset(&receive.queue.base);
	cr_assert(eq(int, af_packet_post(&receive.queue.base, &run), SLOTS));
}

/* 250 bytes of payload, joined out of datagrams of 100. */
static void put_joined(struct ring_frame frame)
{
	frame.bytes = bytes;
	frame.snaplen = 42 + 250;
	frame.net_at = 14;
	if (frame.lengths.gso_type == 0)
		frame.lengths.gso_type = UDP_L4;
	if (frame.lengths.gso_size == 0)
		frame.lengths.gso_size = 100;
	put_frame(&frame);
}

static int poll_for(uint32_t max)
{
	return af_packet_poll(&receive.queue.base, events, max);
}

static void expect_whole(uint32_t n_bytes)
{
	cr_assert(eq(int, poll_for(SLOTS), 1));
	cr_expect(eq(u32, events[0].bytes, n_bytes));
	cr_expect(eq(u64, atomic_load(&receive.queue.base.n_split), 0));
	cr_expect(eq(u32, n_slots_held(), 0));
}

Test(af_packet_joined, each_datagram_is_an_event_and_those_beyond_the_first_are_counted)
{
	post_all();
	put_joined((struct ring_frame){0});
	put_joined((struct ring_frame){0});
	cr_assert(eq(int, poll_for(SLOTS), 6));
	for (uint32_t i = 0; i < 6; i++) {
		cr_expect(eq(u32, events[i].slot, i));
		cr_expect(eq(u32, events[i].bytes, 42 + (i % 3 < 2 ? 100 : 50)));
		cr_expect(eq(uint, events[i].status, BACKEND_OK));
		cr_expect(eq(u8, payload[i][0], 100 * (i % 3)));
		cr_expect(eq(u8, headers[i][19], i % 3), "the IP identification");
	}
	cr_expect(eq(u64, atomic_load(&receive.queue.base.n_split), 4));
	cr_expect(eq(u32, n_slots_held(), 0));
}

Test(af_packet_joined, the_rest_of_a_joined_packet_waits_for_slots)
{
	const struct backend_run run = {0, 1, payload[0], headers[0]};

	put_joined((struct ring_frame){0});
	put_frame(&(struct ring_frame){.bytes = bytes, .snaplen = 60});
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert(eq(int, af_packet_post(&receive.queue.base, &run), 1));
		cr_assert(eq(int, poll_for(SLOTS), 1));
		cr_expect(eq(u8, payload[0][0], 100 * i));
	}
	cr_expect(eq(u32, n_slots_held(), 1));
	cr_assert(eq(int, af_packet_post(&receive.queue.base, &run), 1));
	cr_assert(eq(int, poll_for(SLOTS), 1));
	cr_expect(eq(u32, events[0].bytes, 60), "the next frame");
	cr_expect(eq(u64, atomic_load(&receive.queue.base.n_split), 2));
}

Test(af_packet_joined, one_datagram_that_is_marked_as_joined_is_one)
{
	post_all();
	put_joined((struct ring_frame){.lengths.gso_size = 250});
	expect_whole(292);
	cr_expect(eq(u8, payload[0][249], 249));
}

Test(af_packet_joined, other_packets_stay_as_they_are)
{
	post_all();
	put_joined((struct ring_frame){.lengths.gso_type = VIRTIO_NET_HDR_GSO_UDP}); /* fragmentation */
	expect_whole(292);
	receive.has_lengths = false; /* then these bytes are something else */
	put_joined((struct ring_frame){0});
	expect_whole(292);
}

/* The kernel says that the header to cut behind is at 84, or that it is one of TCP, and there is none. */
Test(af_packet_joined, packets_that_cannot_be_cut_have_no_row_and_each_is_a_drop)
{
	post_all();
	put_joined((struct ring_frame){.lengths = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 84}});
	put_joined((struct ring_frame){.lengths.gso_type = VIRTIO_NET_HDR_GSO_TCPV4});
	put_frame(&(struct ring_frame){.bytes = bytes, .snaplen = 60});
	cr_assert(eq(int, poll_for(SLOTS), 1));
	cr_expect(eq(u32, events[0].bytes, 60));
	cr_expect(eq(u32, events[0].slot, 0));
	cr_expect(eq(u64, atomic_load(&receive.queue.base.n_dropped[BACKEND_DROP_MERGED]), 2 + 2));
	cr_expect(eq(u64, atomic_load(&receive.queue.base.n_split), 1 + 1));
	cr_expect(eq(u64, receive.queue.base.use.taken, 1));
	cr_expect(eq(u32, n_slots_held(), 0));
	put_joined((struct ring_frame){.lengths = {.csum_start = 84}}); /* without the flag it says nothing */
	cr_expect(eq(int, poll_for(SLOTS), 3));
}

Test(af_packet_joined, the_place_of_the_udp_header_is_counted_without_the_tag_that_is_put_back)
{
	const struct virtio_net_hdr lengths = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM, .csum_start = 34};

	post_all();
	put_joined((struct ring_frame){.lengths = lengths});
	cr_expect(eq(int, poll_for(SLOTS), 3));
	post_all();
	put_joined((struct ring_frame){.lengths = lengths, .status = TP_STATUS_VLAN_VALID, .tci = 9});
	cr_assert(eq(int, poll_for(SLOTS), 3));
	cr_expect(eq(u32, events[2].bytes, 46 + 50));
	cr_expect(eq(u8, headers[1][15], 9));
}

Test(af_packet_joined, datagrams_of_a_tunnels_interface_are_cut_too)
{
	post_all();
	backend.has_ethernet = false;
	put_joined((struct ring_frame){0});
	cr_assert(eq(int, poll_for(SLOTS), 3));
	cr_expect(eq(u32, events[0].bytes, 142));
}

/* ---- tags of flows ------------------------------------------------------------------------------------ */

static void add_tag(uint16_t vlan, uint32_t tag)
{
	struct flow_rule rule = {
		.family = AF_INET,
		.tag = tag,
		.value = {.destination = {10, 0, 0, 1}, .protocol = IPPROTO_UDP, .destination_port_be = htons(PORT)},
		.mask = {.destination = {0xff, 0xff, 0xff, 0xff}, .protocol = 0xff, .destination_port_be = 0xffff},
	};

	if (vlan) {
		rule.value.vlan_be = htons(vlan);
		rule.mask.vlan_be = htons(0x0fff);
	}
	if (!receive.tags)
		receive.tags = flow_tags_new();
	cr_assert(eq(int, flow_tags_add(receive.tags, &rule, backend.has_ethernet), 0));
}

static uint32_t tag_of(struct ring_frame frame)
{
	post_all();
	frame.bytes = bytes;
	frame.snaplen = 60;
	frame.net_at = 14;
	put_frame(&frame);
	cr_assert(eq(int, poll_for(SLOTS), 1));
	return events[0].tag;
}

Test(af_packet_joined, an_event_has_the_tag_of_the_flow_that_its_packet_matches)
{
	add_tag(0, 7);
	cr_expect(eq(u32, tag_of((struct ring_frame){0}), 7));
	bytes[37]++;
	cr_expect(eq(u32, tag_of((struct ring_frame){0}), 0));
}

Test(af_packet_joined, the_tag_that_the_kernel_took_out_is_compared)
{
	const uint32_t both = TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID;

	add_tag(5, 8);
	cr_expect(eq(u32, tag_of((struct ring_frame){0}), 0));
	cr_expect(eq(u32, tag_of((struct ring_frame){.status = both, .tpid = 0x8100, .tci = 0x6005}), 8));
	cr_expect(eq(u32, tag_of((struct ring_frame){.status = both, .tpid = 0x8100, .tci = 6}), 0));
	cr_expect(eq(u32, tag_of((struct ring_frame){.status = TP_STATUS_VLAN_VALID, .tci = 5}), 8));
	cr_expect(eq(u32, tag_of((struct ring_frame){.status = both, .tpid = 0x88a8, .tci = 5}), 0),
	          "a provider's tag is no VLAN");
	cr_expect(eq(u32, tag_of((struct ring_frame){.tpid = 0x8100, .tci = 5}), 0), "not valid");
}

Test(af_packet_joined, without_ethernet_headers_the_tag_is_found_by_the_ip_header)
{
	backend.has_ethernet = false;
	add_tag(0, 9);
	cr_expect(eq(u32, tag_of((struct ring_frame){0}), 9));
	bytes[33]++;
	cr_expect(eq(u32, tag_of((struct ring_frame){0}), 0));
}
