// SPDX-License-Identifier: Apache-2.0
/*
 * Which files are recordings of the same streams, and which files beside one belong to it: only these are deleted. And
 * FILE.part with those beside it, which a killed recorder has left.
 */
#ifndef TOOLS_RECORD_OWN_FILE_H
#define TOOLS_RECORD_OWN_FILE_H

#include <stdbool.h>

/** The suffixes of the files that belong to a file: index, JSON, meta, headers. NULL ends the list. */
extern const char *const own_file_suffixes[];

/** What the files of a recording show. */
struct own_streams {
	char **names;
	unsigned n;
	bool is_raw;
};

/** Is it the name of a file that describes packets and contains none: an index or a description? */
bool own_file_is_note(const char *name);

/**
 * Has a recorder of these streams, and of no others, begun the file? flow: of the one stream names[0] with flow
 * numbers, the number of the only flow that the file has; -1: it has all flows.
 */
bool own_file_is(const char *path, const struct own_streams *streams, int flow);

/** Delete the files that a recorder has written beside a file of that name. Those of other programs stay. */
void own_file_remove_beside(int folder, const char *name);

/** Has one of the files packets? An index or a description alone has none. part: the name in the folder. */
bool left_part_has_packets(int folder, const char *part);

/**
 * Rename them, to names that end in .old, .old2 and so on. The caller has the lock. path: of FILE, for the message.
 * 0; -errno.
 */
int left_part_put_aside(int folder, const char *part, const char *path);

#endif
