// SPDX-License-Identifier: Apache-2.0
/* Writes and reads the layout of rows. */
#include "tools/recording/raw_layout.h"

#include <assert.h>
#include <fcntl.h>
#include <ibvcap/layout.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static uint32_t bytes_of(const json_t *value)
{
	json_int_t bytes = json_integer_value(value);

	return bytes > 0 && bytes <= RAW_ROW_BYTES_MAX ? (uint32_t)bytes : 0;
}

bool raw_layout_from_json(const json_t *description, struct raw_layout *layout)
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
