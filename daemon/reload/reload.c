// SPDX-License-Identifier: Apache-2.0
#include "daemon/reload/reload.h"

#include "daemon/reload/apply.h"
#include "daemon/base/background.h"
#include "daemon/base/log.h"
#include "daemon/base/time.h"
#include "daemon/config/diff.h"
#include "daemon/config/key_table.h"
#include "daemon/config/merge.h"
#include "daemon/flow/flow.h"
#include "daemon/stream/stream_set.h"
#include "daemon/channel/channel_set.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define DIFFERENCES_TOLD_MAX 100u

/* ---- what can't be done while it runs ------------------------------------------------------------- */

#define OR_RESTART \
	"; restart the daemon (systemctl restart ibvcapd) or take the stream out, reload, and put it in again"

/* Added before the others are removed: for a moment the device would have two rules for one packet. */
static int check_flow_is_free(const struct daemon *daemon, const struct config *after, const struct config_stream *mine,
                              const struct config_flow *flow, struct failure *failure)
{
	const struct stream *stream;

	TAILQ_FOREACH (stream, &daemon->streams, link) {
		const struct config_stream *before = stream->config;

		if (stream->removed || strcmp(before->interface, mine->interface) != 0)
			continue;
		for (uint32_t i = 0; i < before->n_flows; i++) {
			if (strcmp(before->name, mine->name) == 0 && flow_is_same(&before->flows[i], flow))
				break;
			if (flow_overlaps(&before->flows[i], flow))
				return failure_set(
					failure, EX_CONFIG, EBUSY,
					"%s:%d: stream '%s': this flow to port %u overlaps with one that stream '%s' "
					"has "
					"as long as %s is not applied: take that one out, reload, then put this one "
					"in, and reload",
					flow->file, flow->line, mine->name, flow->destination_port, before->name,
					after->file);
		}
	}
	return 0;
}

static int check_stream(const struct daemon *daemon, const struct config *after, const struct config_stream *mine,
                        const struct stream *running, struct failure *failure)
{
	const char *key = running ? diff_fixed_key(&stream_keys, running->config, mine) : NULL;
	int r = 0;

	if (key)
		return failure_set(failure, EX_CONFIG, EBUSY,
		                   "%s:%d: stream '%s': %s cannot change while it runs" OR_RESTART, mine->file,
		                   mine->line, mine->name, key);
	if (running && flow_header_bytes(&mine->flows[0]) != flow_header_bytes(&running->config->flows[0]))
		return failure_set(
			failure, EX_CONFIG, EBUSY,
			"%s:%d: stream '%s': flows with %u bytes of headers: its queue was made for %u" OR_RESTART,
			mine->flows[0].file, mine->flows[0].line, mine->name, flow_header_bytes(&mine->flows[0]),
			flow_header_bytes(&running->config->flows[0]));
	for (uint32_t i = 0; i < mine->n_flows && r == 0; i++)
		r = check_flow_is_free(daemon, after, mine, &mine->flows[i], failure);
	return r;
}

static int check_channel(const struct config_channel *mine, const struct channel *running, struct failure *failure)
{
	const char *key = running ? diff_fixed_key(&channel_keys, running->config, mine) : NULL;

	if (!key)
		return 0;
	return failure_set(failure, EX_CONFIG, EBUSY,
	                   "%s:%d: channel '%s': %s cannot change while it runs; restart the daemon (systemctl restart "
	                   "ibvcapd) or take the channel out, reload, and put it in again",
	                   mine->file, mine->line, mine->name, key);
}

static int check(struct daemon *daemon, const struct config *after, struct failure *failure)
{
	const char *key = diff_fixed_key(&control_keys, daemon->config, after);
	int r = flow_check(after, failure);

	if (r == 0 && key)
		r = failure_set(
			failure, EX_CONFIG, EBUSY,
			"%s: control: %s cannot change while the daemon runs; restart it: systemctl restart ibvcapd",
			after->file, key);
	for (uint32_t i = 0; i < after->n_streams && r == 0; i++)
		r = check_stream(daemon, after, &after->streams[i], streams_find(daemon, after->streams[i].name),
		                 failure);
	for (uint32_t i = 0; i < after->n_channels && r == 0; i++)
		r = check_channel(&after->channels[i], channel_set_find(daemon, after->channels[i].name), failure);
	return r;
}

/* ---- from where ------------------------------------------------------------------------------------ */

/* As a service manager that waits for the end of it wants to hear (sd_notify(3)). */
static void tell_begin(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)time_monotonic_ns() / 1000);
}

/* STOPPING=1 is not taken back, and who stops the daemon need not be told that a change will not be. */
static int tell_failure(struct daemon *daemon, int r, const struct failure *failure)
{
	if (daemon->stopping) {
		log_info("%s; nothing was changed", failure->text);
		return r;
	}
	log_message(LOG_ERR, &(struct log_about){.event = LOG_EVENT_RELOAD_FAILED}, "%s; nothing was changed",
	            failure->text);
	events_tell_ready(daemon);
	return r;
}

/* ---- what has changed ------------------------------------------------------------------------------ */

static void tell_difference(void *context, const struct difference *difference)
{
	unsigned *n_told = context;

	if ((*n_told)++ >= DIFFERENCES_TOLD_MAX)
		return;
	if (difference->stream)
		log_message(LOG_INFO, &(struct log_about){.stream = difference->stream}, "stream '%s': %s",
		            difference->stream, difference->text);
	else if (difference->channel)
		log_message(LOG_INFO, &(struct log_about){.channel = difference->channel}, "channel '%s': %s",
		            difference->channel, difference->text);
	else
		log_info("configuration: %s", difference->text);
}

static void tell_differences(const struct config *before, const struct config *after)
{
	unsigned n_told = 0;
	unsigned n = diff_config(before, after, tell_difference, &n_told);

	if (n > DIFFERENCES_TOLD_MAX)
		log_info("%u more differences are not listed", n - DIFFERENCES_TOLD_MAX);
}

/* ---- the end of it --------------------------------------------------------------------------------- */

/* said: what was done, where r is 0. */
static void done(struct daemon *daemon, int r, const char *said, struct failure *failure)
{
	if (r < 0) {
		tell_failure(daemon, r, failure);
	} else {
		tell_differences(daemon->config->older, daemon->config);
		log_message(LOG_INFO, &(struct log_about){.event = LOG_EVENT_RELOADED}, "%s", said);
		events_tell_ready(daemon);
	}
	control_reconfigured(daemon->control, r, r < 0 ? failure->text : said);
	if (daemon->reload_again)
		reload_by_signal(daemon);
}

/* ---- beginning ------------------------------------------------------------------------------------- */

/* The configuration to be, of what was read (NULL: nothing) and what is in force. read is taken over. */
static int build(struct daemon *daemon, const struct protocol_reconfigure *asked, struct config *read,
                 struct config **config, struct failure *failure)
{
	struct config_removed removed = {0};
	int r;

	if (asked->what == PROTOCOL_RECONFIGURE_RELOAD) {
		*config = read;
		return 0;
	}
	if (asked->what == PROTOCOL_RECONFIGURE_REMOVE_STREAM)
		removed.stream = asked->name;
	r = config_merge(daemon->config, read, &removed, config, failure);
	config_free(read);
	return r;
}

/* read is taken over. */
static int begin(struct daemon *daemon, const struct protocol_reconfigure *asked, struct config *read,
                 struct failure *failure)
{
	struct config *config;
	int r = build(daemon, asked, read, &config, failure);

	if (r < 0)
		return r;
	r = check(daemon, config, failure);
	if (r == 0)
		return apply_begin(daemon, config, done, failure);
	config_free(config);
	return r;
}

/* ---- reading --------------------------------------------------------------------------------------- */

/*
 * In a thread: looking up users and groups may ask a directory service, which answers when it likes. How long is no
 * matter of the watchdog's: who waits for it is the one that asked.
 */
struct reload {
	struct daemon *daemon;
	struct background_job job;
	struct protocol_reconfigure asked;
	char *file; /* a copy: this may outlive the daemon's */

	/* The job's until it is done. */
	struct config *read;
	int result;
	struct failure failure;
};

static void free_reload(struct reload *reload)
{
	config_free(reload->read);
	free(reload->file);
	free(reload);
}

static struct reload *reload_of(struct background_job *job)
{
	return (struct reload *)((char *)job - offsetof(struct reload, job));
}

static void read_config(struct background_job *job)
{
	struct reload *reload = reload_of(job);

	if (reload->asked.what == PROTOCOL_RECONFIGURE_RELOAD)
		reload->result = config_load(reload->file, &reload->read, &reload->failure);
	else
		reload->result =
			config_load_text(reload->asked.name, reload->asked.text, &reload->read, &reload->failure);
}

static void on_read(struct background_job *job)
{
	struct reload *reload = reload_of(job);
	struct daemon *daemon = reload->daemon;
	struct config *read;
	int r;

	daemon->reload = NULL;
	r = reload->result;
	if (daemon->stopping)
		r = failure_set(&reload->failure, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (r == 0) {
		read = reload->read;
		reload->read = NULL;
		r = begin(daemon, &reload->asked, read, &reload->failure);
	}
	if (r < 0)
		done(daemon, r, NULL, &reload->failure);
	free_reload(reload);
}

static int begin_reading(struct daemon *daemon, const struct protocol_reconfigure *asked, struct failure *failure)
{
	struct reload *reload = calloc(1, sizeof(*reload));
	char *file = strdup(daemon->config->file);

	if (!reload || !file) {
		free(reload);
		free(file);
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	}
	*reload = (struct reload){
		.daemon = daemon, .job = {.work = read_config, .done = on_read}, .asked = *asked, .file = file};
	daemon->reload = reload;
	background_add(daemon->reader, &reload->job);
	return 0;
}

/* ---- asked ----------------------------------------------------------------------------------------- */

static bool is_busy(const struct daemon *daemon)
{
	return daemon->reload || daemon->change;
}

static int reload(struct daemon *daemon, const struct protocol_reconfigure *asked, struct failure *failure)
{
	int r;

	tell_begin();
	r = asked->what == PROTOCOL_RECONFIGURE_REMOVE_STREAM ? begin(daemon, asked, NULL, failure)
	                                                      : begin_reading(daemon, asked, failure);
	return r < 0 ? tell_failure(daemon, r, failure) : 0;
}

void reload_by_signal(struct daemon *daemon)
{
	const struct protocol_reconfigure asked = {.what = PROTOCOL_RECONFIGURE_RELOAD};
	struct failure failure;

	daemon->reload_again = is_busy(daemon) && !daemon->stopping;
	if (!is_busy(daemon) && !daemon->stopping)
		reload(daemon, &asked, &failure);
}

int reload_change(void *context, const struct protocol_reconfigure *change, struct failure *failure)
{
	struct daemon *daemon = context;

	if (daemon->stopping)
		return failure_set(failure, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (is_busy(daemon))
		return failure_set(failure, EX_TEMPFAIL, EAGAIN,
		                   "another change is on its way; ask again when it is done");
	return reload(daemon, change, failure);
}

void reload_cancel(struct daemon *daemon)
{
	if (daemon->reader && background_abandon(daemon->reader) && daemon->reload)
		free_reload(daemon->reload);
	daemon->reader = NULL;
	daemon->reload = NULL;
}
