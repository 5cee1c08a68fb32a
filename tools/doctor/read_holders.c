// SPDX-License-Identifier: Apache-2.0
/*
 * The processes that map ring memory or have a descriptor of it, from the maps and fd of /proc/PID and its threads. The
 * kernel frees this memory only when the last of them has unmapped and closed it, maybe long after the ring has ended.
 * A ring has ended if no daemon holds its segments. Any user can call a process ibvcapd, so the name is not enough: see
 * is_trusted(). /proc does not show descriptors that were sent over a socket and not received yet, or that were
 * registered with an io_uring.
 */
#include "tools/doctor/read.h"

#include "lib/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* The beginning of the names that ibvcapd gives to its segments. */
#define SEGMENT_NAME "memfd:ibvcap-"
#define SEGMENTS_MAX 16384

/* The holder of segments that a daemon has: no index in the facts. */
#define DAEMON DOCTOR_HOLDERS_MAX

/* A segment that a process holds. Device and inode are the same in all processes. */
struct held_segment {
	dev_t device;
	uint64_t inode;
	uint64_t bytes;
	unsigned int holder; /* index in the facts, or DAEMON */
};

struct holder_scan {
	struct doctor_facts *facts;
	struct held_segment *segments;
	unsigned int n;
	/* Of the process that is read now: */
	unsigned int first;
	bool has_maps;      /* its mappings were read */
	bool only_writers;  /* only what it has mapped writable counts */
	bool reads_daemons; /* in this pass over all processes; else it reads the others */
};

/* A process that has ended meanwhile, or has closed the descriptor, holds nothing. */
static void note_read_error(const struct holder_scan *scan)
{
	if (errno == ENOENT || errno == ESRCH)
		return;
	scan->facts->sees_all_processes = false;
	if (scan->reads_daemons)
		scan->facts->knows_ended_rings = false;
}

static void add_segment(struct holder_scan *scan, dev_t device, uint64_t inode, uint64_t bytes)
{
	unsigned int i = scan->first;

	while (i < scan->n && (scan->segments[i].device != device || scan->segments[i].inode != inode))
		i++;
	if (i == SEGMENTS_MAX) {
		scan->facts->knows_ended_rings = false;
		return;
	}
	if (i == scan->n)
		scan->segments[scan->n++] =
			(struct held_segment){device, inode, 0, scan->reads_daemons ? DAEMON : scan->facts->n_holders};
	if (bytes > scan->segments[i].bytes)
		scan->segments[i].bytes = bytes;
}

static void read_mapped_segments(struct holder_scan *scan, const char *directory, const char *pid)
{
	uint64_t start, end, offset, inode;
	unsigned int major_number, minor_number;
	char path[PATH_MAX], line[512], writable;
	FILE *maps;

	files_join(path, "%s/%s/maps", directory, pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, " /" SEGMENT_NAME) &&
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %*c%c%*s %" SCNx64 " %x:%x %" SCNu64, &start, &end, &writable,
		           &offset, &major_number, &minor_number, &inode) == 7 &&
		    (writable == 'w' || !scan->only_writers))
			add_segment(scan, makedev(major_number, minor_number), inode, offset + end - start);
	scan->has_maps = scan->has_maps || (maps && ftell(maps) > 0);
	if (!maps || ferror(maps))
		note_read_error(scan);
	if (maps)
		fclose(maps);
}

/* directory/id is a process or a thread. */
static void read_held_segments(struct holder_scan *scan, const char *directory, const char *id)
{
	char target[DOCTOR_NAME_BYTES];
	struct files_list files;
	struct statx status;
	bool is_segment;

	if (!scan->has_maps)
		read_mapped_segments(scan, directory, id);
	if (scan->only_writers)
		return;
	if (!files_list(&files, "%s/%s/fd", directory, id))
		note_read_error(scan);
	while (files_next(&files)) {
		errno = 0;
		files_read_link_name(files.path, target, sizeof(target));
		is_segment = strncmp(target, SEGMENT_NAME, strlen(SEGMENT_NAME)) == 0;
		if (is_segment && statx(AT_FDCWD, files.path, AT_STATX_DONT_SYNC, STATX_INO | STATX_SIZE, &status) == 0)
			add_segment(scan, makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino,
			            status.stx_size);
		else if ((is_segment || !*target) && errno)
			note_read_error(scan);
	}
}

/* False: it has ended. */
static bool read_user(const char *directory, const char *pid, uid_t *uid)
{
	char path[PATH_MAX], text[DOCTOR_NAME_BYTES];

	files_join(path, "%s/%s/status", directory, pid);
	files_read_labelled(path, "Uid:", text, sizeof(text));
	*uid = (uid_t)strtoul(text, NULL, 10);
	return *text != '\0';
}

/*
 * Is a process called ibvcapd a daemon? Yes, if it listens at the control socket, or if its account is root's, a
 * system's, or the doctor's own. A daemon may run as any other user, too: what proves that a ring has it is the ring's
 * memory, which nobody but its daemon can map writable. Such a process is listed.
 */
static bool is_trusted(const struct doctor_facts *facts, const char *directory, const char *pid)
{
	uid_t uid;

	if (facts->process.kind == DOCTOR_DAEMON && facts->process.pid == (pid_t)strtol(pid, NULL, 10))
		return true;
	return read_user(directory, pid, &uid) && (uid <= SYSTEM_UID_MAX || uid == geteuid());
}

static void read_holder(struct holder_scan *scan, const char *directory, const char *pid)
{
	struct doctor_facts *facts = scan->facts;
	struct doctor_holder *holder = &facts->holders[facts->n_holders];
	char name[DOCTOR_NAME_BYTES];
	const struct passwd *user;
	bool is_named, trusted;
	struct files_list threads;
	uid_t uid;

	files_read_line(name, sizeof(name), "%s/%s/comm", directory, pid);
	is_named = strcmp(name, "ibvcapd") == 0;
	trusted = is_named && is_trusted(facts, directory, pid);
	if (pid[strspn(pid, "0123456789")] || (scan->reads_daemons ? !is_named : trusted) ||
	    (!scan->reads_daemons && facts->n_holders == DOCTOR_HOLDERS_MAX))
		return;
	scan->only_writers = scan->reads_daemons && !trusted;
	scan->first = scan->n;
	scan->has_maps = false;
	read_held_segments(scan, directory, pid);
	/*
	 * A thread can have a table of descriptors of its own. /proc/PID shows those of the first thread, and nothing
	 * once that thread has ended, though the others go on.
	 */
	if (!files_list(&threads, "%s/%s/task", directory, pid))
		note_read_error(scan);
	while (files_next(&threads))
		if (strcmp(threads.name, pid) != 0)
			read_held_segments(scan, threads.directory, threads.name);
	if (scan->reads_daemons || scan->n == scan->first)
		return;
	facts->n_holders++;
	holder->pid = (pid_t)strtol(pid, NULL, 10);
	files_copy_name(holder->name, sizeof(holder->name), name);
	user = read_user(directory, pid, &uid) ? getpwuid(uid) : NULL;
	if (user)
		files_copy_name(holder->user, DOCTOR_NAME_BYTES, user->pw_name);
	else
		snprintf(holder->user, DOCTOR_NAME_BYTES, "%u", uid);
}

static bool is_held_by_daemon(const struct holder_scan *scan, const struct held_segment *segment)
{
	for (unsigned int i = 0; i < scan->n; i++)
		if (scan->segments[i].holder == DAEMON && scan->segments[i].device == segment->device &&
		    scan->segments[i].inode == segment->inode)
			return true;
	return false;
}

void read_holders(const char *root, struct doctor_facts *facts)
{
	struct holder_scan scan = {.facts = facts, .segments = calloc(SEGMENTS_MAX, sizeof(*scan.segments))};
	struct files_list processes;
	char name[DOCTOR_NAME_BYTES];

	if (!scan.segments)
		return;
	/* A /proc that is mounted with hidepid= hides process 1 as it hides a daemon of another user. */
	files_read_line(name, sizeof(name), "%s/proc/1/comm", root);
	facts->sees_all_processes = facts->knows_ended_rings = *name != '\0';
	/* Daemons are read before and after the others: one may make a ring meanwhile, and another process map it. */
	for (unsigned int pass = 0; pass < 3; pass++) {
		scan.reads_daemons = pass != 1;
		files_list(&processes, "%s/proc", root);
		while (files_next(&processes))
			read_holder(&scan, processes.directory, processes.name);
	}
	for (unsigned int i = 0; i < scan.n; i++) {
		struct doctor_holder *holder = &facts->holders[scan.segments[i].holder];

		if (scan.segments[i].holder == DAEMON)
			continue;
		holder->bytes += scan.segments[i].bytes;
		if (facts->knows_ended_rings && !is_held_by_daemon(&scan, &scan.segments[i]))
			holder->ended_bytes += scan.segments[i].bytes;
	}
	free(scan.segments);
}
