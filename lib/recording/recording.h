// SPDX-License-Identifier: Apache-2.0
/*
 * Reads capture files of any program as blocks: pcapng, and pcap in the form of pcapng, compressed or not; from the
 * beginning, or from a place that the index of a recording has.
 */
#ifndef LIB_RECORDING_RECORDING_H
#define LIB_RECORDING_RECORDING_H

#include "lib/recording/pcap_file.h"
#include "lib/recording/pcapng_read.h"
#include "lib/recording/unpack.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORDING_HEAD_BYTES PCAP_FILE_HEAD_BYTES /* the longest that is looked at */

struct recording {
	const char *path;
	struct unpack unpack;
	uint8_t head[RECORDING_HEAD_BYTES]; /* the first unpacked bytes, which say what the file is */
	size_t head_bytes;
	size_t head_read;       /* of these: given to the reader */
	int head_failed;        /* -errno of what followed the head; 0 */
	struct pcap_file *pcap; /* NULL: a pcapng file, or none that is known */
	struct pcapng_reader reader;
};

/** Open a file; "-" is standard input. Reads its first bytes, whatever it is. 0 or -errno. */
int recording_open(struct recording *recording, const char *path);

/** Do its first bytes say that it is a capture file? */
bool recording_is_one(const struct recording *recording);

/** Is it an index? A pattern such as a.* names the index beside a recording, too. */
bool recording_is_index(const struct recording *recording);

/** Does the file end within a compressed frame, so that it was cut off? Only after recording_next() has returned 0. */
bool recording_is_cut_off(const struct recording *recording);

/**
 * Say why a file is no capture that can be read, and, if a program makes one of it, the command. reader_command: that
 * reads a capture from standard input.
 */
void recording_explain(const struct recording *recording, const char *reader_command, char *text, size_t bytes);

/** Any state but uninitialised. */
void recording_close(struct recording *recording);

/** The next block: as pcapng_read(). After a failure recording_error() names the fault. */
int recording_next(struct recording *recording, struct pcapng_block *block);
const char *recording_error(const struct recording *recording);

/** Can recording_jump() go to a place of this file? Not in what is compressed or a pipe. */
bool recording_can_jump(const struct recording *recording);

/**
 * Go on at offset of the file, where its index says that a piece begins. The interfaces before offset have been read. 0
 * or -errno.
 */
int recording_jump(struct recording *recording, uint64_t offset);

#endif
