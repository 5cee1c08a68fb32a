// SPDX-License-Identifier: Apache-2.0
/* Prints what became of all packets of a run: each is delivered, or counted under the reason why not. */
#include "tools/produce/produce.h"

#include "tools/common/report.h"

static json_t *by_error(const uint64_t by[KAFKA_N_ERRORS])
{
	json_t *errors = json_object();

	for (int i = 0; i < (int)KAFKA_N_ERRORS; i++)
		if (by[i])
			json_object_set_new(errors, rd_kafka_err2name(i + RD_KAFKA_RESP_ERR__BEGIN),
			                    json_integer((json_int_t)by[i]));
	return errors;
}

/* Of what was taken. Packets; the last four in numbers. */
static json_t *left_out_to_json(uint64_t unread, const struct blocks *blocks, const struct arrays *arrays)
{
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);

	if (!arrays->placer)
		return json_pack("{s:I, s:I}", "errored", (json_int_t)blocks->errored, "unread", (json_int_t)unread);
	ibvcap_place_side(arrays->placer, 0, &side);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "unread", (json_int_t)(side.unread + unread),
	                 "unlisted", (json_int_t)side.unlisted, "empty", (json_int_t)side.empty, "duplicate",
	                 (json_int_t)side.duplicate, "late", (json_int_t)side.late, "far", (json_int_t)side.far,
	                 "outside", (json_int_t)side.outside);
}

void produce_print_sum(const struct ibvcap_rx_counts *counts, uint64_t no_buffer, const struct kafka_sum *kafka,
                       const struct blocks *blocks, const struct arrays *arrays)
{
	report_json(json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "schema_version", 1,
	                      "published", (json_int_t)counts->published, "taken", (json_int_t)counts->delivered,
	                      "skipped", (json_int_t)counts->skipped, "lag", (json_int_t)counts->lag, "unknown_gaps",
	                      (json_int_t)counts->epochs, "no_buffer", (json_int_t)no_buffer, "messages",
	                      (json_int_t)kafka->messages, "delivered", (json_int_t)kafka->delivered, "not_delivered",
	                      by_error(kafka->not_delivered), "unknown", by_error(kafka->unknown), "left_out",
	                      left_out_to_json(kafka->unread, blocks, arrays)),
	            JSON_INDENT(2));
}
