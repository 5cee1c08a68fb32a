// SPDX-License-Identifier: Apache-2.0
/*
 * A file that somebody calls pcapng: what the reader finds lies within its block. Then the writer writes what was read,
 * and the reader has to find the same in that. Last, `ibvcap info` judges the file: it is complete only if each of its
 * interfaces has an account that says so.
 */
#include "lib/recording/pcapng.h"
#include "lib/recording/pcapng_read.h"
#include "tools/inspect/inspect_file.h"

#include <stdlib.h>

#define BLOCKS_MAX 1000

struct memory {
	const uint8_t *at;
	size_t bytes;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t read_memory(void *context, void *to, size_t n)
{
	struct memory *memory = context;

	n = n < memory->bytes ? n : memory->bytes;
	memcpy(to, memory->at, n);
	memory->at += n;
	memory->bytes -= n;
	return (ssize_t)n;
}

static void expect(bool is_so)
{
	if (!is_so)
		abort();
}

/* Reads each byte of it, so that AddressSanitizer sees a text that leads out of the buffer. */
static void look_at_text(const struct pcapng_block *block, struct pcapng_text text)
{
	const char *begin = (const char *)block->at;

	expect(!text.at || (text.at >= begin && text.at + text.bytes <= begin + block->bytes));
}

static bool same_text(struct pcapng_text a, struct pcapng_text b)
{
	return !a.at == !b.at && a.bytes == b.bytes && (!a.bytes || !memcmp(a.at, b.at, a.bytes));
}

/* Read the one block of bytes in a section with one interface. */
static void read_back(const uint8_t *bytes, size_t n, struct pcapng_reader *reader, struct pcapng_block *back)
{
	static uint8_t file[1 << 18];
	const struct pcapng_section section = {0};
	const struct pcapng_interface interface = {.link_type = PCAPNG_LINK_ETHERNET};
	struct memory memory = {.at = file};

	memory.bytes = pcapng_write_section(file, sizeof(file), &section);
	memory.bytes += pcapng_write_interface(file + memory.bytes, sizeof(file) - memory.bytes, &interface);
	memcpy(file + memory.bytes, bytes, n);
	memory.bytes += n;
	pcapng_reader_init(reader, read_memory, &memory);
	for (int i = 0; i < 3; i++)
		expect(pcapng_read(reader, back) == 1);
}

static void check_packet(const struct pcapng_block *block)
{
	static uint8_t bytes[1 << 17];
	struct pcapng_packet packet = block->packet;
	struct pcapng_reader reader;
	struct pcapng_block back;
	size_t n;

	expect(packet.frame[0] >= block->at && packet.frame[0] + packet.frame_bytes[0] <= block->at + block->bytes);
	look_at_text(block, packet.comment);
	packet.interface = 0;
	packet.options &= ~(uint32_t)PCAPNG_PACKET_NO_TIME; /* each packet that is written has one */
	n = pcapng_write_packet(bytes, sizeof(bytes), &packet);
	if (n > sizeof(bytes))
		return;
	read_back(bytes, n, &reader, &back);
	expect(back.type == PCAPNG_BLOCK_PACKET && back.packet.time_ns == packet.time_ns &&
	       back.packet.frame_bytes[0] == packet.frame_bytes[0] && back.packet.wire_bytes == packet.wire_bytes &&
	       !memcmp(back.packet.frame[0], packet.frame[0], packet.frame_bytes[0]) &&
	       back.packet.options == packet.options && back.packet.packet_id == packet.packet_id &&
	       back.packet.drop_count == packet.drop_count && back.packet.queue == packet.queue &&
	       same_text(back.packet.comment, packet.comment));
	pcapng_reader_deinit(&reader);
}

static void check_statistics(const struct pcapng_block *block)
{
	static uint8_t bytes[1 << 17];
	struct pcapng_statistics statistics = block->statistics;
	struct pcapng_reader reader;
	struct pcapng_block back;
	size_t n;

	look_at_text(block, statistics.comment);
	statistics.interface = 0;
	n = pcapng_write_statistics(bytes, sizeof(bytes), &statistics);
	expect(n <= sizeof(bytes));
	read_back(bytes, n, &reader, &back);
	expect(back.type == PCAPNG_BLOCK_STATISTICS && back.statistics.values_set == statistics.values_set &&
	       !memcmp(back.statistics.values, statistics.values, sizeof(statistics.values)) &&
	       back.statistics.start_ns == statistics.start_ns &&
	       same_text(back.statistics.comment, statistics.comment));
	pcapng_reader_deinit(&reader);
}

static void check_interface(const struct pcapng_block *block)
{
	static uint8_t bytes[1 << 19];
	struct pcapng_reader reader;
	struct pcapng_block back;
	size_t n;

	look_at_text(block, block->interface.name);
	look_at_text(block, block->interface.filter);
	look_at_text(block, block->interface.comment);
	n = pcapng_write_interface(bytes, sizeof(bytes), &block->interface);
	if (n > 1 << 17)
		return;
	read_back(bytes, n, &reader, &back);
	expect(back.type == PCAPNG_BLOCK_INTERFACE && same_text(back.interface.name, block->interface.name) &&
	       same_text(back.interface.hardware, block->interface.hardware) &&
	       same_text(back.interface.comment, block->interface.comment) &&
	       back.interface.speed_bps == block->interface.speed_bps);
	pcapng_reader_deinit(&reader);
}

static void check_verdict(const struct verdict *finding, const struct inspect_sum *sum)
{
	expect(finding->reasons[0]);
	for (uint32_t i = 0; finding->worst == FINDING_NOTE && i < sum->n_sources; i++) {
		const struct inspect_source *source = &sum->sources[i];

		expect(source->account_state == INSPECT_ACCOUNT_READ && source->account.rx.unknown == 0 &&
		       recording_account_missing(&source->account) == 0 &&
		       source->account.sum.written == source->n_packets);
	}
	expect(finding->worst != FINDING_NOTE || (sum->n_sources && sum->has_closing));
}

static void judge(struct memory memory)
{
	static struct inspect_numbers numbers;
	struct verdict finding;
	struct inspect_sum sum = {0};
	struct pcapng_reader reader;
	struct pcapng_block block;
	int r = 0;

	pcapng_reader_init(&reader, read_memory, &memory);
	for (int i = 0; i < BLOCKS_MAX && (r = pcapng_read(&reader, &block)) > 0; i++) {
		inspect_sum_add(&sum, &block);
		inspect_numbers_add(&numbers, &sum, &block);
	}
	inspect_numbers_end(&numbers, &sum);
	inspect_judge(&finding, &sum, &numbers, r > 0 ? 0 : r, reader.error);
	check_verdict(&finding, &sum);
	inspect_numbers_free(&numbers);
	inspect_sum_free(&sum);
	pcapng_reader_deinit(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory memory = {.at = data, .bytes = size};
	struct pcapng_reader reader;
	struct pcapng_block block;

	pcapng_reader_init(&reader, read_memory, &memory);
	for (int i = 0; i < BLOCKS_MAX && pcapng_read(&reader, &block) > 0; i++) {
		if (block.type == PCAPNG_BLOCK_PACKET)
			check_packet(&block);
		else if (block.type == PCAPNG_BLOCK_STATISTICS)
			check_statistics(&block);
		else if (block.type == PCAPNG_BLOCK_INTERFACE)
			check_interface(&block);
		else if (block.type == PCAPNG_BLOCK_SECTION)
			look_at_text(&block, block.section.comment);
	}
	pcapng_reader_deinit(&reader);
	judge((struct memory){.at = data, .bytes = size});
	return 0;
}
