// SPDX-License-Identifier: Apache-2.0
/* Writes rows, their meta and their description. */
#include "tools/record/raw_file.h"

#include "tools/ibvcap/status_view.h"
#include "tools/record/part_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define DIRECT_BYTES   4096u /* addresses, lengths and places in the file that O_DIRECT takes everywhere */
#define ALLOCATE_BYTES (64u << 20)
#define SCHEMA_VERSION 1

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

/* sum NULL: the recording goes on. */
static int write_description(const struct raw_file *file, const struct record_sum *sum, int error)
{
	json_t *all = json_pack("{s:i, s:s, s:I, s:s, s:s, s:s, s:O, s:O}", "schema_version", SCHEMA_VERSION, "stream",
	                        file->source->name, "queue", (json_int_t)file->source->queue, "flows",
	                        file->source->filter, "interface", file->source->interface, "clock",
	                        file->source->clock, "runs", file->runs, "losses", file->losses);
	FILE *to;
	int r;

	if (!all)
		return -ENOMEM;
	describe_raw_rows(file, all);
	if (sum)
		json_object_set_new(all, "sum", record_sum_to_json(sum));
	if (error)
		json_object_set_new(all, "error", json_string(strerror(error)));
	to = part_file_open_beside(file->path, RECORDING_JSON);
	r = to ? 0 : -errno;
	if (to && json_dumpf(all, to, JSON_INDENT(1)) < 0)
		r = -EIO;
	if (to && fclose(to) != 0)
		r = -EIO;
	json_decref(all);
	return r;
}

int raw_file_note_loss(struct raw_file *file, const struct losses *losses)
{
	json_array_append_new(file->losses, json_pack("{s:I, s:I, s:s}", "row", (json_int_t)file->n_rows, "packets",
	                                              (json_int_t)losses->pending, "why", losses->text));
	return write_description(file, NULL, 0);
}

/* Each run begins a row of the table; its packets are numbered on from sequence. */
static void note_run(struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	char epoch[24];

	if (file->n_rows && batch->epoch == file->epoch && batch->sequence == file->next_sequence)
		return;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, batch->epoch);
	json_array_append_new(file->runs, json_pack("{s:I, s:I, s:s}", "row", (json_int_t)file->n_rows, "sequence",
	                                            (json_int_t)batch->sequence, "epoch", epoch));
	file->epoch = batch->epoch;
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
	file->is_paged = (uint64_t)info.slots_per_block * info.row_stride % DIRECT_BYTES == 0;
}

int raw_file_open(struct raw_file *file, const struct source *source, const char *path)
{
	int r;

	*file = (struct raw_file){.source = source, .fd = -1, .direct = -1};
	note_geometry(file);
	snprintf(file->path, sizeof(file->path), "%s", path);
	r = part_file_open(path, &file->fd);
	if (r < 0)
		return r;
	file->direct = part_file_open_direct(path);
	file->allocated = part_file_is_in_memory(file->fd) ? UINT64_MAX : 0;
	file->runs = json_array();
	file->losses = json_array();
	file->meta = part_file_open_beside(path, RECORDING_META);
	if (!file->meta)
		return -errno;
	if (file->application_header_bytes && !(file->headers = part_file_open_beside(path, RECORDING_HEADERS)))
		return -errno;
	return write_description(file, NULL, 0);
}

static int pwrite_rows(const struct raw_file *file, int fd, const uint8_t *at, size_t bytes)
{
	size_t written = 0;

	while (written < bytes) {
		ssize_t r = pwrite(fd, at + written, bytes - written, (off_t)(file->bytes + written));

		if (r > 0)
			written += (size_t)r;
		else if (r == 0 || errno != EINTR)
			return r == 0 ? -EIO : -errno;
	}
	return 0;
}

static bool is_aligned(const struct raw_file *file, const uint8_t *at, size_t bytes)
{
	return file->direct >= 0 && ((uintptr_t)at | bytes | file->bytes) % DIRECT_BYTES == 0;
}

static int write_rows(struct raw_file *file, const uint8_t *at, size_t bytes)
{
	int r = -EINVAL;

	if (file->bytes + bytes > file->allocated &&
	    fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)file->bytes, ALLOCATE_BYTES) == 0)
		file->allocated = file->bytes + ALLOCATE_BYTES;
	if (is_aligned(file, at, bytes)) {
		r = pwrite_rows(file, file->direct, at, bytes);
		if (r == 0)
			file->direct_bytes += bytes;
	}
	/* What the kernel does not take from this memory, it takes by its cache. */
	if (r == -EINVAL || r == -EFAULT)
		r = pwrite_rows(file, file->fd, at, bytes);
	return r;
}

/* The rest of the network's headers, if they are longer than ordinary ones, is in the row as well. */
static int write_headers(struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	uint32_t begin = batch->header_bytes - batch->application_header_bytes;

	for (uint32_t i = 0; i < batch->n; i++)
		if (fwrite(ibvcap_rx_headers(batch, i) + begin, file->application_header_bytes, 1, file->headers) != 1)
			return -errno;
	return 0;
}

/* A direct write wants the same place in a page of the file as in a page of memory. */
static void place_first_row(struct raw_file *file, const uint8_t *at)
{
	if (file->direct >= 0 && file->is_paged)
		file->offset = (uint32_t)((uintptr_t)at % DIRECT_BYTES);
	file->bytes = file->offset;
}

bool raw_file_takes(const struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	return batch->stride == file->row_bytes && batch->application_header_bytes == file->application_header_bytes &&
	       batch->header_bytes == file->network_header_bytes + file->application_header_bytes;
}

int raw_file_write(struct raw_file *file, const struct ibvcap_rx_batch *batch)
{
	size_t bytes = (size_t)batch->n * batch->stride;
	int r;

	if (file->n_rows == 0)
		place_first_row(file, batch->payload);
	r = raw_file_takes(file, batch) ? write_rows(file, batch->payload, bytes) : -ESTALE;
	if (r == 0 && fwrite(batch->meta, sizeof(*batch->meta), batch->n, file->meta) != batch->n)
		r = -errno;
	if (r == 0 && file->headers)
		r = write_headers(file, batch);
	if (r < 0) {
		if (ftruncate(file->fd, (off_t)file->bytes) < 0)
			return -errno;
		return r;
	}
	note_run(file, batch);
	file->bytes += bytes;
	file->n_rows += batch->n;
	file->next_sequence = batch->sequence + batch->n;
	return 0;
}

static int close_rows(struct raw_file *file, bool sync)
{
	int r = 0, named;

	if (ftruncate(file->fd, (off_t)file->bytes) < 0 || (sync && fsync(file->fd) < 0))
		r = -errno;
	if (file->direct >= 0)
		close(file->direct);
	named = part_file_finish(file->path, file->fd);
	file->fd = -1;
	return r < 0 ? r : named;
}

int raw_file_finish(struct raw_file *file, const struct record_sum *sum, int error, bool sync)
{
	int r, described;

	if (file->fd < 0)
		return 0;
	r = close_rows(file, sync);
	if (file->meta && fclose(file->meta) != 0 && r == 0)
		r = -errno;
	if (file->headers && fclose(file->headers) != 0 && r == 0)
		r = -errno;
	described = write_description(file, sum, error);
	json_decref(file->runs);
	json_decref(file->losses);
	return r < 0 ? r : described;
}
