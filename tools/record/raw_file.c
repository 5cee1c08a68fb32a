// SPDX-License-Identifier: Apache-2.0
/* Writes rows, their meta and their description. */
#include "tools/record/record_file.h"

#include "lib/recording/recording_words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_END_BYTES (64u << 10) /* kept free for the members that the description gets at the end */
#define HEADERS_AT_ONCE_BYTES (64u << 10)
#define SCHEMA_VERSION        1

/* ---- description --------------------------------------------------------------------------------- */

static json_t *raw_sum_to_json(const struct recording_account *account)
{
	const struct recording_sum *sum = &account->sum;

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "published",
	                 (json_int_t)record_sum_published(sum), "written", (json_int_t)sum->written, "filtered",
	                 (json_int_t)sum->filtered, "unwritten", (json_int_t)sum->unwritten, "errored",
	                 (json_int_t)sum->errored, "skipped", (json_int_t)sum->skipped, "disk_wait",
	                 (json_int_t)sum->disk_wait, "lag", (json_int_t)sum->lag, "no_buffer",
	                 (json_int_t)account->rx.no_buffer, "restarts", (json_int_t)account->rx.restarts);
}

/* end NULL: the recording goes on. */
static int write_description(struct record_file *file, const struct record_end *end)
{
	const struct source *source = file->options->sources;
	const struct raw_rows *rows = file->rows;
	json_t *all = json_pack("{s:i, s:s, s:I, s:s, s:s, s:s, s:O, s:O}", "schema_version", SCHEMA_VERSION, "stream",
	                        source->name, "queue", (json_int_t)source->queue, "flows", source->flows, "interface",
	                        source->interface, "clock", source->clock, "runs", rows->runs, "losses", rows->losses);
	char *text;
	int r;

	if (!all)
		return -ENOMEM;
	raw_layout_to_json(&rows->layout, all);
	if (source->sequence)
		json_object_set(all, "sequence", source->sequence);
	if (source->filter)
		json_object_set_new(all, "filter", json_string(source->filter));
	if (end) {
		json_object_set_new(all, "sum", raw_sum_to_json(end->accounts));
		json_object_set_new(all, "account", recording_account_to_json(end->accounts));
	}
	if (end && end->error)
		json_object_set_new(all, "error", json_string(strerror(end->error)));
	text = json_dumps(all, JSON_INDENT(1));
	json_decref(all);
	if (!text)
		return -ENOMEM;
	r = part_file_replace(&file->parts[RAW_DESCRIPTION], text, strlen(text));
	free(text);
	return r;
}

static void note_raw_loss(struct raw_rows *rows, const struct recording_losses *named, const char *why)
{
	const uint64_t *by_cause = named->n;
	uint64_t n = by_cause[RECORDING_CAUSE_SKIPPED] + by_cause[RECORDING_CAUSE_DISK_WAIT] +
	             by_cause[RECORDING_CAUSE_ERRORED] + by_cause[RECORDING_CAUSE_NO_BUFFER];
	json_t *loss = json_pack("{s:I, s:I, s:s}", "row", (json_int_t)rows->layout.n_rows, "packets", (json_int_t)n,
	                         "why", why);

	recording_losses_to_json(named, loss);
	json_array_append_new(rows->losses, loss);
}

/*
 * Each run begins a row of its table, and its packets are numbered on from sequence. With a filter only the run's first
 * packet has that number, and a run ends where packets are missing. The file has a run and a loss ahead of their rows,
 * because the recorder may be killed.
 */
static int describe_batch(struct record_file *file, const struct record_piece *piece)
{
	const struct ibvcap_rx_batch *batch = piece->rows;
	struct raw_rows *rows = file->rows;
	bool has_loss = piece->losses->text[0], goes_on;
	char epoch[24];

	if (has_loss)
		note_raw_loss(rows, &piece->losses->named, piece->losses->text);
	goes_on = file->options->sources->filter ? !has_loss : batch->sequence == rows->next_sequence;
	if (rows->layout.n_rows && batch->epoch == rows->epoch && goes_on)
		return has_loss ? write_description(file, NULL) : 0;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, batch->epoch);
	json_array_append_new(rows->runs, json_pack("{s:I, s:I, s:s}", "row", (json_int_t)rows->layout.n_rows,
	                                            "sequence", (json_int_t)batch->sequence, "epoch", epoch));
	return write_description(file, NULL);
}

/* ---- files --------------------------------------------------------------------------------------- */

static void free_rows(struct record_file *file)
{
	if (file->rows) {
		json_decref(file->rows->runs);
		json_decref(file->rows->losses);
	}
	free(file->rows);
	file->rows = NULL;
}

static int open_rows(struct record_file *file)
{
	const struct part_file *main = &file->parts[RAW_ROWS];
	struct raw_rows *rows = calloc(1, sizeof(*rows));
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	int r;

	if (!rows)
		return -ENOMEM;
	file->rows = rows;
	rows->runs = json_array();
	rows->losses = json_array();
	ibvcap_rx_info(file->options->sources->rx, &info);
	rows->layout.row_bytes = info.row_stride;
	rows->layout.payload_bytes = info.slot_bytes;
	rows->layout.has_frames = info.flags & IBVCAP_RING_FLAG_FRAMES;
	rows->layout.application_header_bytes = info.application_header_bytes;
	rows->layout.network_header_bytes = info.header_bytes - info.application_header_bytes;
	rows->is_paged = (uint64_t)info.slots_per_block * info.row_stride % DISK_PAGE_BYTES == 0;
	if (!part_file_is_regular(main))
		return -ESPIPE;
	r = part_file_open_beside(&file->parts[RAW_META], main, RECORDING_META);
	if (r == 0 && rows->layout.application_header_bytes)
		r = part_file_open_beside(&file->parts[RAW_HEADERS], main, RECORDING_HEADERS);
	if (r == 0)
		r = part_file_open_beside(&file->parts[RAW_DESCRIPTION], main, RECORDING_JSON);
	file->parts[RAW_DESCRIPTION].end_bytes = DESCRIPTION_END_BYTES;
	if (r == 0)
		r = write_description(file, NULL);
	file->is_begun = r == 0;
	return r;
}

/* The rest of the network's headers, if they are longer than ordinary ones, is in the row as well. */
static int write_headers(struct record_file *file, const struct ibvcap_rx_batch *batch)
{
	uint32_t begin = batch->header_bytes - batch->application_header_bytes,
		 n = file->rows->layout.application_header_bytes;
	uint8_t headers[HEADERS_AT_ONCE_BYTES];
	size_t used = 0;
	int r = 0;

	for (uint32_t i = 0; i < batch->n && r == 0; i++) {
		memcpy(headers + used, ibvcap_rx_headers(batch, i) + begin, n);
		used += n;
		if (used + n <= sizeof(headers) && i + 1 < batch->n)
			continue;
		r = part_file_write(&file->parts[RAW_HEADERS], headers, used, PART_FILE_CACHED);
		used = 0;
	}
	return r;
}

/* A direct write wants the same place in a page of the file as in a page of memory. */
static int place_first_row(struct record_file *file, const uint8_t *at)
{
	static const uint8_t zeros[DISK_PAGE_BYTES];
	struct part_file *main = &file->parts[RAW_ROWS];
	uint32_t offset = (uint32_t)((uintptr_t)at % DISK_PAGE_BYTES);
	int r;

	if (main->bytes || main->direct < 0 || !file->rows->is_paged || !offset)
		return 0;
	r = part_file_write(main, zeros, offset, PART_FILE_CACHED);
	if (r == 0)
		file->rows->layout.offset = offset;
	return r;
}

bool raw_file_takes(const struct record_file *file, const struct ibvcap_rx_batch *batch)
{
	const struct raw_rows *rows = file->rows;

	return batch->stride == rows->layout.row_bytes &&
	       batch->application_header_bytes == rows->layout.application_header_bytes &&
	       batch->header_bytes == rows->layout.network_header_bytes + rows->layout.application_header_bytes;
}

/* All files end behind the last row that each of them has. */
static int cut_to_rows(struct record_file *file)
{
	const struct raw_rows *rows = file->rows;
	int main = part_file_cut(&file->parts[RAW_ROWS],
	                         rows->layout.offset + rows->layout.n_rows * rows->layout.row_bytes);
	int meta = part_file_cut(&file->parts[RAW_META], rows->layout.n_rows * sizeof(struct ibvcap_meta));
	int headers =
		part_file_cut(&file->parts[RAW_HEADERS], rows->layout.n_rows * rows->layout.application_header_bytes);

	return main < 0 ? main : meta < 0 ? meta : headers;
}

static int append_rows(struct record_file *file, const struct record_piece *piece)
{
	const struct ibvcap_rx_batch *batch = piece->rows;
	struct raw_rows *rows = file->rows;
	size_t meta_bytes = batch->n * sizeof(*batch->meta);
	int r = record_file_make_room(file, piece->bytes + meta_bytes +
	                                            (uint64_t)batch->n * rows->layout.application_header_bytes);

	if (r == 0 && rows->layout.n_rows == 0)
		r = place_first_row(file, piece->at);
	if (r == 0)
		r = describe_batch(file, piece);
	if (r == 0)
		r = part_file_write(&file->parts[RAW_ROWS], piece->at, piece->bytes, PART_FILE_TO_DISK);
	if (r == 0)
		r = part_file_write(&file->parts[RAW_META], batch->meta, meta_bytes, PART_FILE_CACHED);
	if (r == 0 && rows->layout.application_header_bytes)
		r = write_headers(file, batch);
	return r;
}

static void forget_from(json_t *array, size_t n)
{
	while (json_array_size(array) > n)
		json_array_remove(array, json_array_size(array) - 1);
}

static int write_rows(struct record_file *file, const struct record_piece *piece)
{
	const struct ibvcap_rx_batch *batch = piece->rows;
	struct raw_rows *rows = file->rows;
	size_t n_runs = json_array_size(rows->runs), n_losses = json_array_size(rows->losses);
	int r = raw_file_takes(file, batch) ? append_rows(file, piece) : -ESTALE, cut;

	if (r < 0) {
		forget_from(rows->runs, n_runs);
		forget_from(rows->losses, n_losses);
		cut = cut_to_rows(file);
		return cut < 0 ? cut : r;
	}
	rows->layout.n_rows += batch->n;
	rows->epoch = batch->epoch;
	rows->next_sequence = batch->sequence + batch->n;
	return 0;
}

static int end_rows(struct record_file *file, const struct record_end *end)
{
	if (end->note[0])
		note_raw_loss(file->rows, end->named, end->note);
	return write_description(file, end);
}

const struct record_format raw_format = {.is_synchronous = true,
                                         .n_needed = RECORD_FILE_PARTS,
                                         .open = open_rows,
                                         .write = write_rows,
                                         .end = end_rows,
                                         .deinit = free_rows};
