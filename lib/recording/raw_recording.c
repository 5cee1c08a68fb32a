// SPDX-License-Identifier: Apache-2.0
/*
 * Writes and reads the layout of rows. Puts the two parts of a packet together: its row of FILE.headers and its row
 * of FILE lie side by side in the buffer, as they did in the frame. Headers that are longer than the ordinary ones go
 * on in the row of FILE.
 */
#include "lib/recording/raw_recording.h"

#include "lib/recording/recording_words.h"
#include "lib/recording/row_frame.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ibvcap/layout.h>
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct raw_recording {
	FILE *rows;
	FILE *meta;
	FILE *headers;    /* NULL: the packets have no application headers */
	json_t *said;     /* the description */
	size_t next_loss; /* of its list */
	struct raw_layout layout;
	uint64_t n_read;
	uint8_t buffer[]; /* a row of FILE.headers and a row of FILE */
};

/* ---- files --------------------------------------------------------------------------------------- */

static bool name_beside(char beside[PATH_MAX], const char *path, const char *suffix)
{
	return snprintf(beside, PATH_MAX, "%s%s", path, suffix) < PATH_MAX;
}

static json_t *load_description(const char *path)
{
	char beside[PATH_MAX];

	return name_beside(beside, path, RECORDING_JSON) ? raw_description_load(AT_FDCWD, beside, 0) : NULL;
}

bool raw_recording_is_one(const char *path)
{
	json_t *said = load_description(path);
	bool is_one = said;

	json_decref(said);
	return is_one;
}

static FILE *open_beside(const char *path, const char *suffix, char *error, size_t error_bytes)
{
	char beside[PATH_MAX];
	FILE *file;

	if (!name_beside(beside, path, suffix)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	file = fopen(beside, "re");
	if (!file)
		snprintf(error, error_bytes, "%s: %s", beside, strerror(errno));
	return file;
}

static uint64_t number_of(const json_t *value)
{
	json_int_t number = json_integer_value(value);

	return number > 0 ? (uint64_t)number : 0;
}

static bool is_longer(FILE *file, uint64_t bytes)
{
	struct stat status;

	return fstat(fileno(file), &status) == 0 && (uint64_t)status.st_size > bytes;
}

/* Longer than a complete description says: they are another recording's. Shorter: their end is missing. */
static bool belong_together(const struct raw_recording *recording)
{
	const struct raw_layout *layout = &recording->layout;
	uint64_t n = layout->n_rows;

	return !json_object_get(recording->said, "sum") ||
	       (!is_longer(recording->rows, layout->offset + n * layout->row_bytes) &&
	        !is_longer(recording->meta, n * sizeof(struct ibvcap_meta)) &&
	        (!recording->headers || !is_longer(recording->headers, n * layout->application_header_bytes)));
}

/* 0; -errno. */
static int open_files(struct raw_recording *recording, const char *path, char *error, size_t error_bytes)
{
	recording->rows = fopen(path, "re");
	if (!recording->rows) {
		snprintf(error, error_bytes, "%s: %s", path, strerror(errno));
		return -errno;
	}
	if (fseek(recording->rows, (long)recording->layout.offset, SEEK_SET) < 0)
		return -EBADMSG;
	recording->meta = open_beside(path, RECORDING_META, error, error_bytes);
	if (!recording->meta)
		return -errno;
	if (recording->layout.application_header_bytes &&
	    !(recording->headers = open_beside(path, RECORDING_HEADERS, error, error_bytes)))
		return -errno;
	if (!belong_together(recording)) {
		snprintf(error, error_bytes, "%s: it has more rows, meta or headers than its description says", path);
		return -EBADMSG;
	}
	return 0;
}

static uint32_t bytes_of(const json_t *value)
{
	json_int_t bytes = json_integer_value(value);

	return bytes > 0 && bytes <= RAW_ROW_BYTES_MAX ? (uint32_t)bytes : 0;
}

static bool raw_layout_from_json(const json_t *description, struct raw_layout *layout)
{
	const json_t *shape = json_object_get(description, "shape");
	json_int_t n_rows = json_integer_value(json_array_get(shape, 0));
	json_int_t offset = json_integer_value(json_object_get(description, "offset"));
	const char *name = json_string_value(json_object_get(description, "layout"));

	*layout = (struct raw_layout){
		.n_rows = n_rows > 0 ? (uint64_t)n_rows : 0,
		.row_bytes = bytes_of(json_array_get(shape, 1)),
		.offset = bytes_of(json_object_get(description, "offset")),
		.network_header_bytes = bytes_of(json_object_get(description, "network_header_bytes")),
		.application_header_bytes = bytes_of(json_object_get(description, "application_header_bytes")),
		.has_frames = name && !strcmp(name, "frame")};
	return layout->row_bytes && offset <= RAW_ROW_BYTES_MAX && n_rows <= INT64_MAX / RAW_ROW_BYTES_MAX;
}

int raw_recording_open(struct raw_recording **opened, const char *path, char *error, size_t error_bytes)
{
	json_t *said = load_description(path);
	struct raw_recording *recording;
	struct raw_layout layout;
	int r;

	snprintf(error, error_bytes, "%s: its description, FILE.json, is not one of 'ibvcap record --raw'", path);
	if (!raw_layout_from_json(said, &layout)) {
		json_decref(said);
		return -EBADMSG;
	}
	recording = calloc(1, sizeof(*recording) + layout.application_header_bytes + layout.row_bytes);
	if (!recording) {
		json_decref(said);
		return -ENOMEM;
	}
	recording->said = said;
	recording->layout = layout;
	r = open_files(recording, path, error, error_bytes);
	if (r < 0) {
		raw_recording_close(recording);
		return r;
	}
	*opened = recording;
	return 0;
}

const json_t *raw_recording_sequence(const struct raw_recording *recording)
{
	return json_object_get(recording->said, "sequence");
}

void raw_recording_close(struct raw_recording *recording)
{
	if (!recording)
		return;
	if (recording->rows)
		fclose(recording->rows);
	if (recording->meta)
		fclose(recording->meta);
	if (recording->headers)
		fclose(recording->headers);
	json_decref(recording->said);
	free(recording);
}

/* ---- packets ------------------------------------------------------------------------------------- */

/* 1; 0 at the end; -errno. */
static int read_row(struct raw_recording *recording, struct ibvcap_meta *meta)
{
	uint32_t header_bytes = recording->layout.application_header_bytes;

	if (fread(meta, sizeof(*meta), 1, recording->meta) == 1 &&
	    (!recording->headers || fread(recording->buffer, header_bytes, 1, recording->headers) == 1) &&
	    fread(recording->buffer + header_bytes, recording->layout.row_bytes, 1, recording->rows) == 1) {
		recording->n_read++;
		return 1;
	}
	if (ferror(recording->meta) || ferror(recording->rows))
		return -EIO;
	return recording->n_read < recording->layout.n_rows ? -EBADMSG : 0;
}

/* Packets lost before the row that was read last. */
static uint64_t lost_before(struct raw_recording *recording)
{
	json_t *losses = json_object_get(recording->said, "losses"), *loss;
	uint64_t n = 0;

	while ((loss = json_array_get(losses, recording->next_loss)) &&
	       number_of(json_object_get(loss, "row")) < recording->n_read) {
		n += number_of(json_object_get(loss, "packets"));
		recording->next_loss++;
	}
	return n;
}

/* The frame is in the buffer. */
static void fill_checksum(struct raw_recording *recording, const struct raw_packet *packet)
{
	struct row_frame frame = {.at = {recording->buffer, recording->buffer},
	                          .bytes = {packet->captured, 0},
	                          .wire_bytes = packet->wire_bytes};

	row_frame_find_checksum(&frame);
	if (frame.checksum_at)
		memcpy(recording->buffer + frame.checksum_at, &frame.checksum, sizeof(frame.checksum));
}

int raw_recording_next(struct raw_recording *recording, struct raw_packet *packet)
{
	uint64_t n_errored = 0;
	struct ibvcap_meta meta;
	int r;
	const struct raw_layout *layout = &recording->layout;
	uint32_t row_bytes = (uint32_t)layout->row_bytes, longer;

	while ((r = read_row(recording, &meta)) > 0 && meta.flags & IBVCAP_PACKET_FLAG_ERROR)
		n_errored++;
	if (r <= 0)
		return r;
	longer = row_frame_min(row_frame_longer(&meta, layout->network_header_bytes), row_bytes);
	packet->time_ns = meta.timestamp_ns;
	packet->at = recording->buffer + longer;
	packet->kind = layout->has_frames                         ? RAW_PACKET_FRAME
	               : meta.flags & IBVCAP_PACKET_FLAG_FRAGMENT ? RAW_PACKET_FRAGMENT
	                                                          : RAW_PACKET_PAYLOAD;
	packet->captured = layout->application_header_bytes + row_frame_min(meta.length, row_bytes - longer);
	packet->wire_bytes = layout->application_header_bytes + row_frame_max(meta.wire_length, meta.length);
	if (meta.flags & IBVCAP_PACKET_FLAG_UNUSABLE) {
		packet->captured = 0;
		packet->wire_bytes++;
	}
	if (layout->has_frames && meta.flags & IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM)
		fill_checksum(recording, packet);
	packet->n_lost = lost_before(recording) + n_errored;
	return 1;
}

uint64_t raw_recording_dropped(const struct raw_recording *recording)
{
	static const char *const terms[] = {"unwritten", "errored", "skipped", "disk_wait", "no_buffer"};
	const json_t *sum = json_object_get(recording->said, "sum");
	uint64_t n = 0;

	for (unsigned i = 0; i < sizeof(terms) / sizeof(terms[0]); i++)
		n += number_of(json_object_get(sum, terms[i]));
	return n;
}

/* ---- layout of rows ------------------------------------------------------------------------------ */

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

void raw_layout_to_json(const struct raw_layout *layout, json_t *description)
{
	json_object_set_new(description, "dtype", json_string("u1"));
	json_object_set_new(description, "offset", json_integer(layout->offset));
	json_object_set_new(description, "shape",
	                    json_pack("[I,I]", (json_int_t)layout->n_rows, (json_int_t)layout->row_bytes));
	json_object_set_new(description, "payload_bytes", json_integer((json_int_t)layout->payload_bytes));
	json_object_set_new(description, "byte_order", json_string("little"));
	json_object_set_new(description, "meta_dtype", meta_dtype());
	json_object_set_new(description, "layout", json_string(layout->has_frames ? "frame" : "payload"));
	json_object_set_new(description, "network_header_bytes", json_integer(layout->network_header_bytes));
	json_object_set_new(description, "application_header_bytes", json_integer(layout->application_header_bytes));
}

json_t *raw_description_load(int folder, const char *name, int flags)
{
	int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | flags);
	struct stat status;
	json_t *said = NULL;

	if (fd < 0)
		return NULL;
	if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
		said = json_loadfd(fd, 0, NULL);
	close(fd);
	if (json_is_array(json_object_get(said, "meta_dtype")) && json_is_array(json_object_get(said, "shape")))
		return said;
	json_decref(said);
	return NULL;
}
