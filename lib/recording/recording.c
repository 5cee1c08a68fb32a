// SPDX-License-Identifier: Apache-2.0
/*
 * Opens capture files, finds out what they are, and reads their blocks: with the reader of pcapng, or with libpcap.
 */
#include "lib/recording/recording.h"

#include "lib/recording/recording_words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_HEAD_BYTES (sizeof(RECORDING_INDEX_WORDS) - 1)

static const uint8_t pcapng_magic[4] = {0x0a, 0x0d, 0x0d, 0x0a};

/* Files that are not read, and the command that makes a capture of them. */
static const struct {
	const char *magic;
	size_t bytes;
	const char *what;
	const char *command; /* … FILE … */
	const char *rest;
} known_files[] = {
	{"\xfd\x37zXZ", 5, "compressed by xz", "xzcat", ""},
	{"BZh", 3, "compressed by bzip2", "bzcat", ""},
	{"snoop\0\0", 8, "a capture of snoop", "editcap -F pcap", " -"},
};

/* ---- the source ------------------------------------------------------------------------------------ */

/* The head first: the file may be a pipe. */
static ssize_t read_unpacked(void *context, void *to, size_t n)
{
	struct recording *recording = context;
	size_t left = recording->head_bytes - recording->head_read;

	if (!left)
		return recording->head_failed ? recording->head_failed : unpack_read(&recording->unpack, to, n);
	n = n < left ? n : left;
	memcpy(to, recording->head + recording->head_read, n);
	recording->head_read += n;
	return (ssize_t)n;
}

/* A damaged file has its whole blocks read first; then recording_next() returns the error. */
static void read_head(struct recording *recording)
{
	while (recording->head_bytes < RECORDING_HEAD_BYTES) {
		ssize_t n = unpack_read(&recording->unpack, recording->head + recording->head_bytes,
		                        RECORDING_HEAD_BYTES - recording->head_bytes);

		if (n <= 0) {
			recording->head_failed = (int)n;
			return;
		}
		recording->head_bytes += (size_t)n;
	}
}

/* ---- what it is ------------------------------------------------------------------------------------ */

static bool is_pcapng(const struct recording *recording)
{
	return recording->head_bytes >= sizeof(pcapng_magic) &&
	       !memcmp(recording->head, pcapng_magic, sizeof(pcapng_magic));
}

bool recording_is_one(const struct recording *recording)
{
	return is_pcapng(recording) || pcap_file_is_one(recording->head, recording->head_bytes);
}

bool recording_is_index(const struct recording *recording)
{
	return recording->head_bytes >= INDEX_HEAD_BYTES &&
	       !memcmp(recording->head, RECORDING_INDEX_WORDS, INDEX_HEAD_BYTES);
}

bool recording_is_cut_off(const struct recording *recording)
{
	return unpack_is_cut_off(&recording->unpack);
}

static bool is_regular_file(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

void recording_explain(const struct recording *recording, const char *reader_command, char *text, size_t bytes)
{
	const char *path = strcmp(recording->path, "-") ? recording->path : "standard input";

	snprintf(text, bytes, "%s: not a capture in pcap or pcapng format", path);
	if (recording->head_failed)
		snprintf(text, bytes, "%s: its compressed data is damaged from the beginning", path);
	else if (!recording->head_bytes)
		snprintf(text, bytes, "%s: not a capture in pcap or pcapng format: it has no bytes", path);
	for (unsigned i = 0; i < sizeof(known_files) / sizeof(known_files[0]); i++)
		if (recording->head_bytes >= known_files[i].bytes &&
		    !memcmp(recording->head, known_files[i].magic, known_files[i].bytes))
			snprintf(text, bytes, "%s is %s: %s %s%s | %s", path, known_files[i].what,
			         known_files[i].command,
			         is_regular_file(recording->unpack.fd) ? recording->path : "FILE", known_files[i].rest,
			         reader_command);
}

/* ---- life ------------------------------------------------------------------------------------------ */

int recording_open(struct recording *recording, const char *path)
{
	int fd, r;

	*recording = (struct recording){.path = path, .unpack.fd = -1};
	fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
	if (fd < 0)
		return -errno;
	r = unpack_open(&recording->unpack, fd);
	if (r == 0)
		read_head(recording);
	pcapng_reader_init(&recording->reader, read_unpacked, recording);
	if (r == 0 && recording->head_bytes == RECORDING_HEAD_BYTES &&
	    pcap_file_is_one(recording->head, recording->head_bytes))
		r = pcap_file_new(recording->head, read_unpacked, recording, &recording->pcap, recording->reader.error);
	if (r == -EBADMSG) /* recording_next() says why */
		r = 0;
	if (r < 0)
		recording_close(recording);
	return r;
}

void recording_close(struct recording *recording)
{
	pcap_file_free(recording->pcap);
	recording->pcap = NULL;
	pcapng_reader_deinit(&recording->reader);
	unpack_close(&recording->unpack);
}

int recording_next(struct recording *recording, struct pcapng_block *block)
{
	if (recording->pcap)
		return pcap_file_read(recording->pcap, block, recording->reader.error);
	if (pcap_file_is_one(recording->head, recording->head_bytes)) {
		if (recording->head_bytes < RECORDING_HEAD_BYTES)
			snprintf(recording->reader.error, sizeof(recording->reader.error),
			         "the file ends within its header");
		return recording->head_bytes < RECORDING_HEAD_BYTES ? -ENODATA : -EBADMSG;
	}
	if (recording->head_bytes && !recording->head_failed && !is_pcapng(recording))
		return -EBADMSG; /* the reader of blocks would say that a short one is cut off */
	return pcapng_read(&recording->reader, block);
}

const char *recording_error(const struct recording *recording)
{
	return recording->reader.error;
}

bool recording_can_jump(const struct recording *recording)
{
	return !recording->unpack.format && !recording->pcap && is_regular_file(recording->unpack.fd);
}

int recording_jump(struct recording *recording, uint64_t offset)
{
	if (offset > INT64_MAX || lseek(recording->unpack.fd, (off_t)offset, SEEK_SET) < 0)
		return -errno;
	recording->head_read = recording->head_bytes;
	pcapng_reader_jump(&recording->reader, offset);
	return 0;
}
