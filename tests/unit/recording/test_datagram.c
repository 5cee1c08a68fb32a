// SPDX-License-Identifier: Apache-2.0
#include "lib/recording/capture.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#define PORT 7502

static uint8_t frame[256];
static uint32_t bytes; /* of it, so far */

static void put(const void *from, size_t n)
{
	memcpy(frame + bytes, from, n);
	bytes += (uint32_t)n;
}

static void put16(unsigned value)
{
	put((uint8_t[]){(uint8_t)(value >> 8), (uint8_t)value}, 2);
}

static void zeros(size_t n)
{
	memset(frame + bytes, 0, n);
	bytes += (uint32_t)n;
}

static void put_ethernet(unsigned type)
{
	bytes = 0;
	zeros(12);
	put16(type);
}

static void put_ipv4(unsigned header_bytes, unsigned payload_bytes, unsigned fragment, uint8_t protocol)
{
	put16(0x4000 | header_bytes / 4 << 8);
	put16(header_bytes + payload_bytes);
	put16(1);
	put16(fragment);
	put((uint8_t[]){64, protocol}, 2);
	zeros(header_bytes - 10);
}

static void put_ipv6(unsigned payload_bytes, uint8_t next)
{
	put16(0x6000);
	put16(0);
	put16(payload_bytes);
	put((uint8_t[]){next, 64}, 2);
	zeros(32);
}

static void put_udp(const char *payload)
{
	put16(1234);
	put16(PORT);
	put16(8 + (unsigned)strlen(payload));
	put16(0);
	put(payload, strlen(payload));
}

/* The bytes lie in an allocation of exactly their size, so that a sanitizer finds a read behind them. */
static enum datagram_verdict find(enum datagram_link link, uint32_t captured, struct datagram *datagram)
{
	uint8_t *copy = malloc(captured ? captured : 1);
	enum datagram_verdict verdict;

	memcpy(copy, frame, captured);
	verdict = datagram_find(link, copy, captured, bytes, datagram);
	if (verdict == DATAGRAM_WHOLE)
		datagram->payload = frame + (datagram->payload - copy);
	free(copy);
	return verdict;
}

static void expect_whole(enum datagram_link link, const char *payload)
{
	struct datagram datagram;

	cr_assert(eq(int, find(link, bytes, &datagram), DATAGRAM_WHOLE));
	cr_assert(eq(u32, datagram.bytes, (uint32_t)strlen(payload)));
	cr_assert(eq(int, memcmp(datagram.payload, payload, datagram.bytes), 0));
	cr_assert(eq(u16, datagram.destination_port, PORT));
}

static enum datagram_verdict verdict_of(enum datagram_link link)
{
	struct datagram datagram;

	return find(link, bytes, &datagram);
}

Test(datagram, of_ipv4_behind_ethernet_and_without_its_padding)
{
	put_ethernet(0x0800);
	put_ipv4(20, 8 + 5, 0, 17);
	put_udp("hello");
	zeros(13);
	expect_whole(DATAGRAM_LINK_ETHERNET, "hello");
}

Test(datagram, of_ipv4_with_options)
{
	put_ethernet(0x0800);
	put_ipv4(60, 8 + 1, 0, 17);
	put_udp("x");
	expect_whole(DATAGRAM_LINK_ETHERNET, "x");
}

Test(datagram, without_a_payload)
{
	put_ethernet(0x0800);
	put_ipv4(20, 8, 0, 17);
	put_udp("");
	expect_whole(DATAGRAM_LINK_ETHERNET, "");
}

Test(datagram, of_ipv6_with_extension_headers)
{
	put_ethernet(0x86dd);
	put_ipv6(8 + 16 + 8 + 8 + 4, 0);
	put((uint8_t[]){60, 0, 0, 0, 0, 0, 0, 0}, 8); /* hop by hop, 8 bytes; then destination options, 16 */
	put((uint8_t[]){44, 1}, 2);
	zeros(14);
	put((uint8_t[]){17, 0, 0, 0, 0, 0, 0, 9}, 8); /* a fragment that is all there is */
	put_udp("1234");
	expect_whole(DATAGRAM_LINK_ETHERNET, "1234");
}

Test(datagram, behind_two_vlan_tags)
{
	put_ethernet(0x88a8);
	put16(7);
	put16(0x8100);
	put16(8);
	put16(0x0800);
	put_ipv4(20, 8 + 2, 0, 17);
	put_udp("ab");
	expect_whole(DATAGRAM_LINK_ETHERNET, "ab");
}

Test(datagram, of_other_links)
{
	bytes = 0;
	put_ipv4(20, 8 + 2, 0, 17);
	put_udp("ab");
	expect_whole(DATAGRAM_LINK_IP, "ab");
	bytes = 0;
	put_ipv6(8 + 2, 17);
	put_udp("ab");
	expect_whole(DATAGRAM_LINK_IP, "ab");
	bytes = 0;
	zeros(14);
	put16(0x0800);
	put_ipv4(20, 8 + 2, 0, 17);
	put_udp("ab");
	expect_whole(DATAGRAM_LINK_SLL, "ab");
	bytes = 0;
	put16(0x86dd);
	zeros(18);
	put_ipv6(8 + 2, 17);
	put_udp("ab");
	expect_whole(DATAGRAM_LINK_SLL2, "ab");
}

Test(datagram, other_protocols_are_not_udp)
{
	put_ethernet(0x0806);
	zeros(28);
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_NOT_UDP));
	put_ethernet(0x0800);
	put_ipv4(20, 20, 0, 6);
	zeros(20);
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_NOT_UDP));
	put_ethernet(0x86dd);
	put_ipv6(8, 58);
	zeros(8);
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_NOT_UDP));
	bytes = 0;
	zeros(40);
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_IP), DATAGRAM_NOT_UDP));
}

Test(datagram, the_first_fragment_and_later_ones_are_fragments)
{
	static const unsigned fields[] = {0x2000, 0x2001, 185};

	for (unsigned i = 0; i < 3; i++) {
		put_ethernet(0x0800);
		put_ipv4(20, 8 + 5, fields[i], 17);
		put_udp("hello");
		cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_FRAGMENT));
	}
	put_ethernet(0x86dd);
	put_ipv6(8 + 8 + 5, 44);
	put((uint8_t[]){17, 0, 0, 1, 0, 0, 0, 9}, 8);
	put_udp("hello");
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_FRAGMENT));
}

Test(datagram, what_the_capture_has_less_of_than_there_was_is_cut)
{
	struct datagram datagram;
	uint32_t whole;

	put_ethernet(0x8100);
	put16(7);
	put16(0x0800);
	put_ipv4(24, 8 + 5, 0, 17);
	put_udp("hello");
	whole = bytes;
	zeros(2);
	for (uint32_t captured = 0; captured < whole; captured++)
		cr_expect(eq(int, find(DATAGRAM_LINK_ETHERNET, captured, &datagram), DATAGRAM_CUT));
	cr_expect(eq(int, find(DATAGRAM_LINK_ETHERNET, whole, &datagram), DATAGRAM_WHOLE));
	put_ethernet(0x86dd);
	put_ipv6(16 + 8 + 5, 60);
	put((uint8_t[]){17, 1}, 2);
	zeros(14);
	put_udp("hello");
	for (uint32_t captured = 0; captured < bytes; captured++)
		cr_expect(eq(int, find(DATAGRAM_LINK_ETHERNET, captured, &datagram), DATAGRAM_CUT));
}

Test(datagram, what_is_cut_behind_its_headers_has_a_part_of_its_payload)
{
	struct datagram datagram = {0};

	put_ethernet(0x0800);
	put_ipv4(20, 8 + 5, 0, 17);
	put_udp("hello");
	cr_expect(eq(int, find(DATAGRAM_LINK_ETHERNET, bytes - 6, &datagram), DATAGRAM_CUT));
	cr_expect(datagram.payload == NULL);
	cr_expect(eq(int, find(DATAGRAM_LINK_ETHERNET, bytes - 5, &datagram), DATAGRAM_CUT));
	cr_expect(eq(u32, datagram.bytes, 0));
	cr_expect(eq(int, find(DATAGRAM_LINK_ETHERNET, bytes - 2, &datagram), DATAGRAM_CUT));
	cr_expect(eq(u32, datagram.bytes, 3));
	cr_expect(eq(u32, datagram.whole_bytes, 5));
	cr_expect(eq(u16, datagram.destination_port, PORT));
}

Test(datagram, lengths_that_contradict_each_other_are_malformed)
{
	put_ethernet(0x0800);
	put_ipv4(20, 8 + 6, 0, 17); /* longer than the frame */
	put_udp("hello");
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_MALFORMED));
	put_ethernet(0x0800);
	put_ipv4(20, 8 + 4, 0, 17); /* shorter than the datagram */
	put_udp("hello");
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_MALFORMED));
	put_ethernet(0x0800);
	put_ipv4(20, 8 + 5, 0, 17);
	put_udp("hello");
	frame[14 + 20 + 5] = 7; /* less than its own header */
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_MALFORMED));
	frame[14] = 0x44;
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_MALFORMED));
	put_ethernet(0x86dd);
	put_ipv6(8 + 6, 17);
	put_udp("hello");
	cr_expect(eq(int, verdict_of(DATAGRAM_LINK_ETHERNET), DATAGRAM_MALFORMED));
}

Test(datagram, nothing_outside_of_the_frame_is_read_whatever_is_in_it)
{
	static const unsigned types[] = {0x0800, 0x86dd, 0x8100};
	struct datagram datagram;

	srand(1);
	for (unsigned i = 0; i < 30000; i++) {
		put_ethernet(types[i % 3]);
		for (unsigned j = 0; j < 100; j++)
			put((uint8_t[]){(uint8_t)rand()}, 1);
		frame[14] = (uint8_t)(i % 3 == 0 ? 0x45 : 0x60);
		if (i & 4)
			frame[14 + 9] = frame[14 + 6] = 17;
		find((enum datagram_link)(i / 3 % 4), (uint32_t)rand() % (bytes + 1), &datagram);
	}
}
