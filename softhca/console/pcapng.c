// SPDX-License-Identifier: Apache-2.0
/* pcapng (draft-ietf-opsawg-pcapng): blocks of 32-bit words in the byte order of this machine. */
#include "pcapng.h"

#include "../device/trace.h"

#include <string.h>

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_PACKET = 6 };
enum { OPTION_END = 0, OPTION_COMMENT = 1, OPTION_IF_NAME = 2, OPTION_IF_DESCRIPTION = 3, OPTION_IF_TSRESOL = 9 };
enum { OPTION_PACKET_FLAGS = 2, FLAG_INBOUND = 1, FLAG_OUTBOUND = 2 };
#define LINKTYPE_ETHERNET 1
#define NANOSECONDS       9

/* A block that is being made: its body, behind type and length. */
struct block {
	size_t bytes;
	uint8_t body[TRACE_PACKET_BYTES + 1024];
};

static void block_add(struct block *b, const void *p, size_t bytes)
{
	static const uint8_t zeros[4];

	memcpy(b->body + b->bytes, p, bytes);
	b->bytes += bytes;
	memcpy(b->body + b->bytes, zeros, -bytes & 3);
	b->bytes += -bytes & 3;
}

static void block_add_option(struct block *b, uint16_t code, const void *value, size_t bytes)
{
	const uint16_t head[2] = {code, (uint16_t)bytes};

	block_add(b, head, sizeof(head));
	block_add(b, value, bytes);
}

static bool block_write(const struct block *b, uint32_t type, FILE *file)
{
	const uint32_t length = (uint32_t)b->bytes + 12, head[2] = {type, length};

	return fwrite(head, sizeof(head), 1, file) == 1 && fwrite(b->body, b->bytes, 1, file) == 1 &&
	       fwrite(&length, sizeof(length), 1, file) == 1 && !fflush(file);
}

bool pcapng_begin(struct pcapng *p, FILE *file)
{
	static const struct {
		uint32_t magic;
		uint16_t major, minor;
		int64_t length; /* not known */
	} section = {0x1a2b3c4d, 1, 0, -1};
	struct block b = {};

	*p = (struct pcapng){.file = file};
	block_add(&b, &section, sizeof(section));
	return block_write(&b, BLOCK_SECTION, file);
}

bool pcapng_add_interface(struct pcapng *p, const char *name, const char *netdev)
{
	static const uint32_t fixed[2] = {LINKTYPE_ETHERNET, 0};
	const uint8_t resolution = NANOSECONDS;
	struct block b = {};

	block_add(&b, fixed, sizeof(fixed));
	block_add_option(&b, OPTION_IF_NAME, name, strlen(name));
	block_add_option(&b, OPTION_IF_DESCRIPTION, netdev, strlen(netdev));
	block_add_option(&b, OPTION_IF_TSRESOL, &resolution, sizeof(resolution));
	block_add_option(&b, OPTION_END, "", 0);
	return block_write(&b, BLOCK_INTERFACE, p->file);
}

static bool pcapng_write_frame(struct pcapng *p, const struct trace_frame *f, const uint8_t *bytes)
{
	const uint32_t flags = f->flags & TRACE_FRAME_SENT ? FLAG_OUTBOUND : FLAG_INBOUND;
	const uint32_t fixed[5] = {f->device, (uint32_t)(f->realtime_ns >> 32), (uint32_t)f->realtime_ns, f->caught,
	                           f->bytes};
	struct block b = {};

	block_add(&b, fixed, sizeof(fixed));
	block_add(&b, bytes, f->caught);
	block_add_option(&b, OPTION_PACKET_FLAGS, &flags, sizeof(flags));
	if (*p->mark)
		block_add_option(&b, OPTION_COMMENT, p->mark, strlen(p->mark));
	*p->mark = 0;
	block_add_option(&b, OPTION_END, "", 0);
	return block_write(&b, BLOCK_PACKET, p->file);
}

/* Several bookmarks before a frame become one comment of several lines. */
static void pcapng_keep_mark(struct pcapng *p, const uint8_t *text, size_t bytes)
{
	size_t n = strlen(p->mark);

	snprintf(p->mark + n, sizeof(p->mark) - n, "%s%.*s", n ? "\n" : "", (int)bytes, (const char *)text);
}

bool pcapng_write(struct pcapng *p, const void *records, size_t bytes)
{
	const uint8_t *at = records, *end = at + bytes;
	struct trace_frame f;

	while ((size_t)(end - at) >= sizeof(f)) {
		memcpy(&f, at, sizeof(f));
		at += sizeof(f);
		if (f.caught > end - at)
			return false;
		if (f.flags & TRACE_FRAME_MARK)
			pcapng_keep_mark(p, at, f.caught);
		else if (!pcapng_write_frame(p, &f, at))
			return false;
		at += f.caught;
	}
	return true;
}
