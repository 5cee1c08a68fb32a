// SPDX-License-Identifier: Apache-2.0
/* Reads the packets of a pcap or pcapng file in their order. */
#ifndef TOOLS_IBVCAP_CAPTURE_H
#define TOOLS_IBVCAP_CAPTURE_H

#include "tools/ibvcap/datagram.h"

#include <stdbool.h>
#include <stddef.h>

#define CAPTURE_TEXT_BYTES 400

struct capture {
	const char *path; /* "-": standard input */
	void *reader;     /* libpcap's */
	enum datagram_link link;
	bool is_pipe;       /* its data comes at any time, and can be read only once */
	uint64_t n_packets; /* read so far */
	char error[CAPTURE_TEXT_BYTES];
};

struct capture_packet {
	uint64_t time_ns;     /* UTC, as the file says */
	const uint8_t *frame; /* until the next is read */
	uint32_t captured;
	uint32_t wire_bytes;
};

/**
 * Open a file. 0; EX_NOINPUT if it cannot be opened; EX_DATAERR if it is no capture or has an unknown link type. In
 * these cases capture->error says why.
 */
int capture_open(struct capture *capture, const char *path);

/** Read the next packet. 1; 0 at the end; -EBADMSG if the file is damaged or cut off: capture->error says how. */
int capture_next(struct capture *capture, struct capture_packet *packet);

/** Close it. A capture that was never opened has to be zero-initialised. */
void capture_close(struct capture *capture);

#endif
