// SPDX-License-Identifier: Apache-2.0
#include "lib/recording/pcapng.h"
#include "lib/recording/pcapng_read.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>

#define TIME_NS UINT64_C(1700000000123456789)

/* A file in memory, which is read in pieces of at most piece bytes. */
static uint8_t file[65536];
static size_t file_bytes, file_at, piece;
static struct pcapng_reader reader;
static struct pcapng_block block;

static ssize_t read_memory(void *context, void *to, size_t n)
{
	(void)context;
	n = n < piece ? n : piece;
	n = n < file_bytes - file_at ? n : file_bytes - file_at;
	memcpy(to, file + file_at, n);
	file_at += n;
	return (ssize_t)n;
}

static void begin(void)
{
	file_bytes = file_at = 0;
	piece = 7;
	pcapng_reader_init(&reader, read_memory, NULL);
}

static void end(void)
{
	pcapng_reader_deinit(&reader);
}

TestSuite(pcapng, .init = begin, .fini = end);

static void expect_text(struct pcapng_text text, const char *wanted)
{
	cr_assert(eq(sz, text.bytes, strlen(wanted)));
	cr_expect(zero(int, memcmp(text.at, wanted, text.bytes)), "not '%s'", wanted);
}

static void write_head(void)
{
	const struct pcapng_section section = {.hardware = pcapng_text_of("x86_64"),
	                                       .os = pcapng_text_of("Linux"),
	                                       .application = pcapng_text_of("ibvcap"),
	                                       .comment = pcapng_text_of("")};
	const struct pcapng_interface interface = {.link_type = PCAPNG_LINK_ETHERNET,
	                                           .name = pcapng_text_of("lidar"),
	                                           .description = pcapng_text_of("rx0"),
	                                           .hardware = pcapng_text_of("mlx5_0"),
	                                           .filter = pcapng_text_of("udp dst port 7502"),
	                                           .comment = pcapng_text_of("clock"),
	                                           .speed_bps = UINT64_C(100000000000)};

	file_bytes += pcapng_write_section(file + file_bytes, sizeof(file) - file_bytes, &section);
	file_bytes += pcapng_write_interface(file + file_bytes, sizeof(file) - file_bytes, &interface);
}

static void write_packet(uint32_t head_bytes, uint32_t rest_bytes, struct pcapng_packet packet)
{
	static const uint8_t head[] = "0123456789abcdef", rest[] = "the payload of the frame";

	packet.frame[0] = head;
	packet.frame[1] = rest;
	packet.frame_bytes[0] = head_bytes;
	packet.frame_bytes[1] = rest_bytes;
	packet.time_ns = TIME_NS;
	file_bytes += pcapng_write_packet(file + file_bytes, sizeof(file) - file_bytes, &packet);
}

static void expect_block(uint32_t type)
{
	cr_assert(eq(int, pcapng_read(&reader, &block), 1), "%s", reader.error);
	cr_assert(eq(u32, block.type, type));
}

Test(pcapng, section_and_interface_come_back)
{
	write_head();
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_text(block.section.hardware, "x86_64");
	expect_text(block.section.os, "Linux");
	expect_text(block.section.application, "ibvcap");
	expect_text(block.section.comment, "");
	expect_block(PCAPNG_BLOCK_INTERFACE);
	cr_expect(eq(u16, block.interface.link_type, PCAPNG_LINK_ETHERNET));
	expect_text(block.interface.name, "lidar");
	expect_text(block.interface.description, "rx0");
	expect_text(block.interface.hardware, "mlx5_0");
	expect_text(block.interface.filter, "udp dst port 7502");
	expect_text(block.interface.comment, "clock");
	cr_expect(eq(ptr, (void *)block.interface.os.at, NULL));
	cr_expect(eq(u64, block.interface.speed_bps, UINT64_C(100000000000)));
	cr_expect(eq(int, pcapng_read(&reader, &block), 0));
}

Test(pcapng, packet_comes_back_in_one_piece_of_any_length)
{
	write_head();
	for (uint32_t head = 0; head < 5; head++)
		for (uint32_t rest = 0; rest < 5; rest++)
			write_packet(head, rest,
			             (struct pcapng_packet){.options = PCAPNG_PACKET_HAS_ID | PCAPNG_PACKET_HAS_QUEUE,
			                                    .packet_id = UINT64_MAX - rest,
			                                    .queue = head,
			                                    .wire_bytes = 1500});
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	for (uint32_t head = 0; head < 5; head++)
		for (uint32_t rest = 0; rest < 5; rest++) {
			expect_block(PCAPNG_BLOCK_PACKET);
			cr_expect(eq(u64, block.packet.time_ns, TIME_NS));
			cr_expect(eq(u32, block.packet.wire_bytes, 1500));
			cr_expect(eq(u64, block.packet.packet_id, UINT64_MAX - rest));
			cr_expect(eq(u32, block.packet.queue, head));
			cr_expect(eq(u32, block.packet.options, PCAPNG_PACKET_HAS_ID | PCAPNG_PACKET_HAS_QUEUE));
			cr_assert(eq(u32, block.packet.frame_bytes[0], head + rest));
			cr_expect(zero(int, memcmp(block.packet.frame[0], "0123", head)));
			cr_expect(zero(int, memcmp(block.packet.frame[0] + head, "the ", rest)));
		}
}

Test(pcapng, drops_and_comment_of_a_gap_come_back)
{
	write_head();
	write_packet(14, 24,
	             (struct pcapng_packet){.options = PCAPNG_PACKET_HAS_DROPS,
	                                    .drop_count = 77,
	                                    .comment = pcapng_text_of("77 packets skipped: the disk was not ready")});
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	expect_block(PCAPNG_BLOCK_PACKET);
	cr_expect(eq(u64, block.packet.drop_count, 77));
	expect_text(block.packet.comment, "77 packets skipped: the disk was not ready");
}

Test(pcapng, statistics_come_back)
{
	struct pcapng_statistics statistics = {
		.values_set = 1u << PCAPNG_STATISTIC_FILTER_ACCEPTED | 1u << PCAPNG_STATISTIC_OS_DROPPED,
		.time_ns = TIME_NS,
		.start_ns = TIME_NS - 5,
		.end_ns = TIME_NS - 1,
		.values = {[PCAPNG_STATISTIC_FILTER_ACCEPTED] = 10, [PCAPNG_STATISTIC_OS_DROPPED] = UINT64_MAX},
		.comment = pcapng_text_of("sum")};

	write_head();
	file_bytes += pcapng_write_statistics(file + file_bytes, sizeof(file) - file_bytes, &statistics);
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	expect_block(PCAPNG_BLOCK_STATISTICS);
	cr_expect(eq(u32, block.statistics.values_set, statistics.values_set));
	cr_expect(eq(u64, block.statistics.values[PCAPNG_STATISTIC_FILTER_ACCEPTED], 10));
	cr_expect(eq(u64, block.statistics.values[PCAPNG_STATISTIC_OS_DROPPED], UINT64_MAX));
	cr_expect(eq(u64, block.statistics.time_ns, TIME_NS));
	cr_expect(eq(u64, block.statistics.start_ns, TIME_NS - 5));
	cr_expect(eq(u64, block.statistics.end_ns, TIME_NS - 1));
	expect_text(block.statistics.comment, "sum");
}

Test(pcapng, block_that_does_not_fit_writes_nothing)
{
	uint8_t room[256];
	struct pcapng_packet packet = {.frame = {file, file}, .frame_bytes = {42, 100}};
	size_t bytes = pcapng_write_packet(NULL, 0, &packet);

	memset(room, 0xa5, sizeof(room));
	cr_expect(eq(sz, pcapng_write_packet(room, bytes - 1, &packet), bytes));
	for (size_t i = 0; i < sizeof(room); i++)
		cr_assert(eq(u8, room[i], 0xa5));
	cr_expect(eq(sz, pcapng_write_packet(room, bytes, &packet), bytes));
	cr_expect(eq(u8, room[bytes], 0xa5));
}

Test(pcapng, text_that_is_too_long_is_cut_off)
{
	static char text[70000];
	static uint8_t room[80000];
	const struct pcapng_interface interface = {.name = {text, sizeof(text)}};
	const struct pcapng_interface filter = {.filter = {text, sizeof(text)}};

	cr_expect(lt(sz, pcapng_write_interface(room, sizeof(room), &interface), 65600));
	cr_expect(lt(sz, pcapng_write_interface(room, sizeof(room), &filter), 65600));
}

Test(pcapng, cut_file_is_read_up_to_the_cut)
{
	size_t whole, n_whole, boundaries[4];

	write_head();
	boundaries[0] = file_bytes;
	for (int i = 1; i < 4; i++) {
		write_packet(14, (uint32_t)i, (struct pcapng_packet){0});
		boundaries[i] = file_bytes;
	}
	whole = file_bytes;
	for (size_t cut = boundaries[0]; cut <= whole; cut++) {
		int r;

		pcapng_reader_deinit(&reader);
		pcapng_reader_init(&reader, read_memory, NULL);
		file_at = 0;
		file_bytes = cut;
		for (n_whole = 0; (r = pcapng_read(&reader, &block)) > 0; n_whole++)
			;
		cr_expect(eq(int, r, cut == boundaries[n_whole - 2] ? 0 : -ENODATA));
		cr_expect(eq(u64, reader.offset, boundaries[n_whole - 2]));
	}
	cr_expect(eq(sz, n_whole, 5));
}

/* ---- files of others ----------------------------------------------------------------------------- */

static void put_be(uint64_t value, unsigned bytes)
{
	while (bytes--)
		file[file_bytes++] = (uint8_t)(value >> 8 * bytes);
}

static void put_foreign_head(uint8_t resolution)
{
	put_be(PCAPNG_BLOCK_SECTION, 4), put_be(28, 4), put_be(PCAPNG_BYTE_ORDER, 4), put_be(1, 2), put_be(0, 2);
	put_be(UINT64_MAX, 8), put_be(28, 4);
	put_be(PCAPNG_BLOCK_INTERFACE, 4), put_be(32, 4), put_be(1, 2), put_be(0, 2), put_be(0, 4);
	put_be(9, 2), put_be(1, 2), put_be((uint64_t)resolution << 24, 4), put_be(0, 4), put_be(32, 4);
}

static void expect_foreign_time(uint8_t resolution, uint64_t units, uint64_t ns)
{
	end();
	begin();
	put_foreign_head(resolution);
	put_be(PCAPNG_BLOCK_PACKET, 4), put_be(32, 4), put_be(0, 4), put_be(units, 8), put_be(0, 8), put_be(32, 4);
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	expect_block(PCAPNG_BLOCK_PACKET);
	cr_expect(eq(u64, block.packet.time_ns, ns), "resolution %u", resolution);
}

Test(pcapng, other_byte_order_and_time_resolutions)
{
	expect_foreign_time(6, UINT64_C(1700000000123456), UINT64_C(1700000000123456000));
	expect_foreign_time(9, TIME_NS, TIME_NS);
	expect_foreign_time(0, 1700000000, UINT64_C(1700000000000000000));
	expect_foreign_time(0x80 | 10, 3 << 9, UINT64_C(1500000000));
	expect_foreign_time(0, UINT64_MAX, UINT64_MAX);
	expect_foreign_time(0x80 | 64, UINT64_C(1) << 63, 500000000);
	expect_foreign_time(0x80 | 127, 7, 0);
	expect_foreign_time(12, UINT64_C(1700000000123456789), UINT64_C(1700000000123456));
	expect_foreign_time(20, UINT64_MAX, 184467440);
	expect_foreign_time(0x80 | 70, UINT64_MAX, 15624999);
}

Test(pcapng, no_pcapng_and_damage_are_named)
{
	put_be(UINT64_C(0xa1b2c3d400020004), 8), put_be(0, 8), put_be(0, 8);
	cr_expect(eq(int, pcapng_read(&reader, &block), -EBADMSG));
	cr_expect(ne(ptr, strstr(reader.error, "not a pcapng file"), NULL), "%s", reader.error);
	end();
	begin();
	write_head();
	write_packet(14, 3, (struct pcapng_packet){0});
	file[file_bytes - 4]++;
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	cr_expect(eq(int, pcapng_read(&reader, &block), -EBADMSG));
	cr_expect(ne(ptr, strstr(reader.error, "two lengths differ"), NULL), "%s", reader.error);
}

Test(pcapng, blocks_of_no_use_are_passed_over_and_counted_by_name)
{
	static const struct {
		uint32_t type;
		enum pcapng_passed passed;
	} others[] = {{4, PCAPNG_PASSED_NAMES},           {9, PCAPNG_PASSED_JOURNAL},
	              {10, PCAPNG_PASSED_SECRETS},        {0xbad, PCAPNG_PASSED_CUSTOM},
	              {0x40000bad, PCAPNG_PASSED_CUSTOM}, {0x0b16b00b, PCAPNG_PASSED_UNKNOWN}};

	put_foreign_head(9);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		put_be(others[i].type, 4), put_be(16, 4), put_be(1, 4), put_be(16, 4);
	/* A packet and statistics of interface 1, of which there is no description. */
	put_be(PCAPNG_BLOCK_PACKET, 4), put_be(32, 4), put_be(1, 4), put_be(7, 8), put_be(0, 8), put_be(32, 4);
	put_be(PCAPNG_BLOCK_STATISTICS, 4), put_be(24, 4), put_be(1, 4), put_be(7, 8), put_be(24, 4);
	put_be(PCAPNG_BLOCK_PACKET, 4), put_be(32, 4), put_be(0, 4), put_be(TIME_NS, 8), put_be(0, 8), put_be(32, 4);
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	expect_block(PCAPNG_BLOCK_PACKET);
	cr_expect(eq(u64, block.packet.time_ns, TIME_NS));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect(eq(u64, reader.passed[others[i].passed], others[i].passed == PCAPNG_PASSED_CUSTOM ? 2 : 1));
	cr_expect(eq(u64, reader.passed[PCAPNG_PASSED_PACKETS], 1));
	cr_expect(eq(u64, reader.passed[PCAPNG_PASSED_STATISTICS], 1));
}

Test(pcapng, obsolete_packets_have_a_count_of_drops_and_a_comment)
{
	put_foreign_head(9);
	put_be(PCAPNG_BLOCK_OLD_PACKET, 4), put_be(56, 4), put_be(0, 2), put_be(7, 2), put_be(TIME_NS, 8);
	put_be(3, 4), put_be(60, 4), put_be(0x61626300, 4);
	put_be(4, 2), put_be(8, 2), put_be(UINT64_MAX, 8); /* in an enhanced packet: drops */
	put_be(1, 2), put_be(1, 2), put_be(0x78000000, 4), put_be(56, 4);
	put_be(PCAPNG_BLOCK_OLD_PACKET, 4), put_be(32, 4), put_be(0xffff, 4), put_be(0, 8), put_be(0, 8), put_be(32, 4);
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	expect_block(PCAPNG_BLOCK_PACKET);
	cr_expect(eq(u64, block.packet.time_ns, TIME_NS));
	cr_expect(eq(u32, block.packet.frame_bytes[0], 3));
	cr_expect(eq(u32, block.packet.wire_bytes, 60));
	cr_expect(zero(int, memcmp(block.packet.frame[0], "abc", 3)));
	cr_expect(eq(u32, block.packet.options, PCAPNG_PACKET_HAS_DROPS));
	cr_expect(eq(u64, block.packet.drop_count, 7));
	cr_expect(block.packet.comment.bytes == 1 && block.packet.comment.at[0] == 'x');
	expect_block(PCAPNG_BLOCK_PACKET);
	cr_expect(zero(u32, block.packet.options), "not known how many were dropped");
}

Test(pcapng, simple_packets_have_no_time_and_end_at_the_limit_of_the_interface)
{
	put_foreign_head(9);
	file[file_bytes - 17] = 2; /* the limit */
	put_be(PCAPNG_BLOCK_SIMPLE_PACKET, 4), put_be(20, 4), put_be(60, 4), put_be(0x61626364, 4), put_be(20, 4);
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	cr_assert(eq(u32, block.interface.snap_bytes, 2));
	expect_block(PCAPNG_BLOCK_PACKET);
	cr_expect(eq(u32, block.packet.options, PCAPNG_PACKET_NO_TIME));
	cr_expect(eq(u32, block.packet.frame_bytes[0], 2));
	cr_expect(eq(u32, block.packet.wire_bytes, 60));
}

Test(pcapng, jump_goes_on_at_another_packet)
{
	uint64_t second;

	write_head();
	write_packet(14, 1, (struct pcapng_packet){.options = PCAPNG_PACKET_HAS_ID, .packet_id = 1});
	second = file_bytes;
	write_packet(14, 1, (struct pcapng_packet){.options = PCAPNG_PACKET_HAS_ID, .packet_id = 2});
	expect_block(PCAPNG_BLOCK_SECTION);
	expect_block(PCAPNG_BLOCK_INTERFACE);
	file_at = second;
	pcapng_reader_jump(&reader, second);
	expect_block(PCAPNG_BLOCK_PACKET);
	cr_expect(eq(u64, block.packet.packet_id, 2));
	cr_expect(eq(u64, block.offset, second));
}
