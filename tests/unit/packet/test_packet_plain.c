// SPDX-License-Identifier: Apache-2.0
/* Which frames are plain, and where the walk finds the payload of these and of others. */
#include "daemon/packet/packet_plain.h"
#include "lib/frame/frame.h"
#include "tests/support/frames.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <netinet/in.h>
#include <string.h>

static uint8_t frame[FRAME_BYTES_MAX];

/* Is the frame plain under the layout with that many bytes of headers? */
static bool is_plain(uint32_t header_bytes)
{
	struct packet_plain plain;

	cr_assert(packet_plain_init(&plain, header_bytes));
	return packet_is_plain(&plain, frame + plain.l3);
}

static uint32_t udp_length(uint32_t header_bytes)
{
	struct packet_plain plain;

	cr_assert(packet_plain_init(&plain, header_bytes));
	return packet_udp_length(&plain, frame + plain.l3);
}

static bool find_payload(const uint8_t *bytes, uint32_t n, struct frame *view)
{
	frame_walk(bytes, n, n, view);
	return view->end == FRAME_UDP || view->end == FRAME_LATER_FRAGMENT;
}

static struct frame parse(const struct frame_options *options)
{
	struct frame view;
	uint32_t bytes = frame_build(options, 0, frame);

	cr_assert(find_payload(frame, bytes, &view));
	return view;
}

Test(packet, a_plain_ipv4_frame_splits_at_42)
{
	const struct frame_options options = {.payload_bytes = 100};
	struct frame view = parse(&options);

	cr_expect(is_plain(42));
	cr_expect(eq(u32, view.payload_at, 42));
	cr_expect(eq(u32, view.payload_bytes, 100));
	cr_expect(eq(u32, view.datagram_bytes, 100));
	cr_expect(not(frame_is_fragment(&view)));
	cr_expect(eq(u32, udp_length(42), 108));
}

Test(packet, a_plain_ipv6_frame_splits_at_62)
{
	const struct frame_options options = {.ipv6 = true, .payload_bytes = 100};
	struct frame view = parse(&options);

	cr_expect(is_plain(62));
	cr_expect(eq(u32, view.payload_at, 62));
	cr_expect(eq(u32, view.payload_bytes, 100));
	cr_expect(eq(u32, udp_length(62), 108));
}

Test(packet, a_vlan_tag_moves_everything_by_4)
{
	const struct frame_options v4 = {.n_vlan_tags = 1, .payload_bytes = 30};
	const struct frame_options v6 = {.n_vlan_tags = 1, .ipv6 = true, .payload_bytes = 30};

	cr_expect(eq(u32, parse(&v4).payload_at, 46));
	cr_expect(not(is_plain(42)));
	cr_expect(is_plain(46));
	cr_expect(eq(u32, parse(&v6).payload_at, 66));
	cr_expect(not(is_plain(62)));
	cr_expect(is_plain(66));
}

Test(packet, ip_options_are_not_plain_and_lengthen_the_headers)
{
	for (uint32_t option_bytes = 4; option_bytes <= 40; option_bytes += 4) {
		const struct frame_options options = {.ip_option_bytes = option_bytes, .payload_bytes = 64};
		struct frame view = parse(&options);

		cr_expect(not(is_plain(42)));
		cr_expect(eq(u32, view.payload_at, 42 + option_bytes));
		cr_expect(eq(u32, view.payload_bytes, 64));
	}
}

Test(packet, a_first_fragment_has_a_udp_header_and_a_later_one_has_none)
{
	const struct frame_options first = {.fragment = 0x2000, .payload_bytes = 96, .udp_length = 1000};
	const struct frame_options later = {.fragment = 0x2003, .payload_bytes = 96};
	struct frame view = parse(&first);

	cr_expect(not(is_plain(42)));
	cr_expect(frame_is_fragment(&view));
	cr_expect(eq(u32, view.payload_at, 42));
	cr_expect(eq(u32, view.payload_bytes, 96), "what this fragment has, not what the datagram will have");
	cr_expect(eq(u32, view.datagram_bytes, 992));
	view = parse(&later);
	cr_expect(not(is_plain(42)));
	cr_expect(frame_is_fragment(&view));
	cr_expect(eq(u32, view.payload_at, 34));
	cr_expect(eq(u32, view.payload_bytes, 96));
	cr_expect(eq(u32, view.datagram_bytes, 96), "only the first fragment says how long the datagram is");
}

Test(packet, a_first_fragment_whose_udp_length_lies_holds_all_of_its_datagram)
{
	const struct frame_options options = {.fragment = 0x2000, .payload_bytes = 96, .udp_length = 9};

	cr_expect(eq(u32, parse(&options).payload_bytes, 96));
	cr_expect(eq(u32, parse(&options).datagram_bytes, 96));
}

/* A plain IPv6 frame whose UDP header and payload of 96 bytes follow a fragment header. */
static struct frame parse_ipv6_fragment(uint16_t offset_and_flag, bool *parsed)
{
	const struct frame_options options = {.ipv6 = true, .payload_bytes = 96};
	uint8_t header[8] = {IPPROTO_UDP, 0, (uint8_t)(offset_and_flag >> 8), (uint8_t)offset_and_flag, 1, 2, 3, 4};
	uint32_t bytes = frame_build(&options, 0, frame);
	struct frame view = {0};

	memmove(frame + 62, frame + 54, bytes - 54);
	memcpy(frame + 54, header, sizeof(header));
	frame[19] += 8; /* the payload length */
	frame[20] = IPPROTO_FRAGMENT;
	*parsed = find_payload(frame, bytes + 8, &view);
	return view;
}

Test(packet, ipv6_fragments_are_told_from_an_atomic_one)
{
	struct frame view;
	bool parsed;

	view = parse_ipv6_fragment(0x0001, &parsed); /* the first, and more follow */
	cr_assert(parsed);
	cr_expect(frame_is_fragment(&view));
	cr_expect(eq(u32, view.payload_at, 70));
	cr_expect(eq(u32, view.payload_bytes, 96));
	cr_expect(not(is_plain(62)));
	view = parse_ipv6_fragment(0x0559, &parsed); /* in the middle: there is no UDP header */
	cr_assert(parsed);
	cr_expect(frame_is_fragment(&view));
	cr_expect(eq(u32, view.payload_at, 62));
	cr_expect(eq(u32, view.payload_bytes, 104));
	view = parse_ipv6_fragment(0x0558, &parsed); /* the last */
	cr_assert(parsed);
	cr_expect(frame_is_fragment(&view));
	cr_expect(eq(u32, view.payload_at, 62));
	view = parse_ipv6_fragment(0x0000, &parsed); /* RFC 6946: whole */
	cr_assert(parsed);
	cr_expect(not(frame_is_fragment(&view)));
	cr_expect(eq(u32, view.payload_at, 70));
	cr_expect(eq(u32, view.payload_bytes, 96));
	view = parse_ipv6_fragment(0x0006, &parsed); /* reserved bits */
	cr_expect(not(frame_is_fragment(&view)));
}

Test(packet, an_ipv6_fragment_header_that_is_cut_off_is_refused)
{
	struct frame view;
	bool parsed;

	parse_ipv6_fragment(0x0001, &parsed);
	for (uint32_t bytes = 54; bytes < 62; bytes++)
		cr_expect(not(find_payload(frame, bytes, &view)), "%u bytes", bytes);
	frame[19] = 7; /* less than the fragment header */
	cr_expect(not(find_payload(frame, 166, &view)));
}

Test(packet, only_the_four_layouts_have_a_plain_form)
{
	struct packet_plain plain;

	for (uint32_t header_bytes = 0; header_bytes < 200; header_bytes++)
		cr_expect(eq(int, packet_plain_init(&plain, header_bytes),
		             header_bytes == 42 || header_bytes == 46 || header_bytes == 62 || header_bytes == 66));
}

Test(packet, what_a_plain_frame_may_vary_in_does_not_matter)
{
	const struct frame_options v4 = {.payload_bytes = 100};
	const struct frame_options v6 = {.ipv6 = true, .payload_bytes = 100};

	frame_build(&v4, 0, frame);
	for (uint32_t byte = 0; byte < 42; byte++) {
		bool matters = byte == 12 || byte == 13 || byte == 14 || byte == 20 || byte == 21 || byte == 23;

		frame[byte] ^= 0x81; /* at the fragment field: reserved bit and part of the offset */
		cr_expect(eq(int, is_plain(42), !matters), "byte %u", byte);
		frame[byte] ^= 0x81;
	}
	frame_build(&v6, 0, frame);
	for (uint32_t byte = 0; byte < 62; byte++) {
		bool matters = byte == 12 || byte == 13 || byte == 14 || byte == 20;

		frame[byte] ^= 0x81;
		cr_expect(eq(int, is_plain(62), !matters), "byte %u", byte);
		frame[byte] ^= 0x81;
	}
}

Test(packet, dont_fragment_is_plain)
{
	const struct frame_options options = {.fragment = 0x4000, .payload_bytes = 9};

	frame_build(&options, 0, frame);
	cr_expect(is_plain(42));
}

Test(packet, ethernet_padding_is_not_payload)
{
	for (uint32_t payload_bytes = 0; payload_bytes < 20; payload_bytes++) {
		const struct frame_options options = {.payload_bytes = payload_bytes};

		cr_expect(eq(u32, parse(&options).payload_bytes, payload_bytes));
		cr_expect(eq(u32, udp_length(42), payload_bytes + 8));
	}
}

Test(packet, a_udp_length_below_its_header_is_no_packet)
{
	const struct frame_options options = {.payload_bytes = 30, .udp_length = 7};
	struct frame view;
	uint32_t bytes = frame_build(&options, 0, frame);

	cr_expect(not(find_payload(frame, bytes, &view)));
}

Test(packet, ipv6_extension_headers_are_walked)
{
	const struct frame_options options = {.ipv6 = true, .extension_bytes = 16, .payload_bytes = 50};
	struct frame view = parse(&options);

	cr_expect(not(is_plain(62)));
	cr_expect(eq(u32, view.payload_at, 78));
	cr_expect(eq(u32, view.payload_bytes, 50));
}

Test(packet, other_protocols_are_refused)
{
	const struct frame_options v4 = {.protocol = 6, .payload_bytes = 30};
	const struct frame_options v6 = {.ipv6 = true, .protocol = 6, .payload_bytes = 30};
	struct frame view;

	cr_expect(not(find_payload(frame, frame_build(&v4, 0, frame), &view)));
	cr_expect(not(is_plain(42)));
	cr_expect(not(find_payload(frame, frame_build(&v6, 0, frame), &view)));
	cr_expect(not(is_plain(62)));
}

/* Cut at every length, in a buffer of exactly that length: the sanitizers see any byte read behind it. */
Test(packet, a_frame_cut_anywhere_is_never_read_behind_its_end)
{
	const struct frame_options shapes[] = {
		{.payload_bytes = 20, .no_padding = true},
		{.ip_option_bytes = 40, .payload_bytes = 20, .no_padding = true},
		{.n_vlan_tags = 2, .payload_bytes = 20, .no_padding = true},
		{.ipv6 = true, .extension_bytes = 24, .payload_bytes = 20, .no_padding = true},
	};

	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		uint32_t bytes = frame_build(&shapes[s], 0, frame);
		struct frame whole;

		cr_assert(find_payload(frame, bytes, &whole));
		for (uint32_t cut = 0; cut < bytes; cut++) {
			uint8_t *copy = malloc(cut ? cut : 1);
			struct frame view;

			memcpy(copy, frame, cut);
			bool parsed = find_payload(copy, cut, &view);

			free(copy);
			cr_expect(eq(int, parsed, cut >= whole.payload_at), "shape %zu cut at %u", s, cut);
		}
	}
}
