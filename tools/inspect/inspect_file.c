// SPDX-License-Identifier: Apache-2.0
/* Reads a recording block by block, lets it be judged, and makes JSON of it. */
#include "tools/inspect/inspect_file.h"

#include "lib/recording/raw_recording.h"
#include "lib/recording/recording.h"
#include "tools/common/report.h"
#include "lib/json/text_to_json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* How the reading ended, for inspect_judge(). */
static int find_end(const struct recording *recording, int r)
{
	if (r == 0 && recording_is_cut_off(recording))
		return -ENODATA;
	if (r == -EBADMSG && raw_recording_is_one(recording->path))
		return INSPECT_END_RAW;
	return r == -EBADMSG && !recording_is_one(recording) ? INSPECT_END_OTHER : r;
}

static void find_error(const struct recording *recording, int r, char text[INSPECT_TEXT_BYTES])
{
	const char *error = recording_error(recording);

	snprintf(text, INSPECT_TEXT_BYTES, "%s", error[0] ? error : "the file ends within its compressed data");
	if (r == -EBADMSG && !recording_is_one(recording))
		recording_explain(recording, "ibvcap info -", text, INSPECT_TEXT_BYTES);
	inspect_clean(text);
}

/* 0 or -ENOMEM. */
static int add_fragment(struct joiner *joiner, uint16_t link_type, const struct pcapng_packet *packet)
{
	struct joiner_frame frame;
	int r;

	frame = (struct joiner_frame){
		.at = packet->frame[0], .captured = packet->frame_bytes[0], .wire_bytes = packet->wire_bytes};
	r = joiner_take(joiner, datagram_link_of(link_type), &frame, packet->time_ns);
	return r < 0 ? r : 0;
}

/* What the frame says itself. 0 or -ENOMEM. */
static int add_frame(struct inspect_file *file, struct joiner *joiner, const struct pcapng_block *block)
{
	const struct pcapng_packet *packet = &block->packet;
	uint16_t link_type;
	int r;

	if (block->type != PCAPNG_BLOCK_PACKET)
		return 0;
	link_type = file->sum.sources[file->sum.first_source + packet->interface].link_type;
	r = inspect_ports_add(&file->ports, link_type, packet);
	return r < 0 ? r : add_fragment(joiner, link_type, packet);
}

static int read_blocks(struct inspect_file *file, struct recording *recording)
{
	char error[INSPECT_TEXT_BYTES];
	struct joiner joiner = {0};
	struct pcapng_block block;
	int memory = 0, r = 0;

	while (memory == 0 && (r = recording_next(recording, &block)) > 0) {
		memory = inspect_sum_add(&file->sum, &block);
		if (memory == 0)
			memory = inspect_numbers_add(&file->numbers, &file->sum, &block);
		if (memory == 0)
			memory = add_frame(file, &joiner, &block);
	}
	joiner_end(&joiner);
	file->fragments = joiner_counts(&joiner);
	joiner_deinit(&joiner);
	if (memory < 0 || r == -ENOMEM)
		return -ENOMEM;
	if (inspect_is_extract(&file->sum)) /* numbers are absent that were not lost */
		inspect_numbers_free(&file->numbers);
	inspect_numbers_end(&file->numbers, &file->sum);
	memcpy(file->sum.passed, recording->reader.passed, sizeof(file->sum.passed));
	find_error(recording, r, error);
	inspect_judge(&file->verdict, &file->sum, &file->numbers, find_end(recording, r), error);
	return 0;
}

int inspect_file_read(struct inspect_file *file, const char *path)
{
	struct recording recording;
	int r = recording_open(&recording, path);

	*file = (struct inspect_file){.path = path};
	if (r < 0)
		return r;
	file->is_index = recording_is_index(&recording);
	if (!file->is_index)
		r = read_blocks(file, &recording);
	recording_close(&recording);
	return r;
}

void inspect_file_deinit(struct inspect_file *file)
{
	inspect_ports_free(&file->ports);
	inspect_numbers_free(&file->numbers);
	inspect_sum_free(&file->sum);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

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
		{"link_type", source->link_type},
		{"untimed", source->n_untimed},
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
		{"restarts", source->account.rx.restarts},
	};

	json_object_set_new(json, "name", text_to_json(source->name));
	json_object_set_new(json, "description", text_to_json(source->description));
	json_object_set_new(json, "device", text_to_json(source->hardware));
	json_object_set_new(json, "flows", text_to_json(source->flows));
	json_object_set_new(json, "filter", source->is_filtered ? text_to_json(source->filter) : json_null());
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
	return json_pack("{s:o, s:o, s:I, s:I, s:o}", "name", text_to_json(sum->sources[gap->source].name), "number",
	                 gap->has_id ? json_integer((json_int_t)gap->packet_id) : json_null(), "time_ns",
	                 (json_int_t)gap->time_ns, "lost", (json_int_t)gap->n_lost, "why", text_to_json(gap->text));
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
		json_object_set_new(json, "lost_in_absence",
		                    json_integer((json_int_t)inspect_lost_in_absence(numbered)));
		json_array_append_new(all, json);
	}
	return all;
}

void inspect_put_verdict(json_t *json, const struct verdict *verdict)
{
	char text[VERDICT_TEXT_BYTES];

	verdict_print(text, sizeof(text), verdict);
	json_object_set_new(json, "complete", json_boolean(verdict_result(verdict) == IBVCAP_VERDICT_COMPLETE));
	json_object_set_new(json, "consistent", json_boolean(verdict->worst != FINDING_DAMAGE));
	json_object_set_new(json, "verdict_word", json_string(verdict_word(verdict)));
	json_object_set_new(json, "from_flow_rules", json_boolean(verdict_is_from_rules(verdict)));
	json_object_set_new(json, "verdict", text_to_json(text));
}

static json_t *passed_to_json(const uint64_t passed[PCAPNG_PASSED_N])
{
	json_t *json = json_object();

	for (unsigned i = 0; i < PCAPNG_PASSED_N; i++)
		json_object_set_new(json, pcapng_passed_labels[i].key, json_integer((json_int_t)passed[i]));
	return json;
}

static json_t *fragments_to_json(const struct joiner_counts *counts)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "packets", (json_int_t)counts->fragments, "joined",
	                 (json_int_t)counts->joined, "incomplete", (json_int_t)counts->incomplete, "refused",
	                 (json_int_t)counts->refused);
}

json_t *inspect_file_to_json(const struct inspect_file *file)
{
	const struct inspect_sum *sum = &file->sum;
	json_t *sources = json_array(), *gaps = json_array(), *all;

	for (uint32_t i = 0; i < sum->n_sources; i++)
		json_array_append_new(sources, inspect_source_to_json(&sum->sources[i]));
	for (uint32_t i = 0; i < sum->n_gaps_kept; i++)
		json_array_append_new(gaps, inspect_gap_to_json(sum, &sum->gaps[i]));
	all = json_pack("{s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "file",
	                text_to_json(file->path), "comment", text_to_json(sum->opening), "application",
	                text_to_json(sum->application), "packets", (json_int_t)sum->n_packets, "comments",
	                (json_int_t)sum->n_comments, "passed_over", passed_to_json(sum->passed), "fragments",
	                fragments_to_json(&file->fragments), "streams", sources, "sequences",
	                sequences_to_json(&file->numbers), "n_gaps", (json_int_t)sum->n_gaps, "gaps", gaps, "closing",
	                text_to_json(sum->closing));
	json_object_set_new(all, "udp_ports", inspect_ports_to_json(&file->ports));
	inspect_put_verdict(all, &file->verdict);
	return all;
}
