// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the packets of a pcap or pcapng file, or of a raw recording, in their order, and the file's notes about packets
 * that it lacks.
 */
#ifndef LIB_RECORDING_CAPTURE_H
#define LIB_RECORDING_CAPTURE_H

#include "lib/recording/raw_recording.h"
#include "lib/recording/recording.h"

#include <stdbool.h>
#include <stdint.h>

/* The first header of a frame. */
enum datagram_link {
	DATAGRAM_LINK_ETHERNET, /* with or without VLAN tags */
	DATAGRAM_LINK_IP,       /* no link header: IPv4 or IPv6 */
	DATAGRAM_LINK_SLL,      /* the Linux cooked header, as in `tcpdump -i any` */
	DATAGRAM_LINK_SLL2,
	DATAGRAM_LINK_PAYLOAD,  /* no headers: a UDP payload, whose port is not known */
	DATAGRAM_LINK_FRAGMENT, /* the same, of a part of a payload */
};

enum datagram_verdict {
	DATAGRAM_WHOLE,
	DATAGRAM_NOT_UDP,
	DATAGRAM_FRAGMENT,  /* an IP fragment, also the first one: the payload is spread over several frames */
	DATAGRAM_CUT,       /* the capture has only a part of the frame */
	DATAGRAM_MALFORMED, /* lengths that contradict each other */
};

struct datagram {
	const uint8_t *payload; /* in the frame */
	uint32_t bytes;
	uint32_t whole_bytes; /* more, if the capture has only a part of the payload */
	uint16_t destination_port;
	uint32_t ip_at; /* where the IP header is in the frame */
};

/**
 * Look into a frame of wire_bytes, of which the capture has the first captured bytes. *datagram is set only if the
 * result is DATAGRAM_WHOLE, or DATAGRAM_CUT and the capture has all headers, or DATAGRAM_FRAGMENT and it is the first
 * one.
 */
enum datagram_verdict datagram_find(enum datagram_link link, const uint8_t *frame, uint32_t captured,
                                    uint32_t wire_bytes, struct datagram *datagram);

#define CAPTURE_TEXT_BYTES 400

struct capture {
	const char *path;
	const char *reader_command; /* that reads a capture from standard input, for what another program unpacks */
	struct recording recording; /* a pcapng file, compressed by zstd or not */
	struct raw_recording *raw;  /* of `record --raw`; NULL: another file */
	void *reader;               /* libpcap's, of any other file; NULL */
	enum datagram_link *links;  /* one for each interface of the section; in libpcap's file: one */
	uint32_t n_links;
	bool is_pipe;       /* its data comes at any time, and can be read only once */
	uint64_t n_packets; /* read so far */
	uint64_t n_gaps;    /* packets before which the file names losses */
	uint64_t n_lost;    /* packets lost there */
	uint64_t n_dropped; /* packets lost in all, by the statistics of its interfaces */
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
 * Open a file. 0; EX_NOINPUT if it cannot be opened; EX_DATAERR if it is no capture or has an unknown link type. In
 * these cases capture->error says why.
 */
int capture_open(struct capture *capture, const char *path, const char *reader_command);

/** Read the next packet. 1; 0 at the end; -EBADMSG if the file is damaged or cut off: capture->error says how. */
int capture_next(struct capture *capture, struct capture_packet *packet);

/** Packets that the file says it lacks, as far as it was read: in gaps, or behind the last packet too. Pure. */
static inline uint64_t capture_lost(const struct capture *capture)
{
	return capture->n_dropped > capture->n_lost ? capture->n_dropped : capture->n_lost;
}

/** Close it. A capture that was never opened has to be zero-initialised. */
void capture_close(struct capture *capture);

#endif
