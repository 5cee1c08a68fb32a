// SPDX-License-Identifier: Apache-2.0
/*
 * Reads a pcapng file block by block, in any byte order and time resolution, from a source that the caller gives:
 * a file, a pipe, a decompressor, memory. Nothing in the file is trusted.
 */
#ifndef LIB_RECORDING_PCAPNG_READ_H
#define LIB_RECORDING_PCAPNG_READ_H

#include "lib/recording/pcapng.h"

#include <sys/types.h>

#define PCAPNG_ERROR_BYTES 160
#define PCAPNG_BLOCK_MAX   (16u << 20) /* a longer block is taken for damage; Wireshark has the same limit */

/* Read up to n bytes. The number read; 0 at the end; -errno. */
typedef ssize_t pcapng_source(void *context, void *to, size_t n);

#define PCAPNG_INTERFACES_MAX 16384 /* in all sections together: a file with more is damaged, or an attack on memory */

/* What the packets of an interface need. */
struct pcapng_clock {
	uint8_t resolution; /* as in the file: 10^-n s, or 2^-n s with bit 7 set */
	int64_t offset_s;
	uint32_t snap_bytes; /* 0: no limit */
};

/* Blocks that pcapng_read() passes over, and counts. */
enum pcapng_passed {
	PCAPNG_PASSED_NAMES,
	PCAPNG_PASSED_SECRETS,
	PCAPNG_PASSED_JOURNAL,
	PCAPNG_PASSED_CUSTOM,
	PCAPNG_PASSED_UNKNOWN,
	PCAPNG_PASSED_PACKETS,    /* of an interface that the section does not describe */
	PCAPNG_PASSED_STATISTICS, /* likewise */
	PCAPNG_PASSED_N,
};

/* For programs and for people. */
struct pcapng_passed_label {
	const char *key;
	const char *text;
};

extern const struct pcapng_passed_label pcapng_passed_labels[PCAPNG_PASSED_N];

struct pcapng_reader {
	pcapng_source *read;
	void *context;
	uint8_t *buffer;
	size_t buffer_bytes;
	size_t begin; /* start of the unread bytes in the buffer */
	size_t end;
	uint64_t offset; /* in the source, of the next block */
	bool in_section;
	bool is_swapped;             /* the section has the other byte order than this machine */
	struct pcapng_clock *clocks; /* one for each interface of the section */
	uint32_t n_interfaces;       /* in the section */
	uint32_t n_interfaces_all;   /* so far */
	uint64_t n_sections;         /* so far */
	uint64_t passed[PCAPNG_PASSED_N];
	char error[PCAPNG_ERROR_BYTES]; /* the fault, after a negative result */
};

/* Pointers in it are valid until the next block is read. */
struct pcapng_block {
	uint32_t type;   /* of a section, an interface, statistics or a packet; this one is of any of three forms */
	uint32_t bytes;  /* length of the whole block */
	uint64_t offset; /* where it begins in the source */
	const uint8_t *at;
	union {
		struct pcapng_section section;
		struct pcapng_interface interface;
		struct pcapng_packet packet;
		struct pcapng_statistics statistics;
	};
};

/** Zero the reader and set its source. No memory is taken before the first block. */
void pcapng_reader_init(struct pcapng_reader *reader, pcapng_source *read, void *context);
void pcapng_reader_deinit(struct pcapng_reader *reader);

/**
 * Read the next block that has fields here, and pass over others. 1; 0: the source ended behind a block. -ENODATA: it
 * ended within a block: the file is cut off. -EBADMSG: this is no pcapng file, or it is damaged. -ENOMEM; another
 * -errno of the source.
 */
int pcapng_read(struct pcapng_reader *reader, struct pcapng_block *block);

/**
 * The caller has moved the source to offset, where a block of the same section begins: forget the bytes that were read
 * ahead, and keep the interfaces.
 */
void pcapng_reader_jump(struct pcapng_reader *reader, uint64_t offset);

#endif
