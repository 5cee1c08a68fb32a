// SPDX-License-Identifier: Apache-2.0
/* softhca trace: prints what a process does until it ends, and writes its frames to a file. */
#include "../control/control.h"
#include "../wire/complain.h"
#include "ask.h"
#include "console.h"
#include "pcapng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

static bool trace_read_interface(void *arg, char kind, const char *bytes, size_t n)
{
	char line[256], device[64], netdev[64];

	(void)kind;
	for (const char *end; n && (end = memchr(bytes, '\n', n)); n -= (size_t)(end + 1 - bytes), bytes = end + 1) {
		snprintf(line, sizeof(line), "%.*s", (int)(end - bytes), bytes);
		if (sscanf(line, "device device=%63s netdev=%63s", device, netdev) == 2 &&
		    !pcapng_add_interface(arg, device, netdev))
			return false;
	}
	return true;
}

/* arg: the file's writer, or NULL. */
static bool trace_read(void *arg, char kind, const char *bytes, size_t n)
{
	return kind == TRACE_FRAMES ? pcapng_write(arg, bytes, n) : ask_print(NULL, kind, bytes, n);
}

/* Lines go to standard output, unless the frames do. */
static bool trace_read_quietly(void *arg, char kind, const char *bytes, size_t n)
{
	return kind != TRACE_FRAMES || pcapng_write(arg, bytes, n);
}

/* Another user may have made a link in its place, symbolic or hard, to a file of this user. */
static FILE *open_wire_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return NULL;
	if (!S_ISREG(st.st_mode))
		return fdopen(fd, "w");
	if (st.st_nlink > 1) {
		errno = EMLINK;
		return NULL;
	}
	return ftruncate(fd, 0) ? NULL : fdopen(fd, "w");
}

int console_trace(pid_t pid, bool json, const char *path)
{
	bool quiet = path && !strcmp(path, "-");
	struct pcapng writer;
	FILE *file = quiet ? stdout : NULL;
	int r;

	if (!path)
		return ask(pid, json ? "trace json" : "trace", trace_read, NULL);
	if (!file)
		file = open_wire_file(path);
	if (!file || !pcapng_begin(&writer, file)) {
		complain("%s: %s", path, strerror(errno));
		return EX_CANTCREAT;
	}
	r = ask(pid, "objects", trace_read_interface, &writer);
	if (!r)
		r = ask(pid, json ? "trace json frames" : "trace frames", quiet ? trace_read_quietly : trace_read,
		        &writer);
	if (fclose(file) || ferror(stdout)) {
		complain("%s: %s", path, strerror(errno));
		r = EX_IOERR;
	}
	return r;
}

int console_mark(pid_t pid, const char *text)
{
	char request[CONTROL_MAX_REQUEST];

	snprintf(request, sizeof(request), "mark %s", text);
	return ask(pid, request, ask_print, NULL);
}
