// SPDX-License-Identifier: Apache-2.0
/* The packets of a pcap or pcapng file, in its order. */
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
	bool is_pipe;       /* what it has comes when it comes, and once */
	uint64_t n_packets; /* read so far */
	char error[CAPTURE_TEXT_BYTES];
};

struct capture_packet {
	uint64_t time_ns;     /* UTC, as the file says */
	const uint8_t *frame; /* until the next is read */
	uint32_t captured;
	uint32_t wire_bytes;
};

/** 0; EX_NOINPUT: it cannot be opened; EX_DATAERR: it is no capture, or of a link that is not known here. error: why. */
int capture_open(struct capture *capture, const char *path);

/** 1; 0 at its end; -EBADMSG: the file is damaged or cut off here, error says how. */
int capture_next(struct capture *capture, struct capture_packet *packet);

/** Also one that was not opened, if it is zero-initialised. */
void capture_close(struct capture *capture);

#endif
