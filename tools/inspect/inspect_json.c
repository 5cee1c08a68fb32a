// SPDX-License-Identifier: Apache-2.0
/* A file as JSON, with all that the text of `ibvcap info` has, and its accounts. */
#include "tools/inspect/inspect_file.h"
#include "tools/common/tracker_print.h"
#include "tools/json/text_to_json.h"

static json_t *inspect_source_to_json(const struct inspect_source *source)
{
	json_t *json = json_object();
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {
		{"packets", source->n_packets},
		{"bytes", source->n_bytes},
		{"cut", source->n_cut},
		{"first_ns", source->first_ns},
		{"last_ns", source->last_ns},
		{"backwards", source->n_backwards},
		{"first_number", source->first_id},
		{"last_number", source->last_id},
		{"runs", source->n_runs},
		{"absent", source->n_absent},
		{"repeated", source->n_repeated},
		{"lost", source->n_lost},
		{"explained", source->n_named},
		{"delivered", source->n_delivered},
		{"dropped", source->n_dropped},
		{"restarts", source->n_restarts},
	};

	json_object_set_new(json, "name", text_to_json(source->name));
	json_object_set_new(json, "description", text_to_json(source->description));
	json_object_set_new(json, "device", text_to_json(source->hardware));
	json_object_set_new(json, "flows", text_to_json(source->filter));
	json_object_set_new(json, "notes", text_to_json(source->comment));
	json_object_set_new(json, "sum", text_to_json(source->sum));
	json_object_set_new(json, "has_numbers", json_boolean(source->has_numbers));
	json_object_set_new(json, "account",
	                    source->account_state == INSPECT_ACCOUNT_READ ? recording_account_to_json(&source->account)
	                                                                  : json_null());
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(json, numbers[i].key, json_integer((json_int_t)numbers[i].value));
	return json;
}

static json_t *inspect_gap_to_json(const struct inspect_sum *sum, const struct inspect_gap *gap)
{
	return json_pack("{s:o, s:I, s:I, s:I, s:o}", "name", text_to_json(sum->sources[gap->source].name), "number",
	                 (json_int_t)gap->packet_id, "time_ns", (json_int_t)gap->time_ns, "lost",
	                 (json_int_t)gap->n_lost, "why", text_to_json(gap->text));
}

static json_t *sequences_to_json(const struct inspect_numbers *numbers)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < numbers->n_streams; i++) {
		const struct inspect_numbered *numbered = &numbers->streams[i];
		json_t *json = tracker_to_json(numbered->tracker);

		json_object_set_new(json, "stream", text_to_json(numbered->stream));
		json_object_set_new(json, "lost_before_card",
		                    json_integer((json_int_t)inspect_lost_before_card(numbered)));
		json_array_append_new(all, json);
	}
	return all;
}

json_t *inspect_file_to_json(const struct inspect_file *file)
{
	const struct inspect_sum *sum = &file->sum;
	const struct inspect_finding *finding = &file->finding;
	char verdict[INSPECT_FINDING_BYTES + INSPECT_TEXT_BYTES];
	json_t *sources = json_array(), *gaps = json_array();

	for (uint32_t i = 0; i < sum->n_sources; i++)
		json_array_append_new(sources, inspect_source_to_json(&sum->sources[i]));
	for (uint32_t i = 0; i < sum->n_gaps_kept; i++)
		json_array_append_new(gaps, inspect_gap_to_json(sum, &sum->gaps[i]));
	inspect_print_finding(verdict, sizeof(verdict), finding);
	return json_pack("{s:o, s:o, s:o, s:I, s:o, s:o, s:I, s:o, s:o, s:b, s:b, s:s, s:o}", "file",
	                 text_to_json(file->path), "comment", text_to_json(sum->opening), "application",
	                 text_to_json(sum->application), "packets", (json_int_t)sum->n_packets, "streams", sources,
	                 "sequences", sequences_to_json(&file->numbers), "n_gaps", (json_int_t)sum->n_gaps, "gaps",
	                 gaps, "closing", text_to_json(sum->closing), "complete", finding->verdict == INSPECT_COMPLETE,
	                 "consistent", finding->verdict != INSPECT_DAMAGED, "verdict_word",
	                 inspect_verdict_word(finding), "verdict", text_to_json(verdict));
}
