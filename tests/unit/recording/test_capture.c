// SPDX-License-Identifier: Apache-2.0
#include "lib/recording/capture.h"
#include "lib/recording/pcapng.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <ibvcap/layout.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

static char path[64];
static FILE *file;
static struct capture capture;

static void begin(void)
{
	int fd;

	strcpy(path, "/tmp/ibvcap-test-capture-XXXXXX");
	fd = mkstemp(path);
	cr_assert(ge(int, fd, 0));
	file = fdopen(fd, "w");
	memset(&capture, 0, sizeof(capture));
}

static void end(void)
{
	capture_close(&capture);
	if (file)
		fclose(file);
	unlink(path);
}

TestSuite(capture, .init = begin, .fini = end);

static void put32(uint32_t value)
{
	fwrite(&value, sizeof(value), 1, file);
}

static void put_pcap(uint32_t magic, uint32_t link)
{
	put32(magic);
	put32(2 | 4 << 16);
	put32(0);
	put32(0);
	put32(65535);
	put32(link);
}

static void put_packet(uint32_t seconds, uint32_t fraction, const char *frame, uint32_t wire_bytes)
{
	put32(seconds);
	put32(fraction);
	put32((uint32_t)strlen(frame));
	put32(wire_bytes);
	fputs(frame, file);
}

static int reopen(void)
{
	fclose(file);
	file = NULL;
	return capture_open(&capture, path, "ibvcap replay CHANNEL -");
}

Test(capture, packets_have_ns_and_both_lengths)
{
	struct capture_packet packet;

	put_pcap(0xa1b23c4d, 1);
	put_packet(1700000000, 123456789, "hello", 5);
	put_packet(2100000000, 999999999, "cut", 1500);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1));
	cr_expect(eq(u64, packet.time_ns, 1700000000 * SECOND_NS + 123456789));
	cr_expect(eq(u32, packet.wire_bytes, 5));
	cr_expect(eq(int, memcmp(packet.frame, "hello", 5), 0));
	cr_assert(eq(int, capture_next(&capture, &packet), 1));
	cr_expect(eq(u64, packet.time_ns, 2100000000 * SECOND_NS + 999999999));
	cr_expect(eq(u32, packet.captured, 3));
	cr_expect(eq(u32, packet.wire_bytes, 1500));
	cr_expect(eq(int, capture_next(&capture, &packet), 0));
}

Test(capture, microseconds_become_ns)
{
	struct capture_packet packet;

	put_pcap(0xa1b2c3d4, 101);
	put_packet(1700000000, 123456, "x", 1);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1));
	cr_expect(eq(int, packet.link, DATAGRAM_LINK_IP));
	cr_expect(eq(u64, packet.time_ns, 1700000000 * SECOND_NS + 123456000));
}

/* A pcapng file: a section header, an interface with times in ns, and an enhanced packet. */
Test(capture, pcapng_with_ns)
{
	const uint64_t time_ns = 1700000000 * SECOND_NS + 987654321;
	struct capture_packet packet;
	const uint32_t words[] = {0x0a0d0d0a,
	                          28,
	                          0x1a2b3c4d,
	                          1,
	                          UINT32_MAX,
	                          UINT32_MAX,
	                          28,
	                          1,
	                          32,
	                          1,
	                          65535,
	                          9 | 1 << 16,
	                          9,
	                          0,
	                          32,
	                          6,
	                          36,
	                          0,
	                          (uint32_t)(time_ns >> 32),
	                          (uint32_t)time_ns,
	                          3,
	                          3,
	                          0x00636261,
	                          36};

	fwrite(words, sizeof(words), 1, file);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_expect(eq(u64, packet.time_ns, time_ns));
	cr_expect(eq(u32, packet.captured, 3));
	cr_expect(eq(int, memcmp(packet.frame, "abc", 3), 0));
	cr_expect(eq(int, capture_next(&capture, &packet), 0));
}

static uint8_t blocks[1000];
static size_t n_blocks_bytes;

/* A section with an Ethernet interface and one of bare IP. */
static void put_section(void)
{
	const struct pcapng_section section = {0};
	const struct pcapng_interface interfaces[] = {{.link_type = PCAPNG_LINK_ETHERNET}, {.link_type = 101}};
	size_t n = pcapng_write_section(blocks, sizeof(blocks), &section);

	for (unsigned i = 0; i < 2; i++)
		n += pcapng_write_interface(blocks + n, sizeof(blocks) - n, &interfaces[i]);
	n_blocks_bytes = n;
}

Test(capture, each_interface_has_its_link_and_losses_are_told)
{
	const struct pcapng_packet lost = {.interface = 1,
	                                   .options = PCAPNG_PACKET_HAS_DROPS,
	                                   .drop_count = 7,
	                                   .frame = {(const uint8_t *)"abc"},
	                                   .frame_bytes = {3},
	                                   .wire_bytes = 3};
	const struct pcapng_statistics statistics = {.values_set = 1u << PCAPNG_STATISTIC_OS_DROPPED,
	                                             .values = {[PCAPNG_STATISTIC_OS_DROPPED] = 9}};
	struct capture_packet packet;

	put_section();
	n_blocks_bytes += pcapng_write_packet(blocks + n_blocks_bytes, sizeof(blocks) - n_blocks_bytes, &lost);
	n_blocks_bytes +=
		pcapng_write_statistics(blocks + n_blocks_bytes, sizeof(blocks) - n_blocks_bytes, &statistics);
	fwrite(blocks, n_blocks_bytes, 1, file);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_expect(eq(int, packet.link, DATAGRAM_LINK_IP));
	cr_expect(eq(u64, capture_lost(&capture), 7));
	cr_expect(eq(int, capture_next(&capture, &packet), 0));
	cr_expect(eq(u64, capture.n_gaps, 1));
	cr_expect(eq(u64, capture_lost(&capture), 9));
}

/* ---- raw recordings ------------------------------------------------------------------------------ */

static const char *put_beside(const char *suffix, const void *at, size_t bytes)
{
	static char name[80];
	FILE *beside;

	snprintf(name, sizeof(name), "%s%s", path, suffix);
	beside = fopen(name, "w");
	cr_assert_not_null(beside);
	fwrite(at, bytes, 1, beside);
	fclose(beside);
	return name;
}

/* Rows of 8 bytes behind 3 bytes of nothing; 2 bytes of each payload are application headers. */
static void put_raw_unread(const struct ibvcap_meta *meta, uint32_t n, const char *headers, const char *rows)
{
	char said[500];

	snprintf(said, sizeof(said),
	         "{\"offset\": 3, \"shape\": [%u, 8], \"meta_dtype\": [], \"layout\": \"payload\","
	         "\"network_header_bytes\": 42, \"application_header_bytes\": 2,"
	         "\"losses\": [{\"row\": 0, \"packets\": 5}, {\"row\": 2, \"packets\": 4}],"
	         "\"sum\": {\"skipped\": 9, \"errored\": 1, \"no_buffer\": 2}}",
	         n);
	put_beside(".json", said, strlen(said));
	put_beside(".meta", meta, n * sizeof(*meta));
	put_beside(".headers", headers, strlen(headers));
	fputs("xxx", file);
	fputs(rows, file);
}

static void put_raw(const struct ibvcap_meta *meta, uint32_t n, const char *headers, const char *rows)
{
	put_raw_unread(meta, n, headers, rows);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
}

static void remove_raw(void)
{
	unlink(put_beside(".json", "", 0));
	unlink(put_beside(".meta", "", 0));
	unlink(put_beside(".headers", "", 0));
}

static void expect_row(const char *payload, enum datagram_verdict verdict)
{
	struct capture_packet packet;
	struct datagram datagram;

	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_assert(eq(int, datagram_find(packet.link, packet.frame, packet.captured, packet.wire_bytes, &datagram),
	             verdict));
	if (verdict != DATAGRAM_WHOLE)
		return;
	cr_assert(eq(u32, datagram.bytes, (uint32_t)strlen(payload)));
	cr_expect(eq(int, memcmp(datagram.payload, payload, datagram.bytes), 0));
}

Test(capture, rows_of_a_raw_recording_are_payloads)
{
	const struct ibvcap_meta meta[] = {
		{.timestamp_ns = 7, .length = 8, .header_length = 42, .wire_length = 8},
		{.length = 3, .header_length = 42, .wire_length = 3, .flags = IBVCAP_PACKET_FLAG_SHORT},
		{.flags = IBVCAP_PACKET_FLAG_ERROR},
		{.length = 2, .header_length = 46, .wire_length = 2, .flags = IBVCAP_PACKET_FLAG_IRREGULAR},
		{.length = 8, .header_length = 42, .wire_length = 80, .flags = IBVCAP_PACKET_FLAG_TRUNCATED},
		{.length = 8, .header_length = 42, .wire_length = 8, .flags = IBVCAP_PACKET_FLAG_FRAGMENT},
		{.flags = IBVCAP_PACKET_FLAG_UNUSABLE},
	};

	put_raw(meta, 7, "AABB..vlCCDD..", "aaaaaaaabbb.............anCCcc..ccccccccdddddddd........");
	expect_row("AAaaaaaaaa", DATAGRAM_WHOLE);
	cr_expect(eq(u64, capture.n_lost, 5));
	expect_row("BBbbb", DATAGRAM_WHOLE);
	expect_row("CCcc", DATAGRAM_WHOLE);
	cr_expect(eq(u64, capture.n_lost, 10), "4 that the recording names, and the row in error");
	expect_row(NULL, DATAGRAM_CUT);
	expect_row(NULL, DATAGRAM_FRAGMENT);
	expect_row(NULL, DATAGRAM_CUT);
	cr_expect(eq(int, capture_next(&capture, &(struct capture_packet){0}), 0));
	cr_expect(eq(u64, capture_lost(&capture), 12));
	remove_raw();
}

Test(capture, a_raw_recording_with_fewer_rows_than_it_says_is_damaged)
{
	const struct ibvcap_meta meta[2] = {{.length = 8, .header_length = 42}};

	put_raw(meta, 2, "AABB", "aaaaaaaa");
	expect_row("AAaaaaaaaa", DATAGRAM_WHOLE);
	cr_expect(eq(int, capture_next(&capture, &(struct capture_packet){0}), -EBADMSG));
	cr_expect(strstr(capture.error, "after packet 1: it has fewer rows") != NULL, "%s", capture.error);
	remove_raw();
}

/* After a crash between two renames, say. */
Test(capture, the_description_of_another_raw_recording_is_not_believed)
{
	const struct ibvcap_meta meta[2] = {{.length = 8, .header_length = 42}};

	put_raw_unread(meta, 1, "AA", "aaaaaaaabbbbbbbb");
	cr_expect(eq(int, reopen(), EX_DATAERR));
	cr_expect(strstr(capture.error, "it has more rows") != NULL, "%s", capture.error);
	remove_raw();
}

/* -------------------------------------------------------------------------------------------------- */

Test(capture, a_packet_without_a_time_has_that_of_the_one_before)
{
	const struct pcapng_packet timed = {
		.frame = {(const uint8_t *)"x"}, .frame_bytes = {1}, .wire_bytes = 1, .time_ns = 5 * SECOND_NS};
	const uint32_t simple[] = {3, 20, 6, 0x64636261, 20};
	struct capture_packet packet;

	put_section();
	n_blocks_bytes += pcapng_write_packet(blocks + n_blocks_bytes, sizeof(blocks) - n_blocks_bytes, &timed);
	fwrite(blocks, n_blocks_bytes, 1, file);
	fwrite(simple, sizeof(simple), 1, file);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_expect(eq(u64, packet.time_ns, 5 * SECOND_NS));
	cr_expect(eq(u32, packet.captured, 4));
	cr_expect(eq(u32, packet.wire_bytes, 6));
	cr_expect(eq(u64, capture.n_untimed, 1));
}

Test(capture, repeated_statistics_of_an_interface_are_no_more_losses)
{
	struct pcapng_statistics statistics = {.values_set = 1u << PCAPNG_STATISTIC_DROPPED,
	                                       .values = {[PCAPNG_STATISTIC_DROPPED] = 9}};

	put_section();
	for (unsigned i = 0; i < 3; i++, statistics.values[PCAPNG_STATISTIC_DROPPED]++)
		n_blocks_bytes +=
			pcapng_write_statistics(blocks + n_blocks_bytes, sizeof(blocks) - n_blocks_bytes, &statistics);
	fwrite(blocks, n_blocks_bytes, 1, file);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_expect(eq(int, capture_next(&capture, &(struct capture_packet){0}), 0));
	cr_expect(eq(u64, capture_lost(&capture), 11));
}

Test(capture, a_file_that_is_cut_off_gives_what_it_has_and_says_after_which_packet)
{
	struct capture_packet packet;

	put_pcap(0xa1b23c4d, 1);
	put_packet(1, 0, "whole", 5);
	put_packet(2, 0, "cut off here", 12);
	fflush(file);
	cr_assert(eq(int, ftruncate(fileno(file), ftell(file) - 1), 0));
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1));
	cr_assert(eq(int, capture_next(&capture, &packet), -EBADMSG));
	cr_expect(strstr(capture.error, "cut off after packet 1") != NULL, "%s", capture.error);
	cr_expect(strstr(capture.error, path) != NULL, "%s", capture.error);
}

Test(capture, a_pcap_file_of_a_version_that_is_not_known_is_named)
{
	put32(0xa1b2c3d4);
	put32(99 | 4 << 16);
	for (int i = 0; i < 4; i++)
		put32(0);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &(struct capture_packet){0}), -EBADMSG));
	cr_expect(strstr(capture.error, "version 99.4") != NULL, "%s", capture.error);
}

Test(capture, a_time_that_there_is_not_is_none)
{
	struct capture_packet packet;

	put_pcap(0xa1b23c4d, 1);
	put_packet(7, 8, "x", 1);
	put_packet(1, 1000000000, "x", 1);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_expect(eq(u64, packet.time_ns, 7 * SECOND_NS + 8));
	cr_expect(eq(u64, capture.n_untimed, 1));
}

/* Writers do not keep to the length that the file's header promises. */
Test(capture, a_packet_that_is_longer_than_the_header_of_the_file_allows_is_whole)
{
	struct capture_packet packet;

	put32(0xa1b2c3d4);
	put32(2 | 4 << 16);
	put32(0);
	put32(0);
	put32(4);
	put32(1);
	put_packet(1, 0, "longer than four", 16);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_expect(eq(u32, packet.captured, 16));
	cr_expect(eq(int, memcmp(packet.frame, "longer than four", 16), 0));
}

Test(capture, a_length_that_there_is_not_is_damage)
{
	struct capture_packet packet;

	put_pcap(0xa1b23c4d, 1);
	put32(1);
	put32(0);
	put32(0x7fffffff);
	put32(0x7fffffff);
	fputs("xxxxxxxxxxxxxxxxxxxx", file);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_expect(eq(int, capture_next(&capture, &packet), -EBADMSG));
}

Test(capture, no_capture_at_all)
{
	fputs("Lorem ipsum dolor sit amet, consetetur sadipscing elitr", file);
	cr_expect(eq(int, reopen(), EX_DATAERR));
	cr_expect(strstr(capture.error, path) != NULL, "%s", capture.error);
}

static void expect_explained(const char *begin, size_t bytes, const char *said)
{
	fwrite(begin, 1, bytes, file);
	fputs("and whatever follows", file);
	cr_expect(eq(int, reopen(), EX_DATAERR));
	cr_expect(strstr(capture.error, said) != NULL, "%s", capture.error);
	file = fopen(path, "w");
}

Test(capture, a_file_that_another_program_has_to_unpack_is_told_with_the_command)
{
	char said[200];

	snprintf(said, sizeof(said), "%s is compressed by xz: xzcat %s | ibvcap replay CHANNEL -", path, path);
	expect_explained("\xfd"
	                 "7zXZ",
	                 5, said);
	expect_explained("\x28\xb5\x2f\xfd", 4, "its compressed data is damaged");
	expect_explained("\x1f\x8b\x08", 3, "its compressed data is damaged");
	expect_explained("\x04\x22\x4d\x18", 4, "its compressed data is damaged");
	expect_explained("BZh9", 4, "compressed by bzip2: bzcat ");
	snprintf(said, sizeof(said), "a capture of snoop: editcap -F pcap %s - | ibvcap replay CHANNEL -", path);
	expect_explained("snoop\0\0\0", 8, said);
}

Test(capture, an_empty_file)
{
	cr_expect(eq(int, reopen(), EX_DATAERR));
}

Test(capture, packets_of_a_link_that_is_not_known_are_told_and_the_rest_is_read)
{
	struct capture_packet packet;
	struct datagram datagram;

	put_pcap(0xa1b2c3d4, 127);
	put_packet(1, 0, "802.11", 6);
	cr_assert(eq(int, reopen(), 0), "%s", capture.error);
	cr_assert(eq(int, capture_next(&capture, &packet), 1), "%s", capture.error);
	cr_expect(eq(int, datagram_find(packet.link, packet.frame, packet.captured, packet.wire_bytes, &datagram),
	             DATAGRAM_UNKNOWN_LINK));
	cr_expect(eq(u32, capture.unknown_link, 127));
	cr_expect(eq(int, capture_next(&capture, &packet), 0));
}

Test(capture, no_file)
{
	cr_expect(eq(int, capture_open(&capture, "/nowhere/lidar.pcap", ""), EX_NOINPUT));
	cr_expect(strstr(capture.error, "/nowhere/lidar.pcap: No such file") != NULL, "%s", capture.error);
}
