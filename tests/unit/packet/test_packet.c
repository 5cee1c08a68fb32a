// SPDX-License-Identifier: Apache-2.0
#include "daemon/packet/packet.h"
#include "tests/support/frames.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

static uint8_t frame[FRAME_BYTES_MAX];

static struct packet_view parse(const struct frame_options *options)
{
	struct packet_view view;
	uint32_t bytes = frame_build(options, 0, frame);

	cr_assert(packet_parse(frame, bytes, &view));
	return view;
}

Test(packet, a_plain_ipv4_frame_splits_at_42)
{
	const struct frame_options options = { .payload_bytes = 100 };
	struct packet_view view = parse(&options);

	cr_expect(packet_is_plain_ipv4(frame, 14));
	cr_expect(eq(u16, view.header_length, 42));
	cr_expect(eq(u16, view.payload_length, 100));
	cr_expect(not(view.fragment));
	cr_expect(eq(u32, packet_udp_payload_length(frame, 42), 100));
}

Test(packet, a_plain_ipv6_frame_splits_at_62)
{
	const struct frame_options options = { .ipv6 = true, .payload_bytes = 100 };
	struct packet_view view = parse(&options);

	cr_expect(packet_is_plain_ipv6(frame, 14));
	cr_expect(eq(u16, view.header_length, 62));
	cr_expect(eq(u16, view.payload_length, 100));
	cr_expect(eq(u32, packet_udp_payload_length(frame, 62), 100));
}

Test(packet, a_vlan_tag_moves_everything_by_4)
{
	const struct frame_options v4 = { .n_vlan_tags = 1, .payload_bytes = 30 };
	const struct frame_options v6 = { .n_vlan_tags = 1, .ipv6 = true, .payload_bytes = 30 };

	cr_expect(eq(u16, parse(&v4).header_length, 46));
	cr_expect(not(packet_is_plain_ipv4(frame, 14)));
	cr_expect(packet_is_plain_ipv4(frame, 18));
	cr_expect(eq(u16, parse(&v6).header_length, 66));
	cr_expect(not(packet_is_plain_ipv6(frame, 14)));
	cr_expect(packet_is_plain_ipv6(frame, 18));
}

Test(packet, ip_options_are_not_plain_and_lengthen_the_headers)
{
	for (uint32_t option_bytes = 4; option_bytes <= 40; option_bytes += 4) {
		const struct frame_options options = { .ip_option_bytes = option_bytes, .payload_bytes = 64 };
		struct packet_view view = parse(&options);

		cr_expect(not(packet_is_plain_ipv4(frame, 14)));
		cr_expect(eq(u32, view.header_length, 42 + option_bytes));
		cr_expect(eq(u16, view.payload_length, 64));
	}
}

Test(packet, a_first_fragment_has_a_udp_header_and_a_later_one_has_none)
{
	const struct frame_options first = { .fragment = 0x2000, .payload_bytes = 96, .udp_length = 1000 };
	const struct frame_options later = { .fragment = 0x2003, .payload_bytes = 96 };
	struct packet_view view = parse(&first);

	cr_expect(not(packet_is_plain_ipv4(frame, 14)));
	cr_expect(view.fragment);
	cr_expect(eq(u16, view.header_length, 42));
	cr_expect(eq(u16, view.payload_length, 96), "what this fragment has, not what the datagram will have");
	view = parse(&later);
	cr_expect(not(packet_is_plain_ipv4(frame, 14)));
	cr_expect(view.fragment);
	cr_expect(eq(u16, view.header_length, 34));
	cr_expect(eq(u16, view.payload_length, 96));
}

Test(packet, dont_fragment_is_plain)
{
	const struct frame_options options = { .fragment = 0x4000, .payload_bytes = 9 };

	frame_build(&options, 0, frame);
	cr_expect(packet_is_plain_ipv4(frame, 14));
}

Test(packet, ethernet_padding_is_not_payload)
{
	for (uint32_t payload_bytes = 0; payload_bytes < 20; payload_bytes++) {
		const struct frame_options options = { .payload_bytes = payload_bytes };

		cr_expect(eq(u32, parse(&options).payload_length, payload_bytes));
		cr_expect(eq(u32, packet_udp_payload_length(frame, 42), payload_bytes));
	}
}

Test(packet, a_udp_length_below_its_header_is_no_packet)
{
	const struct frame_options options = { .payload_bytes = 30, .udp_length = 7 };
	struct packet_view view;
	uint32_t bytes = frame_build(&options, 0, frame);

	cr_expect(not(packet_parse(frame, bytes, &view)));
	cr_expect(eq(u32, packet_udp_payload_length(frame, 42), 0));
}

Test(packet, ipv6_extension_headers_are_walked)
{
	const struct frame_options options = { .ipv6 = true, .extension_bytes = 16, .payload_bytes = 50 };
	struct packet_view view = parse(&options);

	cr_expect(not(packet_is_plain_ipv6(frame, 14)));
	cr_expect(eq(u16, view.header_length, 78));
	cr_expect(eq(u16, view.payload_length, 50));
}

Test(packet, other_protocols_are_refused)
{
	const struct frame_options v4 = { .protocol = 6, .payload_bytes = 30 };
	const struct frame_options v6 = { .ipv6 = true, .protocol = 6, .payload_bytes = 30 };
	struct packet_view view;

	cr_expect(not(packet_parse(frame, frame_build(&v4, 0, frame), &view)));
	cr_expect(not(packet_is_plain_ipv4(frame, 14)));
	cr_expect(not(packet_parse(frame, frame_build(&v6, 0, frame), &view)));
	cr_expect(not(packet_is_plain_ipv6(frame, 14)));
}

/* Cut at every length, in a buffer of exactly that length: the sanitizers see any byte read behind it. */
Test(packet, a_frame_cut_anywhere_is_never_read_behind_its_end)
{
	const struct frame_options shapes[] = {
		{ .payload_bytes = 20, .no_padding = true },
		{ .ip_option_bytes = 40, .payload_bytes = 20, .no_padding = true },
		{ .n_vlan_tags = 2, .payload_bytes = 20, .no_padding = true },
		{ .ipv6 = true, .extension_bytes = 24, .payload_bytes = 20, .no_padding = true },
	};

	for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
		uint32_t bytes = frame_build(&shapes[s], 0, frame);
		struct packet_view whole;

		cr_assert(packet_parse(frame, bytes, &whole));
		for (uint32_t cut = 0; cut < bytes; cut++) {
			uint8_t *copy = malloc(cut ? cut : 1);
			struct packet_view view;

			memcpy(copy, frame, cut);
			bool parsed = packet_parse(copy, cut, &view);

			free(copy);
			cr_expect(eq(int, parsed, cut >= whole.header_length), "shape %zu cut at %u", s, cut);
		}
	}
}
