// SPDX-License-Identifier: Apache-2.0
#include "daemon/reload.h"

#include "daemon/apply.h"
#include "daemon/base/log.h"
#include "daemon/base/time.h"
#include "daemon/config/change.h"
#include "daemon/config/diff.h"
#include "daemon/flow/flow.h"
#include "daemon/streams.h"
#include "daemon/tx_channels.h"

#include <errno.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define DIFFERENCES_TOLD_MAX 100u

/* ---- what can't be done while it runs ------------------------------------------------------------- */

#define OR_RESTART "; restart the daemon (systemctl restart ibvcapd) or take the stream out, reload, and put it in again"

/* Added before the others are removed: for a moment the device would have two rules for one packet. */
static int check_flow_is_free(const struct daemon *daemon, const struct config *after, const struct config_stream *mine,
			      const struct config_flow *flow, struct fault *fault)
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
				return fault_set(fault, EX_CONFIG, EBUSY,
						 "%s:%d: stream '%s': this flow to port %u overlaps with one that stream '%s' has "
						 "as long as %s is not applied: take that one out, reload, then put this one "
						 "in, and reload",
						 flow->file, flow->line, mine->name, flow->destination_port, before->name,
						 after->file);
		}
	}
	return 0;
}

static int check_stream(const struct daemon *daemon, const struct config *after, const struct config_stream *mine,
			const struct stream *running, struct fault *fault)
{
	const char *key = running ? change_fixed_stream_key(running->config, mine) : NULL;
	int r = 0;

	if (key)
		return fault_set(fault, EX_CONFIG, EBUSY, "%s:%d: stream '%s': %s cannot change while it runs" OR_RESTART,
				 mine->file, mine->line, mine->name, key);
	if (running && flow_header_bytes(&mine->flows[0]) != flow_header_bytes(&running->config->flows[0]))
		return fault_set(fault, EX_CONFIG, EBUSY,
				 "%s:%d: stream '%s': flows with %u bytes of headers: its queue was made for %u" OR_RESTART,
				 mine->flows[0].file, mine->flows[0].line, mine->name, flow_header_bytes(&mine->flows[0]),
				 flow_header_bytes(&running->config->flows[0]));
	for (uint32_t i = 0; i < mine->n_flows && r == 0; i++)
		r = check_flow_is_free(daemon, after, mine, &mine->flows[i], fault);
	return r;
}

static int check_channel(const struct config_channel *mine, const struct tx_channel *running, struct fault *fault)
{
	const char *key = running ? change_fixed_channel_key(running->config, mine) : NULL;

	if (!key)
		return 0;
	return fault_set(fault, EX_CONFIG, EBUSY,
			 "%s:%d: channel '%s': %s cannot change while it runs; restart the daemon (systemctl restart "
			 "ibvcapd) or take the channel out, reload, and put it in again",
			 mine->file, mine->line, mine->name, key);
}

static int check(struct daemon *daemon, const struct config *after, struct fault *fault)
{
	const char *key = change_fixed_control_key(daemon->config, after);
	int r = flow_check(after, fault);

	if (r == 0 && key)
		r = fault_set(fault, EX_CONFIG, EBUSY,
			      "%s: control: %s cannot change while the daemon runs; restart it: systemctl restart ibvcapd",
			      after->file, key);
	for (uint32_t i = 0; i < after->n_streams && r == 0; i++)
		r = check_stream(daemon, after, &after->streams[i], streams_find(daemon, after->streams[i].name),
				 fault);
	for (uint32_t i = 0; i < after->n_channels && r == 0; i++)
		r = check_channel(&after->channels[i], tx_channels_find(daemon, after->channels[i].name), fault);
	return r;
}

/* ---- from where ------------------------------------------------------------------------------------ */

/* As a service manager that waits for the end of it wants to hear (sd_notify(3)). */
static void tell_begin(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)time_monotonic_ns() / 1000);
}

/* STOPPING=1 is not taken back, and who stops the daemon need not be told that a change will not be. */
static int tell_failure(struct daemon *daemon, int r, const struct fault *fault)
{
	if (daemon->stopping) {
		log_info("%s; nothing was changed", fault->text);
		return r;
	}
	log_message(LOG_ERR, &(struct log_about){.event = LOG_EVENT_RELOAD_FAILED}, "%s; nothing was changed",
		    fault->text);
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
		log_info("control: %s", difference->text);
}

static void tell_differences(const struct config *before, const struct config *after)
{
	unsigned n_told = 0;
	unsigned n = diff_config(before, after, tell_difference, &n_told);

	if (n > DIFFERENCES_TOLD_MAX)
		log_info("%u more differences are not listed", n - DIFFERENCES_TOLD_MAX);
}

/* ---- the end of it --------------------------------------------------------------------------------- */

static void done(struct daemon *daemon, int r, const char *said, struct fault *fault)
{
	if (r < 0) {
		tell_failure(daemon, r, fault);
	} else {
		tell_differences(daemon->config->older, daemon->config);
		log_message(LOG_INFO, &(struct log_about){.event = LOG_EVENT_RELOADED}, "%s", said);
		events_tell_ready(daemon);
	}
	control_changed(daemon->control, r, r < 0 ? fault->text : said);
	if (daemon->reload_again)
		reload_by_signal(daemon);
}

/* r: of making the configuration to be, which is there where it is 0. */
static int begin(struct daemon *daemon, int r, struct config *config, struct fault *fault)
{
	if (r == 0) {
		r = check(daemon, config, fault);
		if (r < 0)
			config_free(config);
		else
			r = apply_begin(daemon, config, done, fault);
	}
	return r < 0 ? tell_failure(daemon, r, fault) : 0;
}

static int reload_file(struct daemon *daemon, struct fault *fault)
{
	struct config *config = NULL;
	int r;

	tell_begin();
	r = config_load(daemon->config->file, &config, fault);
	return begin(daemon, r, config, fault);
}

void reload_by_signal(struct daemon *daemon)
{
	struct fault fault;

	daemon->reload_again = daemon->change && !daemon->stopping;
	if (!daemon->change && !daemon->stopping)
		reload_file(daemon, &fault);
}

static int build(struct daemon *daemon, const struct wire_change *change, struct config **config, struct fault *fault)
{
	struct config *added;
	int r;

	if (change->what == WIRE_CHANGE_REMOVE_STREAM)
		return change_copy(daemon->config, NULL, &(struct change_removed){.stream = change->name}, config,
				   fault);
	r = config_load_text(change->name, change->text, &added, fault);
	if (r < 0)
		return r;
	r = change_copy(daemon->config, added, &(struct change_removed){0}, config, fault);
	config_free(added);
	return r;
}

int reload_change(void *context, const struct wire_change *change, struct fault *fault)
{
	struct daemon *daemon = context;
	struct config *config = NULL;
	int r;

	if (daemon->stopping)
		return fault_set(fault, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (daemon->change)
		return fault_set(fault, EX_TEMPFAIL, EAGAIN, "another change is on its way; ask again when it is done");
	if (change->what == WIRE_CHANGE_RELOAD)
		return reload_file(daemon, fault);
	tell_begin();
	r = build(daemon, change, &config, fault);
	return begin(daemon, r, config, fault);
}
