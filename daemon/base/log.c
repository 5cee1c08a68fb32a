// SPDX-License-Identifier: Apache-2.0
/* Writes log messages to the journal or to stderr. */
#include "daemon/base/log.h"

#include "daemon/base/log_limit.h"
#include "lib/base/time.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION /* the code location would always be in this file */
#include <systemd/sd-journal.h>

#define LOG_LINE_MAX   2048
#define FIELD_BYTES    192
#define FIELDS_MAX     (10 + LOG_COUNTERS_MAX)
#define JOURNAL_SOCKET "/run/systemd/journal/socket"

/* The reload of a configuration sets it while other threads log. */
static _Atomic int log_level = LOG_INFO;

void log_set_level(int priority)
{
	log_level = priority;
}

/* ---- how often ---------------------------------------------------------------------------------- */

static bool log_is_allowed(const char *format, uint64_t *n_left_out)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct log_limit limit;
	bool allowed;

	pthread_mutex_lock(&lock);
	allowed = log_limit_allows(&limit, format, time_monotonic_ns(), n_left_out);
	pthread_mutex_unlock(&lock);
	return allowed;
}

/* ---- the text ----------------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence at text; 0 if it is malformed (Unicode, table 3-7) or a control character. */
static unsigned utf8_bytes(const char *text)
{
	const uint8_t *c = (const uint8_t *)text;
	uint8_t low = c[0] == 0xc2 || c[0] == 0xe0 ? 0xa0 : c[0] == 0xf0 ? 0x90 : 0x80;
	uint8_t high = c[0] == 0xed ? 0x9f : c[0] == 0xf4 ? 0x8f : 0xbf;
	unsigned n = c[0] < 0xe0 ? 2 : c[0] < 0xf0 ? 3 : 4;

	if (c[0] < 0xc2 || c[0] > 0xf4 || c[1] < low || c[1] > high)
		return 0;
	for (unsigned i = 2; i < n; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/*
 * Text that came from a client or a file name must not look like a second message, and must not turn the message into
 * something that journalctl shows as "blob data".
 */
static void log_keep_to_one_line(char *text)
{
	while (*text) {
		unsigned n = 1;

		if ((unsigned char)*text < ' ' || *text == 0x7f) {
			*text = ' ';
		} else if ((unsigned char)*text > 0x7f) {
			n = utf8_bytes(text);
			if (n == 0) {
				*text = '?';
				n = 1;
			}
		}
		text += n;
	}
}

static void __attribute__((format(printf, 3, 0)))
log_format(char text[LOG_LINE_MAX], uint64_t n_left_out, const char *format, va_list arguments)
{
	size_t used;

	vsnprintf(text, LOG_LINE_MAX, format, arguments);
	log_keep_to_one_line(text);
	used = strlen(text);
	if (n_left_out)
		snprintf(text + used, LOG_LINE_MAX - used, " (%" PRIu64 " more of these were left out before)",
		         n_left_out);
}

/* ---- to the journal ----------------------------------------------------------------------------- */

/* Child processes inherit JOURNAL_STREAM (systemd.exec(5)), so stderr has to be the socket that it names. */
static bool log_is_stderr_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat status;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2 || fstat(STDERR_FILENO, &status))
		return false;
	return status.st_dev == device && status.st_ino == inode;
}

struct fields {
	char text[FIELDS_MAX][FIELD_BYTES];
	struct iovec list[FIELDS_MAX + 1]; /* one more for the message */
	int n;
};

static void __attribute__((format(printf, 2, 3))) log_add_field(struct fields *fields, const char *format, ...)
{
	char *text = fields->text[fields->n];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, FIELD_BYTES, format, arguments);
	va_end(arguments);
	fields->list[fields->n++] = (struct iovec){text, strlen(text)};
}

static void log_add_counter(struct fields *fields, const struct log_counter *counter)
{
	char name[64];
	size_t n = 0;

	for (; counter->name[n] && n < sizeof(name) - 1; n++)
		name[n] = (char)toupper((unsigned char)counter->name[n]);
	name[n] = '\0';
	log_add_field(fields, "IBVCAP_%s=%" PRIu64, name, counter->value);
}

/* message begins with "MESSAGE=". */
static bool log_send_to_journal(int priority, const struct log_about *about, uint64_t n_left_out, char *message)
{
	struct fields fields = {.n = 0};

	if (access(JOURNAL_SOCKET, W_OK)) /* sd_journal_sendv() reports success without a journal */
		return false;
	log_add_field(&fields, "PRIORITY=%d", priority);
	log_add_field(&fields, "SYSLOG_IDENTIFIER=%s", program_invocation_short_name);
	if (n_left_out)
		log_add_field(&fields, "IBVCAP_LEFT_OUT=%" PRIu64, n_left_out);
	if (about) {
		if (about->event)
			log_add_field(&fields, "MESSAGE_ID=%s", about->event);
		if (about->stream)
			log_add_field(&fields, "IBVCAP_STREAM=%s", about->stream);
		if (about->channel)
			log_add_field(&fields, "IBVCAP_CHANNEL=%s", about->channel);
		if (about->interface)
			log_add_field(&fields, "IBVCAP_INTERFACE=%s", about->interface);
		if (about->peer) {
			log_add_field(&fields, "IBVCAP_%s_PID=%d", about->peer, (int)about->pid);
			log_add_field(&fields, "IBVCAP_%s_UID=%u", about->peer, (unsigned)about->uid);
		}
		for (unsigned i = 0; i < about->n_counters && i < LOG_COUNTERS_MAX; i++)
			log_add_counter(&fields, &about->counters[i]);
	}
	fields.list[fields.n++] = (struct iovec){message, strlen(message)};
	return sd_journal_sendv(fields.list, fields.n) >= 0;
}

/* ---- to stderr ---------------------------------------------------------------------------------- */

static void log_write_all(const char *text, size_t bytes)
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

static void log_write_line(int priority, bool is_journal, const char *text)
{
	const char *label = priority <= LOG_ERR       ? "error: "
	                    : priority == LOG_WARNING ? "warning: "
	                    : priority == LOG_DEBUG   ? "debug: "
	                                              : "";
	char line[LOG_LINE_MAX + 128];
	int n;

	if (is_journal)
		n = snprintf(line, sizeof(line), "<%d>%s\n", priority, text);
	else
		n = snprintf(line, sizeof(line), "%.64s: %s%s\n", program_invocation_short_name, label, text);
	log_write_all(line, (size_t)n);
}

void log_message(int priority, const struct log_about *about, const char *format, ...)
{
	static const char field[] = "MESSAGE=";
	char message[sizeof(field) - 1 + LOG_LINE_MAX], *text = message + sizeof(field) - 1;
	int saved_errno = errno;
	uint64_t n_left_out;
	bool is_journal;
	va_list arguments;

	if (priority > log_level)
		return;
	if (!log_is_allowed(format, &n_left_out)) {
		errno = saved_errno;
		return;
	}
	memcpy(message, field, sizeof(field) - 1);
	va_start(arguments, format);
	errno = saved_errno; /* for %m */
	log_format(text, n_left_out, format, arguments);
	va_end(arguments);
	is_journal = log_is_stderr_journal();
	if (!is_journal || !log_send_to_journal(priority, about, n_left_out, message))
		log_write_line(priority, is_journal, text);
	errno = saved_errno;
}

void log_lines(int priority, const struct log_about *about, const char *text, const char *behind)
{
	const char *end;

	for (; (end = strchr(text, '\n')); text = end + 1)
		log_message(priority, about, "%.*s", (int)(end - text), text);
	log_message(priority, about, "%s%s", text, behind);
}

/* ---- limits ------------------------------------------------------------------------------------- */

/* The entry of the message, or, if it has none, the one whose interval began first, which is then replaced. */
static struct log_limit_site *log_limit_find(struct log_limit *limit, const void *site)
{
	struct log_limit_site *oldest = &limit->sites[0];

	for (size_t i = 0; i < LOG_LIMIT_SITES; i++) {
		if (limit->sites[i].site == site)
			return &limit->sites[i];
		if (limit->sites[i].since_ns < oldest->since_ns)
			oldest = &limit->sites[i];
	}
	*oldest = (struct log_limit_site){.site = site};
	return oldest;
}

bool log_limit_allows(struct log_limit *limit, const void *site, uint64_t now_ns, uint64_t *n_left_out)
{
	struct log_limit_site *mine = log_limit_find(limit, site);

	*n_left_out = 0;
	if (mine->n == 0 || now_ns - mine->since_ns >= LOG_LIMIT_S * UINT64_C(1000000000)) {
		*n_left_out = mine->n_left_out;
		*mine = (struct log_limit_site){.site = site, .since_ns = now_ns};
	}
	if (mine->n < LOG_LIMIT_N) {
		mine->n++;
		return true;
	}
	mine->n_left_out++;
	return false;
}
