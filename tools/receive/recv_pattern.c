// SPDX-License-Identifier: Apache-2.0
/* What `ibvcap recv --verify` says about the numbered test pattern: which payloads are intact, and their numbers. */
#include "tools/send/pattern.h"
#include "tools/receive/recv.h"

#include <inttypes.h>

/* As conf/sequence/pattern.conf, for one sender, with the widest window and jump that a tracker has. */
static const struct ibvcap_sequence pattern_numbers = {.bytes = PATTERN_BYTES_MIN,
                                                       .source = IBVCAP_SOURCE_NONE,
                                                       .step = 1,
                                                       .upper_step = 1,
                                                       .window = 65536,
                                                       .jump = UINT64_C(1) << 32};

int recv_pattern_init(struct recv_pattern *pattern)
{
	const struct ibvcap_tracker_options options = {.size = sizeof(options), .max_sources = 1};

	return ibvcap_tracker_new(&pattern_numbers, &options, &pattern->numbers);
}

void recv_pattern_deinit(struct recv_pattern *pattern)
{
	ibvcap_tracker_free(pattern->numbers);
}

void recv_pattern_add(struct recv_pattern *pattern, const uint8_t *payload, size_t bytes)
{
	const struct ibvcap_packet packet = {.row = payload, .row_bytes = (uint32_t)bytes};
	uint64_t number;

	if (pattern_check(payload, bytes, &number))
		ibvcap_tracker_add(pattern->numbers, &packet, NULL);
	else
		pattern->corrupt++;
}

void recv_print_pattern(const struct recv_pattern *pattern)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	ibvcap_tracker_counts(pattern->numbers, &counts);
	printf("pattern: %" PRIu64 " intact, %" PRIu64 " missing, %" PRIu64 " repeated, %" PRIu64 " reordered, %" PRIu64
	       " late, %" PRIu64 " restarts, %" PRIu64 " corrupt\n",
	       counts.packets, counts.numbers.lost, counts.numbers.repeated, counts.numbers.reordered,
	       counts.numbers.late, counts.numbers.restarted, pattern->corrupt);
}

json_t *recv_pattern_to_json(const struct recv_pattern *pattern)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);

	ibvcap_tracker_counts(pattern->numbers, &counts);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "received", (json_int_t)counts.packets, "missing",
	                 (json_int_t)counts.numbers.lost, "reordered", (json_int_t)counts.numbers.reordered, "repeated",
	                 (json_int_t)counts.numbers.repeated, "late", (json_int_t)counts.numbers.late, "restarts",
	                 (json_int_t)counts.numbers.restarted, "corrupt", (json_int_t)pattern->corrupt);
}
