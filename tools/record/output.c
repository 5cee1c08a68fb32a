// SPDX-License-Identifier: Apache-2.0
/*
 * Puts packets into buffers, and decides where a file ends. When no buffer is free, the disk is slower than the packets
 * come: the ring is the last buffer then, and the time of waiting is noted, since it tells why packets get lost.
 */
#include "tools/record/recorder.h"

#include "daemon/base/time.h"
#include "tools/pcapng/pcapng_write.h"
#include "tools/pcapng/recording_words.h"
#include "tools/record/contents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_FLOWS (-1) /* in place of a flow's number */

/* ---- sums ---------------------------------------------------------------------------------------- */

static struct record_sum output_sum(const struct recorder *recorder, const struct record_output *output, unsigned i)
{
	const struct output_source *shown = &output->sources[i];
	const struct source *source = &recorder->sources[output->first_source + i];

	return source_sum(&shown->losses, shown->n_written, source->n_written - shown->n_written);
}

static void output_sums(const struct recorder *recorder, const struct record_output *output, struct record_sum *sums)
{
	for (unsigned i = 0; i < output->n_sources; i++)
		sums[output->first_source + i] = output_sum(recorder, output, i);
}

/* ---- buffers and files --------------------------------------------------------------------------- */

static void note_waited(struct recorder *recorder, uint64_t ns)
{
	struct record_output *output;

	recorder->waited_ns += ns;
	for (unsigned i = 0; i < recorder->n_sources; i++)
		losses_waited(&recorder->sources[i].losses, ns);
	SLIST_FOREACH (output, &recorder->outputs, entry)
		for (unsigned i = 0; i < output->n_sources; i++)
			losses_waited(&output->sources[i].losses, ns);
}

/* A buffer for what follows file_bytes of the output's file. */
static struct writer_buffer *take_buffer(struct recorder *recorder, struct record_output *output, uint64_t file_bytes)
{
	struct writer_buffer *buffer = writer_take(&recorder->writer, file_bytes, 0);
	uint64_t begin_ns, end_ns;

	while (!buffer) {
		begin_ns = time_monotonic_ns();
		buffer = writer_take(&recorder->writer, file_bytes, RECORDER_SLEEP_MS);
		end_ns = time_monotonic_ns();
		note_waited(recorder, end_ns - begin_ns);
		recorder_print_progress(recorder, end_ns);
	}
	buffer->output = output->file;
	return buffer;
}

void output_flush(struct recorder *recorder, struct record_output *output)
{
	if (!output->buffer->used)
		return;
	writer_give(&recorder->writer, output->buffer);
	output->buffer = take_buffer(recorder, output, output->bytes);
}

/* When the file that begins at now_ns ends by its time. */
static uint64_t end_of_file_ns(const struct record_options *options, uint64_t now_ns)
{
	if (options->file_ns == UINT64_MAX)
		return UINT64_MAX;
	return options->aligned ? (now_ns / options->file_ns + 1) * options->file_ns : now_ns + options->file_ns;
}

static void begin_output(struct recorder *recorder, struct record_output *output, uint64_t now_ns)
{
	struct source *sources = recorder->sources + output->first_source;
	struct writer_buffer *buffer = take_buffer(recorder, output, 0);

	buffer->begins_file = true;
	buffer->file_ns = now_ns;
	for (unsigned i = 0; i < output->n_sources; i++)
		source_describe_again(&sources[i]);
	buffer->used = contents_write_head(buffer->at, WRITER_BUFFER_BYTES, recorder->options.why, sources,
	                                   output->n_sources, output->file->flow_text);
	buffer->filled_ns = time_monotonic_ns();
	output->buffer = buffer;
	output->bytes = buffer->used;
	output->n_packets = 0;
	output->rotate_ns = end_of_file_ns(&recorder->options, now_ns);
	output->until_ns = buffer->filled_ns + (output->rotate_ns - now_ns);
}

void output_rotate(struct recorder *recorder, struct record_output *output, uint64_t now_ns)
{
	struct record_sum sums[RECORD_SOURCES_MAX] = {0};
	struct writer_buffer *buffer = output->buffer;

	output_sums(recorder, output, sums);
	buffer->ends_file = true;
	memcpy(buffer->end_sums, sums, sizeof(*sums) * recorder->n_sources);
	writer_give(&recorder->writer, buffer);
	begin_output(recorder, output, now_ns);
	memcpy(output->buffer->start_sums, sums, sizeof(*sums) * recorder->n_sources);
}

/* ---- the files of a recording -------------------------------------------------------------------- */

/* The file tells of all that its sources lost until now, and from now on of what it finds by itself. */
static void copy_losses(struct record_output *output, const struct source *sources)
{
	for (unsigned i = 0; i < output->n_sources; i++) {
		struct output_source *shown = &output->sources[i];

		shown->losses = sources[i].losses;
		shown->card = sources[i].card;
		shown->losses.card = &output->sources[i - sources[i].queue].card;
	}
}

/* now_ns: UTC. The sum of the first file begins at 0, so that all that was lost before it is in it. */
static struct record_output *add_output(struct recorder *recorder, unsigned first_source, unsigned n_sources, int flow)
{
	struct record_output *output = calloc(1, sizeof(*output) + n_sources * sizeof(output->sources[0]));

	if (!output)
		return NULL;
	output->first_source = first_source;
	output->n_sources = n_sources;
	output->file = writer_add_output(&recorder->writer, first_source, n_sources);
	if (!output->file) {
		free(output);
		return NULL;
	}
	if (flow != ALL_FLOWS) {
		snprintf(output->file->flow, sizeof(output->file->flow), "%s-%d",
		         recorder->sources[first_source].stream, flow);
		snprintf(output->file->flow_text, sizeof(output->file->flow_text), RECORDING_ONLY_FLOW "%d", flow);
	}
	copy_losses(output, &recorder->sources[first_source]);
	begin_output(recorder, output, recorder->options.from_ns ? recorder->options.from_ns : time_utc_ns());
	memset(output->buffer->start_sums, 0, sizeof(struct record_sum) * recorder->n_sources);
	SLIST_INSERT_HEAD(&recorder->outputs, output, entry);
	output_flush(recorder, output); /* the program at the other end of a pipe gets the interfaces now */
	return output;
}

struct record_output *output_of(struct recorder *recorder, unsigned source, uint8_t flow)
{
	struct record_output **places, *output;
	unsigned first = source - recorder->sources[source].queue;

	if (!recorder->options.by_flow)
		return SLIST_FIRST(&recorder->outputs);
	places = recorder->by_flow[first];
	if (places[flow])
		return places[flow];
	output = add_output(recorder, first, recorder->sources[first].n_queues, flow);
	if (!output) {
		writer_fail(&recorder->writer, -ENOMEM);
		return places[0];
	}
	return places[flow] = output;
}

int output_begin_all(struct recorder *recorder)
{
	if (!recorder->options.by_flow)
		return add_output(recorder, 0, recorder->n_sources, ALL_FLOWS) ? 0 : -ENOMEM;
	for (unsigned i = 0; i < recorder->n_sources; i += recorder->sources[i].n_queues) {
		recorder->by_flow[i][0] = add_output(recorder, i, recorder->sources[i].n_queues, 0);
		if (!recorder->by_flow[i][0])
			return -ENOMEM;
	}
	return 0;
}

void output_free_all(struct recorder *recorder)
{
	struct record_output *output;

	while ((output = SLIST_FIRST(&recorder->outputs))) {
		SLIST_REMOVE_HEAD(&recorder->outputs, entry);
		free(output);
	}
}

/* ---- packets ------------------------------------------------------------------------------------- */

static bool is_file_full(const struct recorder *recorder, const struct record_output *output, size_t bytes,
                         uint64_t time_ns)
{
	const struct record_options *options = &recorder->options;

	return output->n_packets && (output->bytes + bytes > options->file_bytes ||
	                             output->n_packets >= options->file_packets || time_ns >= output->rotate_ns);
}

static void note_row(struct writer_buffer *buffer, unsigned source, uint64_t time_ns, uint64_t sequence)
{
	struct record_piece *piece = &buffer->piece;

	if (piece->n_packets == 0)
		piece->first_sequence = sequence;
	/* Clocks step back, and rows of several queues may come late: the earliest, not the first. */
	if (piece->n_packets == 0 || time_ns < piece->first_ns)
		piece->first_ns = time_ns;
	if (time_ns > piece->last_ns)
		piece->last_ns = time_ns;
	piece->last_sequence = sequence;
	piece->n_packets++;
	buffer->n_rows[source]++;
}

static size_t write_packet(const struct record_output *output, const struct pcapng_packet *packet)
{
	const struct writer_buffer *buffer = output->buffer;

	return pcapng_write_packet(buffer->at + buffer->used, WRITER_BUFFER_BYTES - buffer->used, packet);
}

void output_put(struct recorder *recorder, struct record_output *output, unsigned source, struct pcapng_packet *packet)
{
	struct output_source *shown = &output->sources[source - output->first_source];
	struct writer_buffer *buffer;
	size_t n;

	packet->interface = source - output->first_source;
	if (shown->losses.pending) {
		packet->options |= PCAPNG_PACKET_HAS_DROPS;
		packet->drop_count = shown->losses.pending;
	}
	if (shown->losses.text[0])
		packet->comment = pcapng_text_of(shown->losses.text);
	n = write_packet(output, packet);
	/* What comes next is another buffer, or the same one, written meanwhile: the packet goes into it again. */
	if (is_file_full(recorder, output, n, packet->time_ns)) {
		output_rotate(recorder, output, packet->time_ns);
		n = write_packet(output, packet);
	} else if (n > WRITER_BUFFER_BYTES - output->buffer->used) {
		output_flush(recorder, output);
		n = write_packet(output, packet);
	}
	buffer = output->buffer;
	if (buffer->used == 0)
		buffer->filled_ns = time_monotonic_ns();
	buffer->used += n;
	output->bytes += n;
	output->n_packets++;
	note_row(buffer, source, packet->time_ns, packet->packet_id);
	losses_written(&shown->losses);
	shown->n_written++;
}

/* ---- the end ------------------------------------------------------------------------------------- */

void output_end(struct recorder *recorder, struct record_output *output, const struct source_end *ends)
{
	struct writer_buffer *buffer = output->buffer;
	size_t used = 0;

	for (unsigned i = 0; i < output->n_sources; i++) {
		struct losses *losses = &output->sources[i].losses;
		unsigned number = output->first_source + i;
		struct record_sum *sum = &buffer->end_sums[number];

		losses_at_end(losses, &ends[number], time_monotonic_ns());
		losses->told = losses->sum;
		*sum = output_sum(recorder, output, i);
		sum->lag = ends[number].lag;
		sum->published += ends[number].lag;
		if (losses->text[0] && used < sizeof(buffer->note) - 1)
			used += (size_t)snprintf(buffer->note + used, sizeof(buffer->note) - used, "%s%s: %s",
			                         used ? "; " : "", recorder->sources[number].name, losses->text);
	}
	buffer->ends_file = true;
	buffer->is_last = true;
	output->buffer = NULL;
	writer_give(&recorder->writer, buffer);
}
