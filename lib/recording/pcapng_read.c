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

static int decode_block(struct pcapng_reader *reader, struct pcapng_block *block)
{
	const struct decode_body body = {.at = block->at + 8,
	                                 .bytes = block->bytes - BLOCK_BYTES_MIN,
	                                 .is_swapped = reader->is_swapped,
	                                 .clocks = reader->clocks,
	                                 .n_interfaces = reader->n_interfaces};
	struct pcapng_clock clock;
	bool ok = true;

	switch (block->type) {
	case PCAPNG_BLOCK_SECTION:
		reader->in_section = true;
		reader->n_interfaces = 0;
		reader->n_sections++;
		ok = decode_section(&body, &block->section);
		break;
	case PCAPNG_BLOCK_INTERFACE:
		ok = decode_interface(&body, &block->interface, &clock);
		if (ok)
			return add_interface(reader, &clock);
		break;
	case PCAPNG_BLOCK_PACKET:
		ok = decode_packet(&body, &block->packet);
		break;
	case PCAPNG_BLOCK_STATISTICS:
		ok = decode_statistics(&body, &block->statistics);
		break;
	}
	return ok ? 0 : read_fail(reader, -EBADMSG, "a block that contradicts itself");
}

int pcapng_read(struct pcapng_reader *reader, struct pcapng_block *block)
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
	return 1;
}
