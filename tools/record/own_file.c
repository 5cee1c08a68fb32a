// SPDX-License-Identifier: Apache-2.0
/*
 * A name proves nothing: "a_2_00001_….pcapng" fits "a.pcapng", too, and other programs put numbers and times into
 * names. The content of the file names the program and the streams.
 */
#include "tools/record/file_window.h"

#include "lib/recording/raw_recording.h"
#include "lib/recording/recording.h"
#include "lib/recording/recording_words.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The description is ahead of the other files of rows: without it nobody takes them for those of another file. */
const char *const own_file_suffixes[] = {RECORDING_INDEX, RECORDING_JSON, RECORDING_META, RECORDING_HEADERS, NULL};

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && !strcmp(text + n - m, end);
}

static bool own_file_is_note(const char *name)
{
	return ends_with(name, RECORDING_INDEX) || ends_with(name, RECORDING_JSON);
}

/* ---- raw rows -------------------------------------------------------------------------------------- */

/* "lidar" of "lidar/1", which is a queue. */
static bool is_name_of_stream(const char *name, size_t n, const char *stream)
{
	const char *slash = memchr(name, '/', n);

	n = slash ? (size_t)(slash - name) : n;
	return strlen(stream) == n && !memcmp(name, stream, n);
}

/* ---- packets --------------------------------------------------------------------------------------- */

/* The flow that the description ends with; -1: none. */
static int flow_of(const struct pcapng_text *description)
{
	char text[256];
	const char *at;

	snprintf(text, sizeof(text), "%.*s", description->at ? (int)description->bytes : 0,
	         description->at ? description->at : "");
	at = strstr(text, RECORDING_ONLY_FLOW);
	return at ? atoi(at + strlen(RECORDING_ONLY_FLOW)) : -1;
}

/* The streams come in their order, each with all of its queues. *n_seen: the streams seen so far. */
static bool is_interface_own(const struct pcapng_interface *interface, const struct own_streams *streams, int flow,
                             unsigned *n_seen)
{
	const struct pcapng_text *name = &interface->name;

	if (!name->at || flow_of(&interface->description) != flow)
		return false;
	if (*n_seen && is_name_of_stream(name->at, name->bytes, streams->names[*n_seen - 1]))
		return true;
	return *n_seen < streams->n && is_name_of_stream(name->at, name->bytes, streams->names[(*n_seen)++]);
}

static bool has_own_packets(struct recording *recording, const struct own_streams *streams, int flow)
{
	struct pcapng_block block;
	unsigned n_seen = 0;

	if (!recording_is_one(recording) || recording_next(recording, &block) <= 0 ||
	    block.type != PCAPNG_BLOCK_SECTION || !pcapng_section_is_ours(&block.section))
		return false;
	while (recording_next(recording, &block) > 0 && block.type == PCAPNG_BLOCK_INTERFACE)
		if (!is_interface_own(&block.interface, streams, flow, &n_seen))
			return false;
	return n_seen == streams->n;
}

bool own_file_is(const char *path, const struct own_streams *streams, int flow)
{
	struct recording recording;
	bool is_own;

	if (streams->is_raw) {
		char beside[PATH_MAX];
		const char *stream;
		json_t *said;

		if (snprintf(beside, sizeof(beside), "%s" RECORDING_JSON, path) >= (int)sizeof(beside))
			return false;
		said = raw_description_load(AT_FDCWD, beside, O_NOFOLLOW);
		stream = json_string_value(json_object_get(said, "stream"));
		is_own = stream && streams->n == 1 && is_name_of_stream(stream, strlen(stream), streams->names[0]);
		json_decref(said);
		return is_own;
	}
	if (recording_open(&recording, path) < 0)
		return false;
	is_own = has_own_packets(&recording, streams, flow);
	recording_close(&recording);
	return is_own;
}

/* ---- beside a file --------------------------------------------------------------------------------- */

static bool is_index_at(int folder, const char *name)
{
	char head[sizeof(RECORDING_INDEX_WORDS)] = "";
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool is_index;

	if (fd < 0)
		return false;
	is_index = read(fd, head, sizeof(head) - 1) > 0 && !strcmp(head, RECORDING_INDEX_WORDS);
	close(fd);
	return is_index;
}

void own_file_remove_beside(int folder, const char *name)
{
	char path[PATH_MAX];
	json_t *said;

	if (snprintf(path, sizeof(path), "%s" RECORDING_INDEX, name) < (int)sizeof(path) && is_index_at(folder, path))
		unlinkat(folder, path, 0);
	if (snprintf(path, sizeof(path), "%s" RECORDING_JSON, name) >= (int)sizeof(path))
		return;
	said = raw_description_load(folder, path, O_NOFOLLOW);
	if (!said)
		return;
	json_decref(said);
	for (const char *const *suffix = own_file_suffixes + 1; *suffix; suffix++)
		if (snprintf(path, sizeof(path), "%s%s", name, *suffix) < (int)sizeof(path))
			unlinkat(folder, path, 0);
}

/* ---- left by a killed recorder ------------------------------------------------------------------- */

#define OLD     ".old"
#define OLD_MAX 10000u

static bool name_exists(int folder, const char *name, off_t *bytes)
{
	struct stat status;

	if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	*bytes = status.st_size;
	return true;
}

/* The name of FILE.part (i is 0) or of a file beside it, with `what` behind ".part". False: no such file is left. */
static bool name_of_set(const char *part, const char *what, unsigned i, char name[PATH_MAX])
{
	if (i && !own_file_suffixes[i - 1])
		return false;
	snprintf(name, PATH_MAX, "%s%s%s", part, what, i ? own_file_suffixes[i - 1] : "");
	return true;
}

bool left_part_has_packets(int folder, const char *part)
{
	char name[PATH_MAX];
	off_t bytes;

	for (unsigned i = 0; name_of_set(part, "", i, name); i++)
		if (name_exists(folder, name, &bytes) && bytes && !own_file_is_note(name))
			return true;
	return false;
}

static bool is_set_free(int folder, const char *part, const char *what)
{
	char name[PATH_MAX];
	off_t bytes;

	for (unsigned i = 0; name_of_set(part, what, i, name); i++)
		if (strlen(name) > NAME_MAX || name_exists(folder, name, &bytes))
			return false;
	return true;
}

/* Not every file system can refuse to replace a file. */
static int rename_to_free(int folder, const char *from, const char *to)
{
	if (renameat2(folder, from, folder, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno == EINVAL && renameat(folder, from, folder, to) == 0)
		return 0;
	return errno == ENOENT ? 0 : -errno;
}

int left_part_put_aside(int folder, const char *part, const char *path)
{
	char what[16] = OLD, from[PATH_MAX], to[PATH_MAX];
	unsigned number = 1;
	int r = 0;

	while (!is_set_free(folder, part, what)) {
		if (++number > OLD_MAX)
			return -EEXIST;
		snprintf(what, sizeof(what), OLD "%u", number);
	}
	for (unsigned i = 0; r == 0 && name_of_set(part, "", i, from); i++) {
		name_of_set(part, what, i, to);
		r = rename_to_free(folder, from, to);
	}
	if (r == 0)
		fprintf(stderr,
		        "ibvcap record: %s" RECORDING_PART
		        " is what a recorder that was killed has left: now %s" RECORDING_PART "%s\n",
		        path, path, what);
	return r;
}
