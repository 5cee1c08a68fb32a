// SPDX-License-Identifier: Apache-2.0
/*
 * The description FILE.json of rows of `ibvcap record --raw`: how long a row is, and what of a packet is in it. The
 * recorder writes it, and replay reads it.
 */
#ifndef TOOLS_RECORDING_RAW_LAYOUT_H
#define TOOLS_RECORDING_RAW_LAYOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define RAW_ROW_BYTES_MAX (1u << 20)

struct raw_layout {
	uint64_t n_rows;
	uint64_t row_bytes;            /* from row to row */
	uint64_t payload_bytes;        /* of these: the most that a packet has there */
	uint32_t offset;               /* of the first row in the file */
	uint32_t network_header_bytes; /* of an ordinary packet, split off */
	uint32_t application_header_bytes;
	bool has_frames; /* rows hold whole frames */
};

/** Put the layout into a description. */
void raw_layout_to_json(const struct raw_layout *layout, json_t *description);

/** The other way. False: no recorder writes such rows. */
bool raw_layout_from_json(const json_t *description, struct raw_layout *layout);

/** Load a description, which the caller frees. flags: of open(2), beside O_RDONLY. NULL: the file is none. */
json_t *raw_description_load(int folder, const char *name, int flags);

#endif
