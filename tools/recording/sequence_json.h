// SPDX-License-Identifier: Apache-2.0
/* Where packets have their own number, as a recording keeps it: JSON with the keys of ibvcapd.conf(5), SEQUENCE. */
#ifndef TOOLS_RECORDING_SEQUENCE_JSON_H
#define TOOLS_RECORDING_SEQUENCE_JSON_H

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdbool.h>

/** As a JSON object, which the caller frees. has_frames: the offsets count from the frame, not from the payload. */
json_t *sequence_to_json(const struct ibvcap_sequence *sequence, bool has_frames);

/**
 * The other way. False: it is none. Whether a tracker can take the description, ibvcap_tracker_new() says.
 */
bool sequence_from_json(const json_t *json, struct ibvcap_sequence *sequence, bool *has_frames);

#endif
