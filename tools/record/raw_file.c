// SPDX-License-Identifier: Apache-2.0
/* Writes rows, their meta and their description. */
#include "tools/record/raw_file.h"

#include "tools/status/status_view.h"
#include "tools/pcapng/recording_words.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DESCRIPTION_END_BYTES (64u << 10) /* kept free for what the description has more at the end */
#define HEADERS_AT_ONCE_BYTES (64u << 10)
#define SCHEMA_VERSION        1

/* ---- description --------------------------------------------------------------------------------- */

/* As numpy.dtype() takes it. */
static json_t *meta_dtype(void)
{
	static_assert(sizeof(struct ibvcap_meta) == 16 && offsetof(struct ibvcap_meta, length) == 8 &&
	                      offsetof(struct ibvcap_meta, flags) == 10 &&
	                      offsetof(struct ibvcap_meta, header_length) == 12 &&
	                      offsetof(struct ibvcap_meta, flow) == 13 &&
	                      offsetof(struct ibvcap_meta, wire_length) == 14,
	              "the names below say what is in FILE.meta");
	return json_pack("[[s,s],[s,s],[s,s],[s,s],[s,s],[s,s]]", "timestamp_ns", "<u8", "length", "<u2", "flags",
	                 "<u2", "header_length", "u1", "flow", "u1", "wire_length", "<u2");
}

static void describe_raw_rows(const struct raw_file *file, json_t *all)
{
	json_object_set_new(all, "dtype", json_string("u1"));
	json_object_set_new(all, "offset", json_integer(file->offset));
	json_object_set_new(all, "shape", json_pack("[I,I]", (json_int_t)file->n_rows, (json_int_t)file->row_bytes));
	json_object_set_new(all, "payload_bytes", json_integer((json_int_t)file->payload_bytes));
	json_object_set_new(all, "byte_order", json_string("little"));
	json_object_set_new(all, "meta_dtype", meta_dtype());
	json_object_set_new(all, "layout", json_string(file->has_frames ? "frame" : "payload"));
	json_object_set_new(all, "network_header_bytes", json_integer(file->network_header_bytes));
	json_object_set_new(all, "application_header_bytes", json_integer(file->application_header_bytes));
	if (file->source->sequence)
		json_object_set(all, "sequence", file->source->sequence);
}

static json_t *raw_sum_to_json(const struct recording_account *account)
{
	struct record_sum sum = account_sum(account);

	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "published", (json_int_t)sum.published,
	                 "written", (json_int_t)sum.written, "unwritten", (json_int_t)sum.unwritten, "errored",
	                 (json_int_t)sum.errored, "skipped", (json_int_t)sum.skipped, "disk_wait",
	                 (json_int_t)sum.disk_wait, "lag", (json_int_t)sum.lag, "no_buffer", (json_int_t)sum.no_buffer,
	                 "restarts", (json_int_t)sum.restarts);
}

/* account NULL: the recording goes on. */
static int write_description(struct raw_file *file, const struct recording_account *account, int error)
{
	json_t *all = json_pack("{s:i, s:s, s:I, s:s, s:s, s:s, s:O, s:O}", "schema_version", SCHEMA_VERSION, "stream",
	                        file->source->name, "queue", (json_int_t)file->source->queue, "flows",
	                        file->source->filter, "interface", file->source->interface, "clock",
	                        file->source->clock, "runs", file->runs, "losses", file->losses);
	char *text;
	int r;

	if (!all)
		return -ENOMEM;
	describe_raw_rows(file, all);
	if (account) {
		json_object_set_new(all, "sum", raw_sum_to_json(account));
		json_object_set_new(all, "account", recording_account_to_json(account));
	}
	if (error)
		json_object_set_new(all, "error", json_string(strerror(error)));
	text = json_dumps(all, JSON_INDENT(1));
	json_decref(all);
	if (!text)
		return -ENOMEM;
	r = part_file_replace(&file->description, text, strlen(text));
	free(text);
	return r;
}

int raw_file_note_loss(struct raw_file *file, const struct losses *losses)
{
	int r;

	json_array_append_new(file->losses, json_pack("{s:I, s:I, s:s}", "row", (json_int_t)file->n_rows, "packets",
	                                              (json_int_t)losses->pending, "why", losses->text));
	r = write_description(file, NULL, 0);
	if (r < 0)
		json_array_remove(file->losses, json_array_size(file->losses) - 1);
	return r;
}

/* Each run begins a row of the table; its packets are numbered on from sequence. It is in the file at once: the
 * recorder may be killed. */
static int note_run(struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	size_t n = json_array_size(file->runs);
	char epoch[24];
	int r;

	if (n && batch->epoch == file->epoch && batch->sequence == file->next_sequence)
		return 0;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, batch->epoch);
	json_array_append_new(file->runs, json_pack("{s:I, s:I, s:s}", "row", (json_int_t)file->n_rows, "sequence",
	                                            (json_int_t)batch->sequence, "epoch", epoch));
	r = write_description(file, NULL, 0);
	if (r < 0) {
		json_array_remove(file->runs, n);
		return r;
	}
	file->epoch = batch->epoch;
	file->next_sequence = batch->sequence;
	return 0;
}

/* ---- files --------------------------------------------------------------------------------------- */

static void note_geometry(struct raw_file *file)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(file->source->rx, &info);
	file->row_bytes = info.row_stride;
	file->payload_bytes = info.slot_bytes;
	file->has_frames = info.flags & IBVCAP_RING_FLAG_FRAMES;
	file->application_header_bytes = info.application_header_bytes;
	file->network_header_bytes = info.header_bytes - info.application_header_bytes;
	file->is_paged = (uint64_t)info.slots_per_block * info.row_stride % DISK_PAGE_BYTES == 0;
}

static void discard_all(struct raw_file *file)
{
	part_file_discard(&file->description);
	part_file_discard(&file->headers);
	part_file_discard(&file->meta);
	part_file_discard(&file->rows);
	json_decref(file->runs);
	json_decref(file->losses);
}

int raw_file_open(struct raw_file *file, const struct source *source, const char *path, bool is_new)
{
	int r;

	*file = (struct raw_file){.source = source,
	                          .rows = PART_FILE_CLOSED,
	                          .meta = PART_FILE_CLOSED,
	                          .headers = PART_FILE_CLOSED,
	                          .description = PART_FILE_CLOSED};
	note_geometry(file);
	snprintf(file->path, sizeof(file->path), "%s", path);
	r = part_file_open(&file->rows, file->path, is_new);
	if (r == 0 && !part_file_is_regular(&file->rows))
		r = -ESPIPE;
	file->runs = json_array();
	file->losses = json_array();
	if (r == 0)
		r = part_file_open_beside(&file->meta, &file->rows, RECORDING_META);
	if (r == 0 && file->application_header_bytes)
		r = part_file_open_beside(&file->headers, &file->rows, RECORDING_HEADERS);
	if (r == 0)
		r = part_file_open_beside(&file->description, &file->rows, RECORDING_JSON);
	file->description.end_bytes = DESCRIPTION_END_BYTES;
	if (r == 0)
		r = write_description(file, NULL, 0);
	if (r < 0)
		discard_all(file);
	else
		part_file_begin_direct(&file->rows);
	return r;
}

uint64_t raw_file_bytes(const struct raw_file *file)
{
	return file->rows.bytes + file->meta.bytes + file->headers.bytes;
}

/* The rest of the network's headers, if they are longer than ordinary ones, is in the row as well. */
static int write_headers(struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	uint32_t begin = batch->header_bytes - batch->application_header_bytes, n = file->application_header_bytes;
	uint8_t headers[HEADERS_AT_ONCE_BYTES];
	size_t used = 0;
	int r = 0;

	for (uint32_t i = 0; i < batch->n && r == 0; i++) {
		memcpy(headers + used, ibvcap_rx_headers(batch, i) + begin, n);
		used += n;
		if (used + n <= sizeof(headers) && i + 1 < batch->n)
			continue;
		r = part_file_write(&file->headers, headers, used, PART_FILE_CACHED);
		used = 0;
	}
	return r;
}

/* A direct write wants the same place in a page of the file as in a page of memory. */
static int place_first_row(struct raw_file *file, const uint8_t *at)
{
	static const uint8_t zeros[DISK_PAGE_BYTES];
	uint32_t offset = (uint32_t)((uintptr_t)at % DISK_PAGE_BYTES);
	int r;

	if (file->rows.bytes || file->rows.direct < 0 || !file->is_paged || !offset)
		return 0;
	r = part_file_write(&file->rows, zeros, offset, PART_FILE_CACHED);
	if (r == 0)
		file->offset = offset;
	return r;
}

bool raw_file_takes(const struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	return batch->stride == file->row_bytes && batch->application_header_bytes == file->application_header_bytes &&
	       batch->header_bytes == file->network_header_bytes + file->application_header_bytes;
}

/* All files end behind the last row that each of them has. */
static int cut_to_rows(struct raw_file *file)
{
	int rows = part_file_cut(&file->rows, file->offset + file->n_rows * file->row_bytes);
	int meta = part_file_cut(&file->meta, file->n_rows * sizeof(struct ibvcap_meta));
	int headers = 0;

	if (file->headers.fd >= 0)
		headers = part_file_cut(&file->headers, file->n_rows * file->application_header_bytes);
	return rows < 0 ? rows : meta < 0 ? meta : headers;
}

int raw_file_write(struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	int r = raw_file_takes(file, batch) ? 0 : -ESTALE, cut;

	if (r == 0 && file->n_rows == 0)
		r = place_first_row(file, batch->payload);
	if (r == 0)
		r = note_run(file, batch);
	if (r == 0)
		r = part_file_write(&file->rows, batch->payload, (size_t)batch->n * batch->stride, PART_FILE_TO_DISK);
	if (r == 0)
		r = part_file_write(&file->meta, batch->meta, batch->n * sizeof(*batch->meta), PART_FILE_CACHED);
	if (r == 0 && file->headers.fd >= 0)
		r = write_headers(file, batch);
	if (r < 0) {
		cut = cut_to_rows(file);
		return cut < 0 ? cut : r;
	}
	file->n_rows += batch->n;
	file->next_sequence = batch->sequence + batch->n;
	return 0;
}

void raw_file_fill(struct raw_file *file)
{
	cut_to_rows(file);
}

void raw_file_discard(struct raw_file *file)
{
	struct part_file *const all[] = {&file->description, &file->headers, &file->meta, &file->rows};

	for (unsigned i = 0; i < 4; i++)
		part_file_discard(all[i]);
	json_decref(file->runs);
	json_decref(file->losses);
}

/* The description is the last: without it nobody takes the others for those of a file. */
int raw_file_finish(struct raw_file *file, const struct recording_account *account, int error, bool sync)
{
	struct part_file *const all[] = {&file->rows, &file->meta, &file->headers, &file->description};
	int r;

	if (file->rows.fd < 0)
		return 0;
	r = write_description(file, account, error);
	for (unsigned i = 0; i < 4; i++)
		if (r == 0 && all[i]->fd >= 0)
			r = part_file_settle(all[i], true);
	if (r == 0)
		r = part_file_name_all(all, 4, sync);
	for (unsigned i = 4; i-- > 0;)
		part_file_close(all[i]);
	json_decref(file->runs);
	json_decref(file->losses);
	return r;
}
