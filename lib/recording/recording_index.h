// SPDX-License-Identifier: Apache-2.0
/* Finds the pieces of a recording that have packets of some time, by the index that lies beside it. */
#ifndef LIB_RECORDING_RECORDING_INDEX_H
#define LIB_RECORDING_RECORDING_INDEX_H

#include <stdint.h>
#include <stdio.h>

/* Tells one recording from another, so that an index is used only with the file it was written for. */
struct recording_stamp {
	uint64_t bytes; /* size of the file */
	uint64_t hash;  /* of its last page, which has the time of its end in ns */
};

/** The stamp of a regular file that is open for reading, whose offset does not change. 0; -errno. */
int recording_stamp_of(int fd, struct recording_stamp *stamp);

/* Where to begin, and how many packets there are until the last piece ends; n_packets 0: no piece has that time. */
struct recording_pieces {
	uint64_t offset;
	uint64_t n_packets;
};

/**
 * Read an index and find the pieces with packets of [from_ns, to_ns]. stamp: of the recording. 0; -EBADMSG: it is not
 * an index, or not one of this recording, or it was cut off.
 */
int recording_index_find(FILE *index, const struct recording_stamp *stamp, uint64_t from_ns, uint64_t to_ns,
                         struct recording_pieces *pieces);

#endif
