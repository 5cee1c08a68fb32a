// SPDX-License-Identifier: Apache-2.0
/* A file of a recording in pcapng format, and FILE.index beside it. Without an index it is read from its beginning. */
#include "tools/record/record_file.h"
#include "tools/recording/recording_index.h"
#include "tools/recording/recording_words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct part_file *index_of(struct record_file *file)
{
	return &file->parts[1];
}

static void drop_index(struct record_file *file, int error)
{
	fprintf(stderr, "ibvcap record: %s" RECORDING_INDEX ": %s; the file has no index\n", file->path,
	        strerror(-error));
	part_file_discard(index_of(file));
}

static int open_index(struct record_file *file)
{
	static const char head[] =
		RECORDING_INDEX_HEAD " offset bytes packets first_ns last_ns first_sequence last_sequence\n";
	const struct record_file_options *options = file->options;
	int r;

	if (!options->index || options->zstd_level || !part_file_is_regular(&file->parts[0]))
		return 0;
	r = part_file_open_beside(index_of(file), &file->parts[0], RECORDING_INDEX);
	return r < 0 ? r : part_file_write(index_of(file), head, sizeof(head) - 1, PART_FILE_CACHED);
}

static void write_index_line(struct record_file *file, const struct record_piece *piece)
{
	char line[160];
	int n, r;

	if (index_of(file)->fd < 0 || !piece->n_packets)
		return;
	n = snprintf(line, sizeof(line),
	             "%" PRIu64 " %zu %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
	             file->parts[0].bytes - piece->bytes, piece->bytes, piece->n_packets, piece->first_ns,
	             piece->last_ns, piece->first_sequence, piece->last_sequence);
	r = part_file_write(index_of(file), line, (size_t)n, PART_FILE_CACHED);
	if (r < 0)
		drop_index(file, r);
}

static int write_blocks(struct record_file *file, const struct record_piece *piece)
{
	enum part_file_way way = piece->is_late ? PART_FILE_CACHED : PART_FILE_TO_DISK;
	int r = record_file_make_room(file, piece->bytes);

	if (r == 0)
		r = part_file_write(&file->parts[0], piece->at, piece->bytes, way);
	if (r == 0)
		write_index_line(file, piece);
	return r;
}

static int end_blocks(struct record_file *file, const struct record_end *end)
{
	const struct record_piece piece = {.at = end->scratch,
	                                   .bytes = contents_write_end(end->scratch, CONTENTS_END_BYTES_MAX, end)};

	return record_file_write(file, &piece);
}

/* The index says which file it is of: another one may get the name. */
static void finish_index(struct record_file *file)
{
	struct recording_stamp stamp;
	char line[80];
	int n, r;

	if (index_of(file)->fd < 0)
		return;
	r = recording_stamp_of(file->parts[0].fd, &stamp);
	if (r == 0) {
		n = snprintf(line, sizeof(line), RECORDING_INDEX_END "%" PRIu64 " %016" PRIx64 "\n", stamp.bytes,
		             stamp.hash);
		r = part_file_write(index_of(file), line, (size_t)n, PART_FILE_CACHED);
	}
	if (r == 0)
		r = part_file_settle(index_of(file), false);
	if (r < 0)
		drop_index(file, r);
}

const struct record_format pcapng_format = {.n_needed = 1,
                                            .write_head = contents_write_head,
                                            .open = open_index,
                                            .write = write_blocks,
                                            .end = end_blocks,
                                            .finish = finish_index};
