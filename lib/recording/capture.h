// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the packets of a pcap or pcapng file, or of a raw recording, in their order, and the file's notes about packets
 * that it lacks.
 */
#ifndef LIB_RECORDING_CAPTURE_H
#define LIB_RECORDING_CAPTURE_H

#include "lib/recording/datagram.h"
#include "lib/recording/joiner.h"
#include "lib/recording/raw_recording.h"
#include "lib/recording/recording.h"

#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_TEXT_BYTES 400

struct capture_interface;

/* Where the packets have their number, as the file says. */
enum capture_numbers {
	CAPTURE_NUMBERS_UNKNOWN, /* it does not say */
	CAPTURE_NUMBERS_KNOWN,
	CAPTURE_NUMBERS_DIFFER,    /* its streams have different descriptions */
	CAPTURE_NUMBERS_IN_FRAMES, /* in frames that may be other than UDP: offsets count from the frame */
};

struct capture {
	const char *path;
	struct recording recording; /* a pcapng or pcap file, compressed or not */
	struct raw_recording *raw;  /* of `record --raw`; NULL: another file */
	struct joiner joiner;       /* of the fragments of datagrams */
	struct capture_interface *interfaces;
	uint32_t n_interfaces;        /* in the section */
	bool is_pipe;                 /* its data comes at any time, and can be read only once */
	uint64_t n_packets;           /* read so far */
	uint64_t n_untimed;           /* of these: without a time; they get that of the packet before */
	uint64_t n_gaps;              /* packets before which the file names losses */
	uint64_t n_lost;              /* packets lost there */
	uint64_t n_dropped;           /* packets lost in all, by the statistics of its interfaces */
	uint64_t last_ns;             /* the time of the last packet */
	enum capture_numbers numbers; /* of the interfaces so far, which are ahead of the packets */
	struct ibvcap_sequence sequence;
	uint32_t unknown_link; /* the link type of the first packet whose link is not known */
	char error[CAPTURE_TEXT_BYTES];
};

struct capture_packet {
	uint64_t time_ns;     /* UTC, as the file says */
	const uint8_t *frame; /* until the next is read */
	enum datagram_link link;
	uint32_t captured;
	uint32_t wire_bytes;
};

/**
 * Open a file. reader_command: see recording_explain(). 0; EX_NOINPUT if it cannot be opened; EX_DATAERR if it is no
 * capture. In these cases capture->error says why.
 */
int capture_open(struct capture *capture, const char *path, const char *reader_command);

/**
 * Read the next packet. A datagram in fragments is one packet, as if it had come without, at the time of the last of
 * them; fragments that make no whole datagram are in joiner_counts(). 1; 0 at the end; -EBADMSG if the file is damaged
 * or cut off: capture->error says how.
 */
int capture_next(struct capture *capture, struct capture_packet *packet);

/** Packets that the file says it lacks, as far as it was read: in gaps, or behind the last packet too. Pure. */
static inline uint64_t capture_lost(const struct capture *capture)
{
	return capture->n_dropped > capture->n_lost ? capture->n_dropped : capture->n_lost;
}

/** Blocks of the file that were passed over so far: PCAPNG_PASSED_N numbers. */
const uint64_t *capture_passed(const struct capture *capture);

/** Close it. A capture that was never opened has to be zero-initialised. */
void capture_close(struct capture *capture);

#endif
