// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the packets of `ibvcap record --raw`: FILE has their payloads, FILE.meta their times and lengths, FILE.json the
 * size of a row and the losses. FILE.headers, if the stream has application headers, has the first bytes of each.
 */
#ifndef LIB_RECORDING_RAW_RECORDING_H
#define LIB_RECORDING_RAW_RECORDING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raw_recording;

enum raw_packet_kind {
	RAW_PACKET_FRAME,
	RAW_PACKET_PAYLOAD,  /* a payload of UDP, without its headers */
	RAW_PACKET_FRAGMENT, /* a part of a payload of UDP, without its headers */
};

struct raw_packet {
	uint64_t time_ns;
	const uint8_t *at; /* until the next is read */
	enum raw_packet_kind kind;
	uint32_t captured;
	uint32_t wire_bytes;
	uint64_t n_lost; /* packets that are missing before it */
};

/** Has a file the description of raw rows next to it? */
bool raw_recording_is_one(const char *path);

/** Open the files. 0; -errno: error says more. */
int raw_recording_open(struct raw_recording **recording, const char *path, char *error, size_t error_bytes);

/** The next packet. 1; 0 at the end; -EBADMSG: there are fewer rows than the description says; -errno. */
int raw_recording_next(struct raw_recording *recording, struct raw_packet *packet);

/** Packets that are missing in all, by the sum at the end of the recording; 0 without it. */
uint64_t raw_recording_dropped(const struct raw_recording *recording);

/** Where the packets have their number: a JSON object of the description, or NULL. */
const json_t *raw_recording_sequence(const struct raw_recording *recording);

/** NULL is allowed. */
void raw_recording_close(struct raw_recording *recording);

/* ---- the description FILE.json, which the recorder writes ---------------------------------------- */

#define RAW_ROW_BYTES_MAX (1u << 20)

struct raw_layout {
	uint64_t n_rows;
	uint64_t row_bytes;            /* from row to row */
	uint64_t payload_bytes;        /* of these: the most that a packet has there */
	uint32_t offset;               /* offset of the first row in the file */
	uint32_t network_header_bytes; /* headers of an ordinary packet, split off */
	uint32_t application_header_bytes;
	bool has_frames; /* rows hold whole frames */
};

/** Put the layout into a description. */
void raw_layout_to_json(const struct raw_layout *layout, json_t *description);

/** Load a description, which the caller frees. flags: of open(2), beside O_RDONLY. NULL: the file is none. */
json_t *raw_description_load(int folder, const char *name, int flags);

#endif
