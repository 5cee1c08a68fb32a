// SPDX-License-Identifier: Apache-2.0
/* Goes through the differences of two configurations: a log line for each, and one sentence for the client. */
#include "daemon/reload/reload_report.h"

#include "daemon/base/log.h"
#include "daemon/config/diff.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DIFFERENCES_LOGGED_MAX 100u
#define OF_ONE_KEY_LOGGED_MAX  8u /* flows of a stream */
#define NAMES_BYTES            384
#define ELLIPSIS               "…"

/* Names in the order of the differences. */
struct report_names {
	char text[NAMES_BYTES];
	bool is_cut;
};

struct report {
	unsigned n_logged;
	unsigned n_of_key; /* differences so far of one key of one stream, channel or of none: the one below */
	struct difference of_key;
	unsigned n_streams[2], n_channels[2]; /* by DIFFERENCE_ADDED and DIFFERENCE_REMOVED */
	struct report_names come_or_gone;     /* "stream 'a', channel 'b'" */
	unsigned n_changed;
	struct report_names changed; /* "stream 'a': users, flows; channel 'b': groups" */
	struct difference last;      /* in changed */
};

/* ---- the sentence ---------------------------------------------------------------------------------- */

static void __attribute__((format(printf, 2, 3))) report_append(struct report_names *names, const char *format, ...)
{
	size_t used = strlen(names->text), room = sizeof(names->text) - sizeof(ELLIPSIS) - used;
	va_list arguments;

	if (names->is_cut)
		return;
	va_start(arguments, format);
	names->is_cut = vsnprintf(names->text + used, room, format, arguments) >= (int)room;
	va_end(arguments);
	if (names->is_cut)
		memcpy(names->text + used, ELLIPSIS, sizeof(ELLIPSIS));
}

static void report_append_subject(struct report_names *names, const struct difference *of)
{
	if (of->stream || of->channel)
		report_append(names, "%s '%s'", of->stream ? "stream" : "channel",
		              of->stream ? of->stream : of->channel);
	else
		report_append(names, "configuration");
}

/* Names point into the configurations, so they are the same if the pointers are. */
static void report_add_change(struct report *report, const struct difference *of)
{
	const struct difference *last = &report->last;
	bool is_same = report->n_changed && last->stream == of->stream && last->channel == of->channel;

	if (is_same && last->key == of->key)
		return;
	if (!is_same) {
		report_append(&report->changed, "%s", report->n_changed++ ? "; " : "");
		report_append_subject(&report->changed, of);
	}
	report_append(&report->changed, "%s %s", is_same ? "," : ":", of->key);
	report->last = *of;
}

/* The file as a whole is in force. */
static void report_say_reload(const struct report *report, const struct config *config, char *said, size_t bytes)
{
	const unsigned *n = report->n_streams;
	size_t used =
		(size_t)snprintf(said, bytes, "%s: %u streams added, %u removed, %u kept", config->file,
	                         n[DIFFERENCE_ADDED], n[DIFFERENCE_REMOVED], config->n_streams - n[DIFFERENCE_ADDED]);

	n = report->n_channels;
	if (used < bytes && (n[DIFFERENCE_ADDED] || n[DIFFERENCE_REMOVED]))
		used += (size_t)snprintf(said + used, bytes - used, "; %u channels added, %u removed",
		                         n[DIFFERENCE_ADDED], n[DIFFERENCE_REMOVED]);
	if (used < bytes && report->n_changed)
		snprintf(said + used, bytes - used, "; %u changed: %s", report->n_changed, report->changed.text);
}

/* The request adds streams and channels, or removes one. */
static void report_say_merge(const struct report *report, const struct config *config, char *said, size_t bytes)
{
	bool is_added = report->n_streams[DIFFERENCE_ADDED] + report->n_channels[DIFFERENCE_ADDED];

	snprintf(said, bytes, "%s %s the running daemon, not %s %s: the next reload or restart reads that file again",
	         report->come_or_gone.text, is_added ? "added to" : "removed from", is_added ? "to" : "from",
	         config->file);
}

/* ---- the log --------------------------------------------------------------------------------------- */

static void report_log(const struct difference *of, const char *text)
{
	if (of->stream)
		log_message(LOG_INFO, &(struct log_about){.stream = of->stream}, "stream '%s': %s", of->stream, text);
	else if (of->channel)
		log_message(LOG_INFO, &(struct log_about){.channel = of->channel}, "channel '%s': %s", of->channel,
		            text);
	else
		log_info("configuration: %s", text);
}

/* The key has no difference more. */
static void report_end_key(struct report *report)
{
	char text[128];

	if (report->n_of_key <= OF_ONE_KEY_LOGGED_MAX)
		return;
	snprintf(text, sizeof(text), "%s: %u more are different: 'ibvcap status --json' has all", report->of_key.key,
	         report->n_of_key - OF_ONE_KEY_LOGGED_MAX);
	report_log(&report->of_key, text);
}

static bool report_is_of_same_key(const struct difference *one, const struct difference *other)
{
	return one->kind == DIFFERENCE_CHANGED && other->kind == DIFFERENCE_CHANGED && one->key == other->key &&
	       one->stream == other->stream && one->channel == other->channel;
}

static void report_take(void *context, const struct difference *of)
{
	struct report *report = context;

	if (!report_is_of_same_key(&report->of_key, of)) {
		report_end_key(report);
		report->n_of_key = 0;
		report->of_key = *of;
	}
	if (report->n_of_key++ < OF_ONE_KEY_LOGGED_MAX && report->n_logged++ < DIFFERENCES_LOGGED_MAX)
		report_log(of, of->text);
	if (of->kind == DIFFERENCE_CHANGED) {
		report_add_change(report, of);
		return;
	}
	if (of->stream)
		report->n_streams[of->kind]++;
	else
		report->n_channels[of->kind]++;
	report_append(&report->come_or_gone, "%s", report->come_or_gone.text[0] ? ", " : "");
	report_append_subject(&report->come_or_gone, of);
}

void reload_report(const struct config *before, const struct config *after, char *said, size_t bytes)
{
	struct report report = {0};

	diff_config(before, after, report_take, &report);
	report_end_key(&report);
	if (report.n_logged > DIFFERENCES_LOGGED_MAX)
		log_info("%u more differences are not listed", report.n_logged - DIFFERENCES_LOGGED_MAX);
	if (after->is_merged)
		report_say_merge(&report, after, said, bytes);
	else
		report_say_reload(&report, after, said, bytes);
}
