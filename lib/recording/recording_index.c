// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the index of a recording. Its first line names the format; each other line is a piece of the file:
 *   offset bytes packets first_ns last_ns first_sequence last_sequence
 * The last line says of which file. Pieces follow each other; their times may overlap where a recording has several
 * queues. The stamp of a file tells it from another.
 */
#include "lib/recording/recording_index.h"

#include "lib/recording/recording_words.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_LINE_MAX  256 /* seven numbers of 20 digits fit */
#define INDEX_WORDS_MIN 5   /* in a line; later versions may append more */

struct index_line {
	uint64_t offset, bytes, n_packets, first_ns, last_ns;
};

static bool parse_index_line(const char *text, struct index_line *line)
{
	return sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &line->offset, &line->bytes,
	              &line->n_packets, &line->first_ns, &line->last_ns) == INDEX_WORDS_MIN;
}

static bool index_line_fits(const struct index_line *line, uint64_t end, uint64_t file_bytes)
{
	return (end ? line->offset == end : true) && line->bytes && line->offset <= file_bytes &&
	       line->bytes <= file_bytes - line->offset && line->first_ns <= line->last_ns && line->n_packets &&
	       line->n_packets <= file_bytes;
}

static bool is_end_of(const char *text, const struct recording_stamp *stamp)
{
	struct recording_stamp said;

	return sscanf(text, RECORDING_INDEX_END "%" SCNu64 " %" SCNx64, &said.bytes, &said.hash) == 2 &&
	       said.bytes == stamp->bytes && said.hash == stamp->hash;
}

int recording_index_find(FILE *index, const struct recording_stamp *stamp, uint64_t from_ns, uint64_t to_ns,
                         struct recording_pieces *pieces)
{
	char text[INDEX_LINE_MAX];
	struct index_line line;
	uint64_t end = 0, n_since = 0; /* packets since the first piece that was found */

	*pieces = (struct recording_pieces){0};
	if (!fgets(text, sizeof(text), index) || strncmp(text, RECORDING_INDEX_HEAD, strlen(RECORDING_INDEX_HEAD)) != 0)
		return -EBADMSG;
	while (fgets(text, sizeof(text), index)) {
		if (text[0] == '#')
			return is_end_of(text, stamp) ? 0 : -EBADMSG;
		if (!parse_index_line(text, &line) || !index_line_fits(&line, end, stamp->bytes))
			return -EBADMSG;
		end = line.offset + line.bytes;
		if (n_since)
			n_since += line.n_packets;
		if (line.last_ns >= from_ns && line.first_ns <= to_ns) {
			if (!n_since) {
				pieces->offset = line.offset;
				n_since = line.n_packets;
			}
			pieces->n_packets = n_since;
		}
	}
	return -EBADMSG;
}

/* ---- stamp --------------------------------------------------------------------------------------- */

#define STAMP_BYTES 4096

/* FNV-1a: a hash against mistakes, not against forgery. */
int recording_stamp_of(int fd, struct recording_stamp *stamp)
{
	uint8_t last[STAMP_BYTES];
	struct stat status;
	ssize_t n;

	if (fstat(fd, &status) < 0)
		return -errno;
	stamp->bytes = (uint64_t)status.st_size;
	n = pread(fd, last, sizeof(last), status.st_size > STAMP_BYTES ? status.st_size - STAMP_BYTES : 0);
	if (n < 0)
		return -errno;
	stamp->hash = UINT64_C(0xcbf29ce484222325);
	for (ssize_t i = 0; i < n; i++)
		stamp->hash = (stamp->hash ^ last[i]) * UINT64_C(0x100000001b3);
	return 0;
}
