// SPDX-License-Identifier: Apache-2.0
/*
 * The blocks of a pcapng file (draft-ietf-opsawg-pcapng) as structs, the same for writing and for reading. Only
 * standard blocks and options: Wireshark shows a custom block as a packet without a time.
 *
 * What ibvcap writes: a section header; an interface for each queue of a stream; packets, whose packet_id is the number
 * of the row in its ring, and whose drop_count is how many packets are missing before it, with a comment that says why;
 * at the end statistics of each interface, and a second section that has nothing but a comment: the loss sum of the
 * whole file. capinfos prints the comments of sections, and nothing else that has the sum. A file without it was not
 * closed. Declares pcapng_write.c.
 */
#ifndef LIB_RECORDING_PCAPNG_H
#define LIB_RECORDING_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum pcapng_block_type {
	PCAPNG_BLOCK_INTERFACE = 1,
	PCAPNG_BLOCK_OLD_PACKET = 2,
	PCAPNG_BLOCK_SIMPLE_PACKET = 3,
	PCAPNG_BLOCK_NAMES = 4,
	PCAPNG_BLOCK_STATISTICS = 5,
	PCAPNG_BLOCK_PACKET = 6,
	PCAPNG_BLOCK_JOURNAL = 9,
	PCAPNG_BLOCK_SECRETS = 10,
	PCAPNG_BLOCK_CUSTOM = 0xbad,
	PCAPNG_BLOCK_CUSTOM_UNCOPIED = 0x40000bad, /* a program that changes the file has to leave it out */
	PCAPNG_BLOCK_SECTION = 0x0a0d0d0a,
};

#define PCAPNG_BYTE_ORDER    0x1a2b3c4du /* in each section header */
#define PCAPNG_LINK_ETHERNET 1u
#define PCAPNG_OPTIONS_MAX   65532u /* bytes of one option */

/* Text without a closing NUL. at NULL: the option is absent. */
struct pcapng_text {
	const char *at;
	size_t bytes;
};

static inline struct pcapng_text pcapng_text_of(const char *string)
{
	return (struct pcapng_text){.at = string, .bytes = string ? strlen(string) : 0};
}

struct pcapng_section {
	struct pcapng_text hardware;
	struct pcapng_text os;
	struct pcapng_text application;
	struct pcapng_text comment;
};

/** Did ibvcap write the section, or the one that it was extracted from? Pure. */
static inline bool pcapng_section_is_ours(const struct pcapng_section *section)
{
	return section->application.bytes > strlen("ibvcap ") &&
	       !memcmp(section->application.at, "ibvcap ", strlen("ibvcap "));
}

struct pcapng_interface {
	uint16_t link_type;
	uint32_t snap_bytes; /* 0: no limit */
	struct pcapng_text name;
	struct pcapng_text description;
	struct pcapng_text hardware;
	struct pcapng_text os;
	struct pcapng_text filter; /* which packets, as libpcap writes it or in words */
	struct pcapng_text comment;
	uint64_t speed_bps; /* 0: unknown */
};

enum pcapng_packet_option {
	PCAPNG_PACKET_HAS_ID = 1 << 0,
	PCAPNG_PACKET_HAS_QUEUE = 1 << 1,
	PCAPNG_PACKET_HAS_DROPS = 1 << 2,
	PCAPNG_PACKET_NO_TIME = 1 << 3, /* of a reader: the file has none for it, or one that there is not */
};

struct pcapng_packet {
	uint32_t interface; /* index in the section */
	uint32_t options;   /* enum pcapng_packet_option: which of the next three are there */
	uint64_t packet_id;
	uint64_t drop_count; /* packets lost between the one before of this interface and this one */
	uint32_t queue;
	uint32_t wire_bytes;
	uint64_t time_ns; /* since 1970 UTC */
	/* The frame, in up to two pieces, of which the second may be empty; a reader sets only the first. */
	const uint8_t *frame[2];
	uint32_t frame_bytes[2];
	/* Written at this byte of the frame, unless it is cut off before; 0: the pieces are the frame. */
	uint32_t checksum_at;
	uint16_t checksum;
	struct pcapng_text comment;
};

enum pcapng_statistic {
	PCAPNG_STATISTIC_RECEIVED,        /* by the interface */
	PCAPNG_STATISTIC_DROPPED,         /* by the interface, for want of room */
	PCAPNG_STATISTIC_FILTER_ACCEPTED, /* matched the flow rules */
	PCAPNG_STATISTIC_OS_DROPPED,
	PCAPNG_STATISTIC_DELIVERED, /* to the file */
	PCAPNG_STATISTIC_N,
};

struct pcapng_statistics {
	uint32_t interface;
	uint32_t values_set; /* bit i: values[i] is there */
	uint64_t time_ns;
	uint64_t start_ns; /* 0: absent */
	uint64_t end_ns;
	uint64_t values[PCAPNG_STATISTIC_N];
	struct pcapng_text comment;
};

/* The options that are written and read. Numbers from 2 on have another meaning in each type of block. */
enum pcapng_option {
	PCAPNG_OPTION_END = 0,
	PCAPNG_OPTION_COMMENT = 1,

	PCAPNG_SECTION_HARDWARE = 2,
	PCAPNG_SECTION_OS = 3,
	PCAPNG_SECTION_APPLICATION = 4,

	PCAPNG_INTERFACE_NAME = 2,
	PCAPNG_INTERFACE_DESCRIPTION = 3,
	PCAPNG_INTERFACE_SPEED = 8,
	PCAPNG_INTERFACE_TIME_RESOLUTION = 9,
	PCAPNG_INTERFACE_FILTER = 11,
	PCAPNG_INTERFACE_OS = 12,
	PCAPNG_INTERFACE_TIME_OFFSET = 14,
	PCAPNG_INTERFACE_HARDWARE = 15,

	PCAPNG_PACKET_DROPS = 4,
	PCAPNG_PACKET_ID = 5,
	PCAPNG_PACKET_QUEUE = 6,

	PCAPNG_STATISTICS_START = 2,
	PCAPNG_STATISTICS_END = 3,
	PCAPNG_STATISTICS_FIRST_VALUE = 4, /* of enum pcapng_statistic, in its order */
};

/*
 * These write a block into memory of the caller, in the byte order of this machine and with times in ns. They return
 * the size of the block, a multiple of 4, and write nothing if that is more than room. A text that is longer than an
 * option can be is cut off. Pure.
 */
size_t pcapng_write_section(uint8_t *to, size_t room, const struct pcapng_section *section);
size_t pcapng_write_interface(uint8_t *to, size_t room, const struct pcapng_interface *interface);
size_t pcapng_write_packet(uint8_t *to, size_t room, const struct pcapng_packet *packet);
size_t pcapng_write_statistics(uint8_t *to, size_t room, const struct pcapng_statistics *statistics);

#endif
