// SPDX-License-Identifier: Apache-2.0
/* Cuts a source into pcapng blocks, and checks their lengths: both of a block agree, and it holds its fixed fields. */
#include "lib/recording/pcapng_read.h"

#include "lib/recording/pcapng_decode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define READ_AHEAD_BYTES (256u << 10)
#define BLOCK_HEAD_BYTES 12u /* type, length, and the byte order of a section */
#define BLOCK_BYTES_MIN  12u

void pcapng_reader_init(struct pcapng_reader *reader, pcapng_source *read, void *context)
{
	*reader = (struct pcapng_reader){.read = read, .context = context};
}

void pcapng_reader_deinit(struct pcapng_reader *reader)
{
	free(reader->buffer);
	free(reader->clocks);
	*reader = (struct pcapng_reader){0};
}

void pcapng_reader_jump(struct pcapng_reader *reader, uint64_t offset)
{
	reader->begin = 0;
	reader->end = 0;
	reader->offset = offset;
}

static int read_fail(struct pcapng_reader *reader, int error, const char *what)
{
	snprintf(reader->error, sizeof(reader->error), "at byte %" PRIu64 ": %s", reader->offset, what);
	return error;
}

/* Make room for `bytes` behind begin. */
static int make_read_room(struct pcapng_reader *reader, size_t bytes)
{
	size_t held = reader->end - reader->begin;
	uint8_t *buffer;

	if (reader->begin)
		memmove(reader->buffer, reader->buffer + reader->begin, held);
	reader->begin = 0;
	reader->end = held;
	if (bytes <= reader->buffer_bytes)
		return 0;
	bytes = bytes > READ_AHEAD_BYTES ? bytes : READ_AHEAD_BYTES;
	buffer = realloc(reader->buffer, bytes);
	if (!buffer)
		return read_fail(reader, -ENOMEM, "no memory for a block");
	reader->buffer = buffer;
	reader->buffer_bytes = bytes;
	return 0;
}

/* Read until the buffer has `bytes`. 1; 0: the source ended before; -errno. */
static int fill_buffer(struct pcapng_reader *reader, size_t bytes)
{
	ssize_t n;
	int r;

	if (reader->end - reader->begin >= bytes)
		return 1;
	if (reader->buffer_bytes - reader->begin < bytes) {
		r = make_read_room(reader, bytes);
		if (r < 0)
			return r;
	}
	while (reader->end - reader->begin < bytes) {
		n = reader->read(reader->context, reader->buffer + reader->end, reader->buffer_bytes - reader->end);
		if (n < 0)
			return read_fail(reader, (int)n, strerror((int)-n));
		if (n == 0)
			return 0;
		reader->end += (size_t)n;
	}
	return 1;
}

/* The length of the block at begin, of which the head is there. A section header says the byte order of what follows.
 */
static int check_block_head(struct pcapng_reader *reader, uint32_t *type, uint32_t *bytes)
{
	const uint8_t *head = reader->buffer + reader->begin;

	*type = decode_u32(head, reader->is_swapped);
	if (decode_u32(head, false) == PCAPNG_BLOCK_SECTION) { /* the same in both byte orders */
		*type = PCAPNG_BLOCK_SECTION;
		reader->is_swapped = decode_u32(head + 8, false) != PCAPNG_BYTE_ORDER;
		if (decode_u32(head + 8, reader->is_swapped) != PCAPNG_BYTE_ORDER)
			return read_fail(reader, -EBADMSG, "a section header without a byte order");
	} else if (!reader->in_section) {
		return read_fail(reader, -EBADMSG, "not a pcapng file: it has no section header here");
	}
	*bytes = decode_u32(head + 4, reader->is_swapped);
	if (*bytes < BLOCK_BYTES_MIN || *bytes % 4 || *bytes > PCAPNG_BLOCK_MAX)
		return read_fail(reader, -EBADMSG, "a block whose length is impossible");
	return 0;
}

/* Remember the clock of an interface of the section. */
static int add_interface(struct pcapng_reader *reader, const struct pcapng_clock *clock)
{
	struct pcapng_clock *clocks = reader->clocks;

	if (++reader->n_interfaces_all > PCAPNG_INTERFACES_MAX)
		return read_fail(reader, -EBADMSG, "too many interfaces: more than 16384");
	/* Grow at powers of two. */
	if ((reader->n_interfaces & (reader->n_interfaces - 1)) == 0) {
		clocks = realloc(clocks,
		                 (reader->n_interfaces ? 2 * (size_t)reader->n_interfaces : 1) * sizeof(*clocks));
		if (!clocks)
			return read_fail(reader, -ENOMEM, "no memory for an interface");
		reader->clocks = clocks;
	}
	clocks[reader->n_interfaces++] = *clock;
	return 0;
}

/* ---- one block ------------------------------------------------------------------------------------- */

const struct pcapng_passed_label pcapng_passed_labels[] = {
	[PCAPNG_PASSED_NAMES] = {"names", "blocks of host names"},
	[PCAPNG_PASSED_SECRETS] = {"secrets", "blocks of decryption secrets"},
	[PCAPNG_PASSED_JOURNAL] = {"journal", "blocks of systemd's journal"},
	[PCAPNG_PASSED_CUSTOM] = {"custom", "custom blocks"},
	[PCAPNG_PASSED_UNKNOWN] = {"unknown", "blocks of types that are not known here"},
	[PCAPNG_PASSED_PACKETS] = {"stray_packets", "packets of interfaces that the file does not describe"},
	[PCAPNG_PASSED_STATISTICS] = {"stray_statistics", "statistics of interfaces that the file does not describe"},
};
_Static_assert(sizeof(pcapng_passed_labels) / sizeof(pcapng_passed_labels[0]) == PCAPNG_PASSED_N, "one label each");

/* Of a block without fields here. */
static enum pcapng_passed passed_of_type(uint32_t type)
{
	switch (type) {
	case PCAPNG_BLOCK_NAMES:
		return PCAPNG_PASSED_NAMES;
	case PCAPNG_BLOCK_SECRETS:
		return PCAPNG_PASSED_SECRETS;
	case PCAPNG_BLOCK_JOURNAL:
		return PCAPNG_PASSED_JOURNAL;
	case PCAPNG_BLOCK_CUSTOM:
	case PCAPNG_BLOCK_CUSTOM_UNCOPIED:
		return PCAPNG_PASSED_CUSTOM;
	default:
		return PCAPNG_PASSED_UNKNOWN;
	}
}

/* 1; 0: nothing of it can be used, and it was counted; negative: as pcapng_read(). */
static int read_interface_block(struct pcapng_reader *reader, const struct decode_body *body,
                                struct pcapng_block *block)
{
	struct pcapng_clock clock;
	int failed;

	if (!decode_interface(body, &block->interface, &clock))
		return read_fail(reader, -EBADMSG, "a block that contradicts itself");
	failed = add_interface(reader, &clock);
	return failed < 0 ? failed : 1;
}

/* Likewise. */
static int read_of_interface(struct pcapng_reader *reader, bool ok, uint32_t interface, enum pcapng_passed passed)
{
	if (!ok)
		return read_fail(reader, -EBADMSG, "a block that contradicts itself");
	if (interface < reader->n_interfaces)
		return 1;
	reader->passed[passed]++;
	return 0;
}

/* Likewise. */
static int read_packet_block(struct pcapng_reader *reader, const struct decode_body *body, struct pcapng_block *block)
{
	struct pcapng_packet *packet = &block->packet;
	bool ok = block->type == PCAPNG_BLOCK_PACKET       ? decode_packet(body, packet)
	          : block->type == PCAPNG_BLOCK_OLD_PACKET ? decode_old_packet(body, packet)
	                                                   : decode_simple_packet(body, packet);

	block->type = PCAPNG_BLOCK_PACKET;
	return read_of_interface(reader, ok, packet->interface, PCAPNG_PASSED_PACKETS);
}

/* Likewise. */
static int decode_block(struct pcapng_reader *reader, struct pcapng_block *block)
{
	const struct decode_body body = {.at = block->at + 8,
	                                 .bytes = block->bytes - BLOCK_BYTES_MIN,
	                                 .is_swapped = reader->is_swapped,
	                                 .clocks = reader->clocks,
	                                 .n_interfaces = reader->n_interfaces};
	bool ok;

	switch (block->type) {
	case PCAPNG_BLOCK_SECTION:
		reader->in_section = true;
		reader->n_interfaces = 0;
		reader->n_sections++;
		ok = decode_section(&body, &block->section);
		return ok ? 1 : read_fail(reader, -EBADMSG, "a section of a version that is not known here");
	case PCAPNG_BLOCK_INTERFACE:
		return read_interface_block(reader, &body, block);
	case PCAPNG_BLOCK_PACKET:
	case PCAPNG_BLOCK_OLD_PACKET:
	case PCAPNG_BLOCK_SIMPLE_PACKET:
		return read_packet_block(reader, &body, block);
	case PCAPNG_BLOCK_STATISTICS:
		ok = decode_statistics(&body, &block->statistics);
		return read_of_interface(reader, ok, block->statistics.interface, PCAPNG_PASSED_STATISTICS);
	default:
		reader->passed[passed_of_type(block->type)]++;
		return 0;
	}
}

/* 1; 0: the source ended behind the block before; 2: the block was passed over; negative: as pcapng_read(). */
static int read_block(struct pcapng_reader *reader, struct pcapng_block *block)
{
	int r = fill_buffer(reader, BLOCK_HEAD_BYTES);

	if (r == 0 && reader->end == reader->begin)
		return 0;
	if (r == 0)
		return read_fail(reader, -ENODATA, "the file ends within a block");
	*block = (struct pcapng_block){.offset = reader->offset};
	if (r > 0)
		r = check_block_head(reader, &block->type, &block->bytes);
	if (r < 0)
		return r;
	r = fill_buffer(reader, block->bytes);
	if (r <= 0)
		return r < 0 ? r : read_fail(reader, -ENODATA, "the file ends within a block");
	block->at = reader->buffer + reader->begin;
	if (decode_u32(block->at + block->bytes - 4, reader->is_swapped) != block->bytes)
		return read_fail(reader, -EBADMSG, "a block whose two lengths differ");
	r = decode_block(reader, block);
	if (r < 0)
		return r;
	reader->begin += block->bytes;
	reader->offset += block->bytes;
	return r ? 1 : 2;
}

int pcapng_read(struct pcapng_reader *reader, struct pcapng_block *block)
{
	int r;

	do
		r = read_block(reader, block);
	while (r == 2);
	return r;
}
