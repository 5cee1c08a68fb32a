// SPDX-License-Identifier: Apache-2.0
/* Reads a packet's own number and its source from where the stream's description says. Pure. */
#ifndef IBVCAP_SEQUENCE_READ_H
#define IBVCAP_SEQUENCE_READ_H

#include <ibvcap/ibvcap.h>

/*
 * What a packet has in common with others of its source. Words that the description does not use are 0: only the first
 * n_key_words of the reader are compared.
 */
struct sequence_key {
	uint8_t field[IBVCAP_SOURCE_BYTES_MAX]; /* of the payload */
	uint8_t address[16];                    /* of the sender; IPv4 as ::ffff:a.b.c.d */
	uint16_t port;                          /* of the sender */
	uint16_t destination_port;
	uint32_t reserved;
	uint8_t destination[16];
};

/* A description with all that follows from it. */
struct sequence_reader {
	struct ibvcap_sequence sequence;
	uint64_t number_mask;
	uint64_t upper_mask;
	uint64_t frame_mask;
	uint64_t lower_cycle;
	uint64_t cycle; /* packet numbers are below it; 0: 2^64 */
	uint32_t n_key_words;
};

struct sequence_reading {
	uint64_t number; /* in steps, below the reader's cycle */
	uint32_t n;      /* numbers that the packet takes: number, number + 1, … */
	struct sequence_key key;
};

/** user is for the error text: "a tracker". 0; -EINVAL: the description is unsound or empty. */
int sequence_reader_init(struct sequence_reader *reader, const struct ibvcap_sequence *sequence, const char *user);

/** False: a field lies beyond the end of the packet. */
bool sequence_read(const struct sequence_reader *reader, const struct ibvcap_packet *packet,
                   struct sequence_reading *reading);

/** The value of the field that changes with the frame; 0: the description has none. False: it lies beyond the end. */
bool sequence_read_frame(const struct sequence_reader *reader, const struct ibvcap_packet *packet, uint64_t *frame);

#define SEQUENCE_SLACK_MAX (UINT64_C(1) << 61) /* so a jump and it are less than half of 2^64 */

/** By so many numbers the gap before the batch may be longer. Between two runs of the daemon, nobody counts. */
static inline uint64_t sequence_slack(const struct ibvcap_rx_batch *batch)
{
	return batch->gap + (batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN ? UINT64_C(1) << 32 : 0);
}

/**
 * The packet of a row; the caller's struct may be of a version without the last two numbers. False: no number can be
 * read from it: it is in error, has no known payload, or is an IP fragment that is not the first one of its datagram.
 */
bool sequence_packet_of_row(const struct ibvcap_rx_batch *batch, uint32_t i, uint32_t header_bytes,
                            uint32_t application_header_bytes, struct ibvcap_packet *packet);

#endif
