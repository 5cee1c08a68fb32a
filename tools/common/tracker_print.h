// SPDX-License-Identifier: Apache-2.0
/* What a tracker counted, for people and as JSON: of packets that come, and of those in a recording. */
#ifndef TOOLS_COMMON_TRACKER_PRINT_H
#define TOOLS_COMMON_TRACKER_PRINT_H

#include <ibvcap/ibvcap.h>
#include <jansson.h>
#include <stdbool.h>

/** Print the account of each source, and that of all. */
void tracker_print(const struct ibvcap_tracker *tracker);

/** The same. The caller frees it. */
json_t *tracker_to_json(const struct ibvcap_tracker *tracker);

/**
 * Complete: packets came, with all numbers from the first to the highest of each source. Not proven: none of these is
 * known to lack, but some packets could not be followed by their numbers.
 */
enum ibvcap_verdict tracker_verdict(const struct ibvcap_tracker *tracker);

#endif
