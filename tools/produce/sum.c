// SPDX-License-Identifier: Apache-2.0
/* Prints what became of all packets of a run: each is delivered, or counted under the reason why not. */
#include "tools/produce/produce.h"

#include "tools/common/report.h"

static void put_count(json_t *object, const char *name, uint64_t n)
{
	json_object_set_new(object, name, json_integer((json_int_t)n));
}

static json_t *by_error(const uint64_t by[KAFKA_N_ERRORS])
{
	json_t *errors = json_object();

	for (int i = 0; i < (int)KAFKA_N_ERRORS; i++)
		if (by[i])
			put_count(errors, rd_kafka_err2name(i + RD_KAFKA_RESP_ERR__BEGIN), by[i]);
	return errors;
}

/* Of what was taken. Packets; the last four in numbers. */
static json_t *left_out_to_json(uint64_t unread, const struct blocks *blocks, const struct arrays *arrays)
{
	struct ibvcap_place_side side = IBVCAP_INIT(struct ibvcap_place_side);
	json_t *left_out = json_object();

	if (!arrays->placer) {
		put_count(left_out, "errored", blocks->errored);
		put_count(left_out, "unread", unread);
		return left_out;
	}
	ibvcap_place_side(arrays->placer, 0, &side);
	put_count(left_out, "unread", side.unread + unread);
	put_count(left_out, "unlisted", side.unlisted);
	put_count(left_out, "empty", side.empty);
	put_count(left_out, "duplicate", side.duplicate);
	put_count(left_out, "late", side.late);
	put_count(left_out, "far", side.far);
	put_count(left_out, "outside", side.outside);
	return left_out;
}

void produce_print_sum(const struct ibvcap_rx_counts *counts, uint64_t no_buffer, const struct kafka_sum *kafka,
                       const struct blocks *blocks, const struct arrays *arrays)
{
	json_t *sum = json_object();

	put_count(sum, "schema_version", 1);
	put_count(sum, "published", counts->published);
	put_count(sum, "taken", counts->delivered);
	put_count(sum, "skipped", counts->skipped);
	put_count(sum, "lag", counts->lag);
	put_count(sum, "unknown_gaps", counts->epochs);
	put_count(sum, "no_buffer", no_buffer);
	put_count(sum, "messages", kafka->messages);
	put_count(sum, "delivered", kafka->delivered);
	json_object_set_new(sum, "not_delivered", by_error(kafka->not_delivered));
	json_object_set_new(sum, "unknown", by_error(kafka->unknown));
	json_object_set_new(sum, "left_out", left_out_to_json(kafka->unread, blocks, arrays));
	report_json(sum, JSON_INDENT(2));
}
