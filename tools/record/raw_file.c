// SPDX-License-Identifier: Apache-2.0
/* Writes rows, their meta and their description. */
#include "tools/record/raw_file.h"

#include "tools/ibvcap/status_view.h"

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

/* sum NULL: the recording goes on. */
static int write_description(const struct raw_file *file, const struct record_sum *sum, int error)
{
	char path[PATH_MAX + 8];
	json_t *all =
		json_pack("{s:i, s:s, s:I, s:s, s:[I,I], s:I, s:s, s:o, s:s, s:s, s:s, s:O, s:O}", "schema_version",
	                  SCHEMA_VERSION, "stream", file->source->name, "queue", (json_int_t)file->source->queue,
	                  "dtype", "u1", "shape", (json_int_t)file->n_rows, (json_int_t)file->row_bytes,
	                  "payload_bytes", (json_int_t)file->payload_bytes, "byte_order", "little", "meta_dtype",
	                  meta_dtype(), "flows", file->source->filter, "interface", file->source->interface, "clock",
	                  file->source->clock, "runs", file->runs, "losses", file->losses);
	int r;

	if (!all)
		return -ENOMEM;
	if (sum)
		json_object_set_new(all, "sum", record_sum_to_json(sum));
	if (error)
		json_object_set_new(all, "error", json_string(strerror(error)));
	snprintf(path, sizeof(path), "%s" FILE_WINDOW_JSON, file->path);
	r = json_dump_file(all, path, JSON_INDENT(1)) < 0 ? -EIO : 0;
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
static void note_run(struct raw_file *file, const struct ibvcap_rx_batch *batch, uint32_t first)
{
	char epoch[24];

	if (file->n_rows && batch->epoch == file->epoch && batch->sequence + first == file->next_sequence)
		return;
	snprintf(epoch, sizeof(epoch), "%016" PRIx64, batch->epoch);
	json_array_append_new(file->runs, json_pack("{s:I, s:I, s:s}", "row", (json_int_t)file->n_rows, "sequence",
	                                            (json_int_t)(batch->sequence + first), "epoch", epoch));
	file->epoch = batch->epoch;
}

/* ---- files --------------------------------------------------------------------------------------- */

int raw_file_open(struct raw_file *file, const struct source *source, const char *path)
{
	char part[PATH_MAX + 8], meta[PATH_MAX + 8];
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	*file = (struct raw_file){.source = source, .fd = -1, .direct = -1};
	ibvcap_rx_info(source->rx, &info);
	file->row_bytes = info.row_stride;
	file->payload_bytes = info.slot_bytes;
	snprintf(file->path, sizeof(file->path), "%s", path);
	snprintf(part, sizeof(part), "%s" FILE_WINDOW_PART, path);
	snprintf(meta, sizeof(meta), "%s" FILE_WINDOW_META, path);
	file->fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (file->fd < 0)
		return -errno;
	file->direct = open(part, O_WRONLY | O_DIRECT | O_CLOEXEC);
	file->meta = fopen(meta, "we");
	file->runs = json_array();
	file->losses = json_array();
	if (!file->meta)
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

int raw_file_write(struct raw_file *file, const struct ibvcap_rx_batch *batch, uint32_t first, uint32_t n)
{
	const uint8_t *at = batch->payload + (size_t)first * batch->stride;
	size_t bytes = (size_t)n * batch->stride;
	int r = batch->stride == file->row_bytes ? write_rows(file, at, bytes) : -ESTALE;

	if (r == 0 && fwrite(batch->meta + first, sizeof(*batch->meta), n, file->meta) != n)
		r = -errno;
	if (r < 0) {
		if (ftruncate(file->fd, (off_t)file->bytes) < 0)
			return -errno;
		return r;
	}
	note_run(file, batch, first);
	file->bytes += bytes;
	file->n_rows += n;
	file->next_sequence = batch->sequence + first + n;
	return 0;
}

static int close_rows(struct raw_file *file, bool sync)
{
	char part[PATH_MAX + 8];
	int r = 0;

	snprintf(part, sizeof(part), "%s" FILE_WINDOW_PART, file->path);
	if (ftruncate(file->fd, (off_t)file->bytes) < 0 || (sync && fsync(file->fd) < 0))
		r = -errno;
	if (file->direct >= 0)
		close(file->direct);
	if (close(file->fd) < 0 && r == 0)
		r = -errno;
	file->fd = -1;
	if (rename(part, file->path) < 0 && r == 0)
		r = -errno;
	return r;
}

int raw_file_finish(struct raw_file *file, const struct record_sum *sum, int error, bool sync)
{
	int r, described;

	if (file->fd < 0)
		return 0;
	r = close_rows(file, sync);
	if (file->meta && fclose(file->meta) != 0 && r == 0)
		r = -errno;
	described = write_description(file, sum, error);
	json_decref(file->runs);
	json_decref(file->losses);
	return r < 0 ? r : described;
}
