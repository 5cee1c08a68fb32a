// SPDX-License-Identifier: Apache-2.0
/* How frames of a packet socket's ring become rows and events. */
#include "tests/unit/backend/packet_ring.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 42u
#define SLOT_BYTES   100u
#define SLOTS        8u

static struct af_packet backend;
static struct af_packet_receive receive;
static uint8_t payload[SLOTS][SLOT_BYTES], headers[SLOTS][64];
static uint8_t bytes[2048]; /* of a frame */
static struct backend_event events[SLOTS + 1];

static void make_queue(bool oversize_sink)
{
	struct backend_queue_options options = ring_queue_options(SLOTS, HEADER_BYTES, SLOT_BYTES);

	options.oversize_sink = oversize_sink;
	posted_rows_deinit(&receive.rows);
	cr_assert(eq(int, posted_rows_init(&receive.rows, &options), 0));
}

static void set_up(void)
{
	backend = (struct af_packet){.has_ethernet = true};
	receive = (struct af_packet_receive){.queue = {.base.ops = &af_packet_ops, .backend = &backend, .fd = -1},
	                                     .timestamps = true,
	                                     .has_lengths = true};
	make_ring(&receive.ring);
	make_queue(false);
	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 7);
	memset(payload, 0xee, sizeof(payload));
	memset(headers, 0xee, sizeof(headers));
}

static void tear_down(void)
{
	posted_rows_deinit(&receive.rows);
	flow_tags_free(receive.tags);
}

TestSuite(af_packet_receive, .init = set_up, .fini = tear_down);

static int post(uint32_t slot, uint32_t n)
{
	const struct backend_run run = {slot, n, payload[slot], headers[slot]};

	return af_packet_post(&receive.queue.base, &run);
}

static int poll_for(uint32_t max)
{
	return af_packet_poll(&receive.queue.base, events, max);
}

static void put(struct ring_frame frame)
{
	frame.bytes = bytes;
	put_frame(&frame);
}

/* One frame in one slot. */
static void receive_one(struct ring_frame frame)
{
	cr_assert(eq(int, post(0, 1), 1));
	put(frame);
	cr_assert(eq(int, poll_for(SLOTS), 1));
	cr_expect(eq(u32, events[0].slot, 0));
}

static void expect_event(uint32_t n_bytes, enum backend_status status)
{
	cr_expect(eq(u32, events[0].bytes, n_bytes));
	cr_expect(eq(uint, events[0].status, status));
}

/* Byte i of what is in row 0, headers and payload. */
static uint8_t row_byte(uint32_t slot, uint32_t i)
{
	return i < HEADER_BYTES ? headers[slot][i] : payload[slot][i - HEADER_BYTES];
}

static void expect_row(uint32_t from, const uint8_t *wanted, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		cr_assert(eq(u8, row_byte(0, from + i), wanted[i]), "byte %u", from + i);
}

/* ---- rows and slots --------------------------------------------------------------------------------- */

Test(af_packet_receive, a_frame_goes_to_the_header_row_and_the_payload_row)
{
	receive_one((struct ring_frame){.snaplen = 90, .seconds = 3, .nanoseconds = 4});
	expect_event(90, BACKEND_OK);
	cr_expect(eq(u64, events[0].timestamp_raw, UINT64_C(3000000004)));
	cr_expect(eq(u32, events[0].tag, 0));
	expect_row(0, bytes, 90);
	cr_expect(eq(u8, headers[0][HEADER_BYTES], 0xee), "no byte beside the rows");
	cr_expect(eq(u8, payload[0][90 - HEADER_BYTES], 0xee));
	cr_expect(is_kernels(0), "its slot goes back");
}

Test(af_packet_receive, without_timestamps_events_have_none)
{
	receive.timestamps = false;
	receive_one((struct ring_frame){.snaplen = 90, .seconds = 3, .nanoseconds = 4});
	cr_expect(eq(u64, events[0].timestamp_raw, 0));
}

Test(af_packet_receive, frames_fill_the_slots_in_the_order_of_posting_and_the_rest_waits)
{
	cr_expect(eq(int, poll_for(SLOTS), 0), "neither a slot nor a frame");
	cr_assert(eq(int, post(4, 2), 2));
	cr_assert(eq(int, post(1, 1), 1));
	cr_expect(eq(int, poll_for(SLOTS), 0), "no frame");
	for (uint32_t i = 0; i < 5; i++)
		put_frame(&(struct ring_frame){.bytes = bytes + i, .snaplen = 60 + i});
	cr_assert(eq(int, poll_for(2), 2));
	cr_expect(eq(u32, events[0].slot, 4));
	cr_expect(eq(u32, events[1].slot, 5));
	cr_assert(eq(int, poll_for(SLOTS), 1));
	cr_expect(eq(u32, events[0].slot, 1));
	cr_expect(eq(u32, events[0].bytes, 62));
	cr_expect(eq(int, poll_for(SLOTS), 0), "no slot");
	cr_expect(eq(u32, n_slots_held(), 2), "the other frames stay in the kernel's ring");
	cr_assert(eq(int, post(0, 3), 3));
	cr_assert(eq(int, poll_for(SLOTS), 2));
	cr_expect(eq(u32, events[1].bytes, 64));
	cr_expect(eq(u8, row_byte(1, 0), bytes[4]));
	cr_expect(eq(u32, n_slots_held(), 0));
}

Test(af_packet_receive, after_a_reset_no_slot_is_posted)
{
	cr_assert(eq(int, post(0, 3), 3));
	cr_expect(eq(int, af_packet_receive_reset(&receive.queue.base), 0));
	put((struct ring_frame){.snaplen = 60});
	cr_expect(eq(int, poll_for(SLOTS), 0));
	cr_assert(eq(int, post(2, 1), 1));
	cr_assert(eq(int, poll_for(SLOTS), 1));
	cr_expect(eq(u32, events[0].slot, 2));
}

/* ---- what the kernel cut off ------------------------------------------------------------------------ */

Test(af_packet_receive, a_frame_that_fills_its_row_is_whole_and_one_byte_more_is_too_long)
{
	receive_one((struct ring_frame){.snaplen = HEADER_BYTES + SLOT_BYTES});
	expect_event(HEADER_BYTES + SLOT_BYTES, BACKEND_OK);
	expect_row(0, bytes, HEADER_BYTES + SLOT_BYTES);
	receive_one((struct ring_frame){.snaplen = HEADER_BYTES + SLOT_BYTES + 1});
	expect_event(0, BACKEND_LENGTH_ERROR);
	make_queue(true);
	receive_one((struct ring_frame){.snaplen = HEADER_BYTES + SLOT_BYTES + 1});
	expect_event(HEADER_BYTES + SLOT_BYTES + 1, BACKEND_OK);
}

Test(af_packet_receive, a_frame_that_the_kernel_cut_is_an_error_unless_its_row_is_full)
{
	make_queue(true);
	receive_one((struct ring_frame){.snaplen = 100, .len = 101});
	expect_event(0, BACKEND_LENGTH_ERROR);
	receive_one((struct ring_frame){.snaplen = HEADER_BYTES + SLOT_BYTES - 1, .len = 2000});
	expect_event(0, BACKEND_LENGTH_ERROR);
	receive_one((struct ring_frame){.snaplen = HEADER_BYTES + SLOT_BYTES, .len = 2000});
	expect_event(2000, BACKEND_OK);
}

/* ---- flags ------------------------------------------------------------------------------------------ */

Test(af_packet_receive, a_packet_without_the_cards_time_says_so_if_the_others_have_it)
{
	receive.flag_of_kernel_time = BACKEND_EVENT_KERNEL_TIME;
	receive_one((struct ring_frame){.snaplen = 60, .status = TP_STATUS_CSUM_VALID | TP_STATUS_TS_SOFTWARE});
	cr_expect(eq(u8, events[0].flags, BACKEND_EVENT_KERNEL_TIME));
	receive_one((struct ring_frame){.snaplen = 60, .status = TP_STATUS_TS_RAW_HARDWARE});
	cr_expect(eq(u8, events[0].flags, 0));
}

/* ---- VLAN tags --------------------------------------------------------------------------------------- */

static void expect_tag(uint16_t tpid, uint16_t tci)
{
	const uint8_t tag[4] = {(uint8_t)(tpid >> 8), (uint8_t)tpid, (uint8_t)(tci >> 8), (uint8_t)tci};

	expect_event(84, BACKEND_OK);
	expect_row(0, bytes, 12);
	expect_row(12, tag, 4);
	expect_row(16, bytes + 12, 68);
}

Test(af_packet_receive, the_vlan_tag_that_the_kernel_took_out_is_put_back)
{
	receive_one((struct ring_frame){.snaplen = 80,
	                                .status = TP_STATUS_VLAN_VALID | TP_STATUS_VLAN_TPID_VALID,
	                                .tpid = 0x88a8,
	                                .tci = 0x6123});
	expect_tag(0x88a8, 0x6123);
	receive_one((struct ring_frame){.snaplen = 80, .status = TP_STATUS_VLAN_VALID, .tpid = 0x88a8, .tci = 0x0005});
	expect_tag(0x8100, 0x0005);
}

Test(af_packet_receive, behind_a_tag_that_is_put_back_comes_the_rest_of_the_frame_and_no_more)
{
	make_queue(true);
	receive_one((struct ring_frame){.snaplen = 80, .status = TP_STATUS_VLAN_VALID, .tci = 5});
	cr_expect(eq(u8, row_byte(0, 83), bytes[79]));
	cr_expect(eq(u8, row_byte(0, 84), 0xee));
	receive_one((struct ring_frame){.snaplen = 80, .len = 90, .status = TP_STATUS_VLAN_VALID, .tci = 5});
	expect_event(0, BACKEND_LENGTH_ERROR);
}

Test(af_packet_receive, a_frame_without_a_tag_gets_none)
{
	receive_one((struct ring_frame){.snaplen = 80, .status = TP_STATUS_VLAN_TPID_VALID, .tpid = 0x8100, .tci = 5});
	expect_event(80, BACKEND_OK);
	expect_row(0, bytes, 80);
}

Test(af_packet_receive, a_tag_needs_both_addresses_before_it)
{
	make_queue(true);
	receive_one((struct ring_frame){.snaplen = 12, .status = TP_STATUS_VLAN_VALID, .tci = 5});
	expect_event(16, BACKEND_OK);
	expect_row(12, (const uint8_t[]){0x81, 0, 0, 5}, 4);
	receive_one((struct ring_frame){.snaplen = 11, .status = TP_STATUS_VLAN_VALID, .tci = 5});
	expect_event(11, BACKEND_OK);
	expect_row(0, bytes, 11);
}

Test(af_packet_receive, a_tag_that_is_put_back_may_make_the_frame_too_long)
{
	receive_one((struct ring_frame){
		.snaplen = HEADER_BYTES + SLOT_BYTES - 3, .status = TP_STATUS_VLAN_VALID, .tci = 5});
	expect_event(0, BACKEND_LENGTH_ERROR);
	receive_one((struct ring_frame){
		.snaplen = HEADER_BYTES + SLOT_BYTES - 4, .status = TP_STATUS_VLAN_VALID, .tci = 5});
	expect_event(HEADER_BYTES + SLOT_BYTES, BACKEND_OK);
}

/* ---- interfaces without Ethernet headers ---------------------------------------------------------------- */

Test(af_packet_receive, a_bare_ip_packet_gets_an_ethernet_header_without_addresses)
{
	static const uint8_t made[2][14] = {{[12] = 0x08}, {[12] = 0x86, 0xdd}};

	backend.has_ethernet = false;
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		bytes[0] = ipv6 ? 0x60 : 0x45;
		receive_one((struct ring_frame){.snaplen = 50, .status = TP_STATUS_VLAN_VALID, .tci = 5});
		expect_event(64, BACKEND_OK);
		expect_row(0, made[ipv6], 14);
		expect_row(14, bytes, 50);
	}
}

/* GRE, for example. */
Test(af_packet_receive, the_tunnels_own_header_is_left_out)
{
	backend.has_ethernet = false;
	bytes[24] = 0x45;
	receive_one((struct ring_frame){.snaplen = 74, .net_at = 24});
	expect_event(64, BACKEND_OK);
	expect_row(12, (const uint8_t[]){0x08, 0}, 2);
	expect_row(14, bytes + 24, 50);
	receive_one((struct ring_frame){.snaplen = 74, .len = 75, .net_at = 24});
	expect_event(0, BACKEND_LENGTH_ERROR);
}
