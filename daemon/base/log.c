// SPDX-License-Identifier: Apache-2.0
#include "daemon/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_LINE_MAX 2048

struct level {
	int priority; /* of syslog(3), which is what the journal's prefix carries */
	const char *label;
};

/* systemd.exec(5), JOURNAL_STREAM: set for children too, so only a matching stderr is the journal. */
static bool stderr_is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat status;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2 || fstat(STDERR_FILENO, &status))
		return false;
	return status.st_dev == device && status.st_ino == inode;
}

static size_t format_prefix(char *line, size_t bytes, const struct level *level)
{
	if (stderr_is_journal())
		return (size_t)snprintf(line, bytes, "<%d>", level->priority);
	return (size_t)snprintf(line, bytes, "%.64s: %s", program_invocation_short_name, level->label);
}

/* What a client or a file name put into a message must not look like a second message. */
static void keep_to_one_line(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
	}
}

static void write_all(const char *text, size_t bytes)
{
	while (bytes) {
		ssize_t n = write(STDERR_FILENO, text, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		text += n;
		bytes -= (size_t)n;
	}
}

static void __attribute__((format(printf, 2, 0)))
log_line(const struct level *level, const char *format, va_list arguments)
{
	int saved_errno = errno;
	char line[LOG_LINE_MAX];
	size_t used = format_prefix(line, sizeof(line), level);

	vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
	keep_to_one_line(line + used);
	used += strlen(line + used);
	line[used++] = '\n';
	write_all(line, used);
	errno = saved_errno;
}

void log_error(const char *format, ...)
{
	static const struct level level = { 3, "error: " };
	va_list arguments;

	va_start(arguments, format);
	log_line(&level, format, arguments);
	va_end(arguments);
}

void log_warning(const char *format, ...)
{
	static const struct level level = { 4, "warning: " };
	va_list arguments;

	va_start(arguments, format);
	log_line(&level, format, arguments);
	va_end(arguments);
}

void log_info(const char *format, ...)
{
	static const struct level level = { 6, "" };
	va_list arguments;

	va_start(arguments, format);
	log_line(&level, format, arguments);
	va_end(arguments);
}
