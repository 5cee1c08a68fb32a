// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/readers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READERS_MAX 512
#define NAMED_MAX   3
#define NAME_BYTES  64

/* The next run reads it, too. */
enum reader_state {
	READER_MAY_HOLD,
	READER_READS, /* a ring that is written to */
	READER_LEFT,  /* by hanging up, as who has let go does; but what it maps still is its own affair */
};

struct reader {
	int32_t pid; /* 0: free */
	uint32_t uid;
	uint64_t started; /* with the pid, the process for certain; 0: the kernel did not say */
	uint32_t state;   /* enum reader_state */
	char program[16];
	char stream[NAME_BYTES];
};

#define TABLE_BYTES (READERS_MAX * sizeof(struct reader))

/* ---- what the kernel says of a process ------------------------------------------------------------ */

/* proc(5): the name, in parentheses, may have any of the characters that separate the fields. */
static uint64_t read_start(pid_t pid, char program[16])
{
	char path[64], line[512] = "";
	uint64_t started = 0;
	FILE *file;
	char *end, *name;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	name = strchr(line, '(');
	end = strrchr(line, ')');
	if (!name || !end ||
	    sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %" SCNu64,
	           &started) != 1)
		return 0;
	*end = '\0';
	snprintf(program, 16, "%.15s", name + 1);
	/* The reader's own choice, on its way to logs and root's terminal. */
	for (char *c = program; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return started;
}

static bool is_alive(const struct reader *reader)
{
	char program[16];

	if (kill(reader->pid, 0) < 0 && errno == ESRCH)
		return false;
	return reader->started == 0 || read_start(reader->pid, program) == reader->started;
}

/* Not to be seen, as another user's: perhaps. */
static bool may_map_segments(pid_t pid)
{
	char path[64], line[512];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return true;
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, "/memfd:ibvcap-") != NULL;
	found |= ferror(file) != 0;
	fclose(file);
	return found;
}

/* ---- the list -------------------------------------------------------------------------------------- */

static void take_over(struct readers *readers, int last_fd)
{
	struct stat status;

	if (last_fd < 0 || fstat(last_fd, &status) < 0 || status.st_size != (off_t)TABLE_BYTES ||
	    pread(last_fd, readers->table, TABLE_BYTES, 0) != (ssize_t)TABLE_BYTES)
		return;
	for (uint32_t i = 0; i < READERS_MAX; i++) {
		struct reader *reader = &readers->table[i];

		if (reader->state != READER_LEFT)
			reader->state = READER_MAY_HOLD;
		reader->program[sizeof(reader->program) - 1] = '\0';
		reader->stream[sizeof(reader->stream) - 1] = '\0';
		if (reader->pid <= 0 || !is_alive(reader))
			reader->pid = 0;
	}
}

int readers_init(struct readers *readers, int last_fd)
{
	void *table = MAP_FAILED;
	int r;

	*readers = (struct readers)READERS_INIT;
	readers->fd = memfd_create("ibvcap-readers", MFD_CLOEXEC);
	if (readers->fd < 0)
		return -errno;
	if (ftruncate(readers->fd, (off_t)TABLE_BYTES) == 0)
		table = mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, readers->fd, 0);
	if (table == MAP_FAILED) {
		r = -errno;
		readers_deinit(readers);
		return r;
	}
	readers->table = table;
	take_over(readers, last_fd);
	return 0;
}

void readers_deinit(struct readers *readers)
{
	if (readers->table)
		munmap(readers->table, TABLE_BYTES);
	if (readers->fd >= 0)
		close(readers->fd);
	*readers = (struct readers)READERS_INIT;
}

/* A free place, or one of who has most likely let go, or has died meanwhile. */
static struct reader *find_place(struct readers *readers)
{
	for (uint32_t i = 0; i < READERS_MAX; i++)
		if (readers->table[i].pid == 0)
			return &readers->table[i];
	for (uint32_t i = 0; i < READERS_MAX; i++)
		if (readers->table[i].state == READER_LEFT)
			return &readers->table[i];
	for (uint32_t i = 0; i < READERS_MAX; i++)
		if (readers->table[i].state == READER_MAY_HOLD && !is_alive(&readers->table[i]))
			return &readers->table[i];
	return NULL;
}

static bool forget_one(struct readers *readers, pid_t pid, const char *stream, enum reader_state state)
{
	for (uint32_t i = 0; i < READERS_MAX; i++) {
		struct reader *reader = &readers->table[i];

		if (reader->pid == pid && reader->state == state && strcmp(reader->stream, stream) == 0) {
			reader->pid = 0;
			return true;
		}
	}
	return false;
}

uint32_t readers_add(struct readers *readers, pid_t pid, uid_t uid, const char *stream)
{
	struct reader *reader;

	if (!readers || !readers->table || pid <= 0)
		return 0;
	if (!forget_one(readers, pid, stream, READER_LEFT))
		forget_one(readers, pid, stream, READER_MAY_HOLD);
	reader = find_place(readers);
	if (!reader)
		return 0;
	*reader = (struct reader){.pid = pid, .uid = uid, .state = READER_READS};
	reader->started = read_start(pid, reader->program);
	snprintf(reader->stream, sizeof(reader->stream), "%s", stream);
	return (uint32_t)(reader - readers->table) + 1;
}

void readers_leave(struct readers *readers, uint32_t place, enum reader_end end)
{
	if (!readers || !readers->table || place == 0)
		return;
	readers->table[place - 1].state = end == READER_HUNG_UP ? READER_LEFT : READER_MAY_HOLD;
	if (end == READER_DIED)
		readers->table[place - 1].pid = 0;
}

static void append(char *text, size_t bytes, const struct reader *reader)
{
	size_t used = strlen(text);

	snprintf(text + used, bytes - used, "%sprocess %d (%s) of user %u, stream '%s'%s", used ? "; " : "",
	         (int)reader->pid, reader->program[0] ? reader->program : "?", (unsigned)reader->uid, reader->stream,
	         reader->state == READER_LEFT ? ", which has hung up" : "");
}

/* Those in that state are added to the text; of how many there are now, n came before. */
static unsigned append_all(char *text, size_t bytes, const struct readers *readers, enum reader_state state, unsigned n)
{
	for (uint32_t i = 0; readers->table && i < READERS_MAX; i++) {
		const struct reader *reader = &readers->table[i];

		if (reader->pid == 0 || reader->state != state || !is_alive(reader) || !may_map_segments(reader->pid))
			continue;
		if (n++ < NAMED_MAX)
			append(text, bytes, reader);
	}
	return n;
}

const char *readers_describe_holders(const struct readers *readers, char *text, size_t bytes)
{
	unsigned n;
	size_t used;

	text[0] = '\0';
	n = append_all(text, bytes, readers, READER_MAY_HOLD, 0);
	n = append_all(text, bytes, readers, READER_LEFT, n);
	used = strlen(text);
	if (n > NAMED_MAX)
		snprintf(text + used, bytes - used, "; and %u more", n - NAMED_MAX);
	return text;
}
