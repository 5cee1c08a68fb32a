// SPDX-License-Identifier: Apache-2.0
/*
 * Puts packets into buffers, and decides where a file ends. When no buffer is free, the disk is slower than the packets
 * come: the ring is the last buffer then, and the time of waiting is noted, since it tells why packets get lost.
 */
#include "tools/record/recorder.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "lib/recording/pcapng.h"
#include "tools/record/cut.h"
#include "tools/record/record_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The file ends here: note the sums and the moment of each source, and the losses behind its last packet. ends: of all
 * sources at the end of the recording; NULL: the recording goes on. */
static void end_parts(struct recorder *recorder, struct record_output *output, const struct source_end *ends)
{
	struct writer_file *file = output->file;
	size_t used = 0;

	for (unsigned i = 0; i < output->files.n_sources; i++) {
		unsigned number = output->files.first_source + i;
		const struct source *source = &recorder->sources[number];
		struct unnamed_losses *unnamed = &output->sources[i].unnamed;
		struct account_parts *parts = &file->sources[i];

		if (ends)
			parts->until = source->until;
		else
			source_take_moment(source, &parts->until);
		source_end_parts(source, output->sources[i].written, parts);
		parts->unknown |= output->is_late ? IBVCAP_UNKNOWN_QUEUES : 0;
		parts->end.lag = ends ? ends[number].lag : 0;
		if (unnamed->text[0] && used < sizeof(file->note) - 1)
			used += (size_t)snprintf(file->note + used, sizeof(file->note) - used, "%s%s: %s",
			                         used ? "; " : "", source->name, unnamed->text);
		recording_losses_add(&file->named, &unnamed->named);
		losses_named(unnamed);
	}
}

/* ---- buffers and files --------------------------------------------------------------------------- */

static void note_waited(struct recorder *recorder, uint64_t ns)
{
	recorder->waited_ns += ns;
	for (unsigned i = 0; i < recorder->n_sources; i++)
		losses_waited(&recorder->sources[i].losses, ns);
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
		output_end_settled(recorder, end_ns);
		recorder_print_progress(recorder, end_ns);
	}
	buffer->file = output->file;
	return buffer;
}

void output_flush(struct recorder *recorder, struct record_output *output)
{
	if (!output->buffer->used && !output->buffer->begins_file)
		return;
	writer_give(&recorder->writer, output->buffer);
	output->buffer = take_buffer(recorder, output, output->bytes);
}

bool output_is_unopened(const struct record_output *output)
{
	return !output->n_packets && output->buffer->begins_file;
}

/* When the file that begins at now_ns ends by its time. */
static uint64_t end_of_file_ns(const struct record_options *options, uint64_t now_ns)
{
	if (options->file_ns == UINT64_MAX)
		return UINT64_MAX;
	return options->aligned ? (now_ns / options->file_ns + 1) * options->file_ns : now_ns + options->file_ns;
}

static void set_times(const struct recorder *recorder, struct record_output *output, uint64_t now_ns)
{
	output->file->start_ns = now_ns;
	output->rotate_ns = end_of_file_ns(&recorder->options, now_ns);
	output->until_ns = time_monotonic_ns() + (output->rotate_ns - now_ns);
}

static void output_begin_file(struct recorder *recorder, struct record_output *output, uint64_t now_ns)
{
	const struct record_format *format = recorder->writer.file_options.format;
	struct source *sources = recorder->sources + output->files.first_source;
	struct writer_buffer *buffer = take_buffer(recorder, output, 0);

	buffer->begins_file = true;
	for (unsigned i = 0; i < output->files.n_sources; i++)
		source_describe_again(&sources[i], &recorder->options);
	if (format->write_head)
		buffer->used = format->write_head(buffer->at, WRITER_BUFFER_BYTES, recorder->options.why, sources,
		                                  output->files.n_sources, output->files.flow_number);
	buffer->filled_ns = time_monotonic_ns();
	output->buffer = buffer;
	output->bytes = buffer->used;
	output->n_packets = 0;
	set_times(recorder, output, now_ns);
}

void output_rotate(struct recorder *recorder, struct record_output *output, uint64_t now_ns)
{
	struct writer_file *ended = output->file, *file;

	if (output_is_unopened(output)) {
		set_times(recorder, output, now_ns);
		return;
	}
	file = writer_new_file(&output->files);
	if (!file) {
		writer_fail(&recorder->writer, -ENOMEM);
		output_flush(recorder, output);
		return;
	}
	end_parts(recorder, output, NULL);
	/* In a pipe, a file must end before the next one begins. */
	ended->rotated_ns = part_file_is_special(recorder->options.path) ? 0 : time_monotonic_ns();
	ended->next = file;
	/* A file that ends by its time has no row of that time, whenever it is noticed. */
	ended->until_ns = output->begin_ns = u64_min(now_ns, output->rotate_ns);
	output->newest_ns = 0;
	output->is_late = false;
	file->number = ended->number + 1;
	for (unsigned i = 0; i < output->files.n_sources; i++) {
		file->sources[i].from = ended->sources[i].until;
		file->sources[i].start = ended->sources[i].end;
	}
	writer_give(&recorder->writer, output->buffer);
	STAILQ_INSERT_TAIL(&recorder->ending, ended, entry);
	output_end_settled(recorder, time_monotonic_ns());
	output->file = file;
	output_begin_file(recorder, output, now_ns);
}

void output_end_at(struct record_output *output, uint64_t utc_ns, uint64_t now_ns)
{
	output->rotate_ns = u64_min(output->rotate_ns, utc_ns);
	output->until_ns = u64_min(output->until_ns, now_ns);
}

/* ---- the ends of files --------------------------------------------------------------------------- */

/*
 * True: the daemon has settled the losses of the file, and all its rows were read; or the file has waited long enough
 * for the daemon. In a pipe it waits for nothing.
 */
static bool is_settled(struct recorder *recorder, struct writer_file *file, uint64_t now_ns)
{
	bool is_all = true, is_late = now_ns >= file->rotated_ns + SETTLE_NS_MAX;

	for (unsigned i = 0; i < file->output->n_sources; i++) {
		struct source *source = &recorder->sources[file->output->first_source + i];
		struct account_parts *parts = &file->sources[i];
		bool is_source_settled = source_settle(source, &parts->until);
		bool is_past =
			recorder->is_drained ? !source->is_late : source_is_past(source, file->until_ns, &parts->until);
		bool waits = !is_source_settled || (!is_past && !recorder->is_drained && file->rotated_ns);

		if (parts->is_first)
			parts->from = source->from;
		source_pass_over(source, &parts->start, &parts->from);
		source_pass_over(source, &parts->end, &parts->until);
		is_all &= !waits || (is_late && !is_source_settled);
		if (!is_past && !waits)
			parts->unknown |= IBVCAP_UNKNOWN_QUEUES;
	}
	return is_all;
}

/* The packet is older than its file: it is of one that has ended, and maybe waits until the daemon has settled it. */
static void note_late(struct recorder *recorder, struct record_output *output)
{
	struct writer_file *file;

	output->is_late = true;
	STAILQ_FOREACH (file, &recorder->ending, entry)
		for (unsigned i = 0; i < output->files.n_sources && file->output == &output->files; i++)
			file->sources[i].unknown |= IBVCAP_UNKNOWN_QUEUES;
}

/* Files end in the order in which they were filled: the window and the commands get them in this order. */
void output_end_settled(struct recorder *recorder, uint64_t now_ns)
{
	struct writer_file *file;

	/* Settle early: a loss between the moment and the daemon's next record may be before the moment or after it. */
	for (unsigned i = 0; i < recorder->n_sources; i++)
		source_settle(&recorder->sources[i], &recorder->sources[i].from);
	while ((file = STAILQ_FIRST(&recorder->ending)) && is_settled(recorder, file, now_ns)) {
		STAILQ_REMOVE_HEAD(&recorder->ending, entry);
		for (unsigned i = 0; file->next && i < file->output->n_sources; i++)
			file->next->sources[i].from = file->sources[i].until;
		writer_give(&recorder->writer, &file->end);
	}
}

/* ---- the files of a recording -------------------------------------------------------------------- */

/* The first file of an output has the losses of its sources since they were attached. */
static struct record_output *add_output(struct recorder *recorder, unsigned first_source, unsigned n_sources,
                                        int32_t flow)
{
	struct source *sources = &recorder->sources[first_source];
	struct record_output *output = calloc(1, sizeof(*output) + n_sources * sizeof(output->sources[0]));

	if (!output)
		return NULL;
	output->files =
		(struct writer_output){.flow_number = flow, .first_source = first_source, .n_sources = n_sources};
	if (flow != RECORDING_ACCOUNT_NO_FLOW)
		snprintf(output->files.flow, sizeof(output->files.flow), "%s-%d", sources[0].stream, flow);
	if (writer_add_buffer(&recorder->writer) == 0)
		output->file = writer_new_file(&output->files);
	if (!output->file) {
		free(output);
		return NULL;
	}
	for (unsigned i = 0; i < n_sources; i++) {
		output->sources[i].unnamed = sources[i].losses.before;
		SLIST_INSERT_HEAD(&sources[i].losses.outputs, &output->sources[i].unnamed, entry);
		output->file->sources[i].is_first = true;
	}
	output_begin_file(recorder, output, recorder->options.from_ns ? recorder->options.from_ns : time_utc_ns());
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
		return add_output(recorder, 0, recorder->n_sources, RECORDING_ACCOUNT_NO_FLOW) ? 0 : -ENOMEM;
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

	/* A row that is older than others in the file came later, by another queue. Or UTC was set back. */
	bool is_between = output->files.n_sources > 1 && time_ns <= output->newest_ns &&
	                  output->newest_ns - time_ns < SETTLE_NS_MAX;

	return time_ns >= output->rotate_ns ||
	       (output->n_packets && !is_between &&
	        (output->bytes + bytes > options->file_bytes || output->n_packets >= options->file_packets));
}

/* The packet names what is missing before it. */
static void name_losses(struct pcapng_packet *packet, const struct unnamed_losses *unnamed,
                        char comment[LOSSES_COMMENT_BYTES])
{
	packet->options &= ~(uint32_t)PCAPNG_PACKET_HAS_DROPS;
	packet->drop_count = unnamed->n;
	if (unnamed->n)
		packet->options |= PCAPNG_PACKET_HAS_DROPS;
	packet->comment =
		unnamed->text[0] ? pcapng_text_of(losses_print_comment(unnamed, comment)) : (struct pcapng_text){0};
}

static size_t write_packet(const struct record_output *output, const struct pcapng_packet *packet)
{
	const struct writer_buffer *buffer = output->buffer;

	return pcapng_write_packet(buffer->at + buffer->used, WRITER_BUFFER_BYTES - buffer->used, packet);
}

bool output_put(struct recorder *recorder, struct record_output *output, unsigned source, struct pcapng_packet *packet,
                const struct row_counts *one)
{
	struct output_source *shown = &output->sources[source - output->files.first_source];
	char comment[LOSSES_COMMENT_BYTES];
	struct writer_buffer *buffer;
	struct record_piece *piece;
	size_t n;

	packet->interface = source - output->files.first_source;
	name_losses(packet, &shown->unnamed, comment);
	n = write_packet(output, packet);
	/* Both calls give the output another buffer. A file that ends names the losses itself, a new one none. */
	if (is_file_full(recorder, output, n, packet->time_ns)) {
		if (!sources_may_be_cut(recorder->sources + output->files.first_source, output->files.n_sources,
		                        packet->time_ns, false))
			return false;
		output_rotate(recorder, output, packet->time_ns);
		name_losses(packet, &shown->unnamed, comment);
		n = write_packet(output, packet);
	} else if (n > WRITER_BUFFER_BYTES - output->buffer->used) {
		output_flush(recorder, output);
		n = write_packet(output, packet);
	}
	if (packet->time_ns < output->begin_ns && recorder->sources[source].n_queues > 1)
		note_late(recorder, output);
	output->newest_ns = u64_max(output->newest_ns, packet->time_ns);
	buffer = output->buffer;
	piece = &buffer->piece;
	if (buffer->used == 0)
		buffer->filled_ns = time_monotonic_ns();
	buffer->used += n;
	output->bytes += n;
	output->n_packets++;
	if (piece->n_packets == 0)
		piece->first_sequence = packet->packet_id;
	/* Clocks step back, and rows of several queues may come late: the earliest, not the first. */
	if (piece->n_packets == 0 || packet->time_ns < piece->first_ns)
		piece->first_ns = packet->time_ns;
	if (packet->time_ns > piece->last_ns)
		piece->last_ns = packet->time_ns;
	piece->last_sequence = packet->packet_id;
	piece->n_packets++;
	row_counts_add(&buffer->n_rows[packet->interface], one);
	losses_named(&shown->unnamed);
	row_counts_add(&shown->written, one);
	return true;
}

uint64_t output_rows_left(const struct record_options *options, const struct record_output *output)
{
	const struct raw_rows *rows = output->file->file.rows; /* NULL: the file could not be opened */
	uint64_t n = rows ? options->file_bytes / rows->layout.row_bytes : 1;

	if (n > options->file_packets)
		n = options->file_packets;
	if (n == 0)
		n = 1;
	return output->n_packets < n ? n - output->n_packets : n;
}

void output_put_rows(struct recorder *recorder, struct record_output *output, unsigned source,
                     const struct ibvcap_rx_batch *rows, struct row_counts good)
{
	struct output_source *shown = &output->sources[source - output->files.first_source];
	size_t bytes = (size_t)rows->n * rows->stride;
	struct writer_buffer *buffer;
	uint64_t begin_ns;

	if (is_file_full(recorder, output, bytes, rows->meta[0].timestamp_ns) ||
	    (output->file->file.rows && !raw_file_takes(&output->file->file, rows)))
		output_rotate(recorder, output, time_utc_ns());
	buffer = output->buffer;
	buffer->used = bytes;
	buffer->piece.rows = rows;
	buffer->piece.losses = &shown->unnamed;
	buffer->n_rows[source - output->files.first_source] = good;
	output->bytes += bytes;
	output->n_packets += rows->n;
	begin_ns = time_monotonic_ns();
	output_flush(recorder, output);
	note_waited(recorder, time_monotonic_ns() - begin_ns);
	losses_named(&shown->unnamed);
	row_counts_add(&shown->written, &good);
}

/* ---- the end ------------------------------------------------------------------------------------- */

void output_end(struct recorder *recorder, struct record_output *output, const struct source_end *ends)
{
	struct writer_file *file = output->file;

	end_parts(recorder, output, ends);
	file->is_last = true;
	file->rotated_ns = time_monotonic_ns();
	writer_give(&recorder->writer, output->buffer);
	output->buffer = NULL;
	STAILQ_INSERT_TAIL(&recorder->ending, file, entry);
}
