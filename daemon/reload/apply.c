// SPDX-License-Identifier: Apache-2.0
#include "daemon/reload/apply.h"

#include "daemon/base/background.h"
#include "daemon/base/log.h"
#include "daemon/base/time.h"
#include "daemon/process/preflight.h"
#include "daemon/stream/stream_set.h"
#include "daemon/channel/channel_set.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#define BESIDES_US UINT64_C(90000000) /* what a change may take besides its memory */

/* A stream that is in both. */
struct kept {
	struct stream *stream;
	const struct config_stream *config; /* to be */
	struct stream_change change;
};

/* A change on its way: what of it is done, so that it can be undone. */
struct change {
	struct daemon *daemon;
	struct config *config; /* to be */
	apply_done *done;
	struct stream_list added;           /* not the daemon's yet */
	struct channel_list added_channels; /* likewise */
	struct kept *kept;
	uint32_t n_added;
	uint32_t n_kept;
	uint32_t n_removed;
	uint32_t n_channels_added;
	uint32_t n_channels_removed;

	struct background_job job;
	int result; /* the job's until it is done; failure likewise */
	struct failure failure;
};

/* ---- undoing --------------------------------------------------------------------------------------- */

static void undo(struct change *change)
{
	for (uint32_t i = change->n_kept; i > 0; i--)
		stream_undo_change(change->kept[i - 1].stream, &change->kept[i - 1].change);
	while (!TAILQ_EMPTY(&change->added_channels))
		channel_set_free(change->daemon, &change->added_channels,
		                 TAILQ_LAST(&change->added_channels, channel_list));
	while (!TAILQ_EMPTY(&change->added))
		streams_free(change->daemon, &change->added, TAILQ_LAST(&change->added, stream_list));
}

/* Of which nothing is left to undo, or to be: NULL for a config that is in force. */
static void free_change(struct change *change, struct config *config)
{
	config_free(config);
	free(change->kept);
	free(change);
}

/* ---- the last steps -------------------------------------------------------------------------------- */

/* Nobody has attached to what is added yet: what its flows let in is gone with it, should a later step fail. */
static int commit(struct change *change, struct failure *failure)
{
	struct daemon *daemon = change->daemon;
	int r;

	preflight_leave_cpus(&daemon->cpus, change->config); /* before workers have some of them */
	r = streams_each(daemon, &change->added, streams_start, failure);
	if (r == 0)
		r = streams_each(daemon, &change->added, streams_serve, failure);
	if (r == 0)
		r = channel_set_each(daemon, &change->added_channels, channel_set_serve, failure);
	if (r == 0)
		r = streams_each(daemon, &change->added, streams_capture, failure);
	for (uint32_t i = 0; i < change->n_kept && r == 0; i++)
		r = stream_join_changed(change->kept[i].stream, change->kept[i].config, &change->kept[i].change,
		                        failure);
	for (uint32_t i = 0; i < change->n_kept && r == 0; i++)
		r = stream_add_changed(change->kept[i].stream, change->kept[i].config, &change->kept[i].change,
		                       failure);
	return r;
}

static void keep_groups(struct daemon *daemon, struct stream *stream)
{
	fdstore_keep_groups(&daemon->fdstore, stream->config->name, stream->membership, &stream->kept_as);
}

static void settle_kept(struct daemon *daemon, struct kept *kept)
{
	bool has_changed = kept->change.has_changed;

	stream_settle_change(kept->stream, kept->config, &kept->change);
	if (has_changed)
		keep_groups(daemon, kept->stream);
}

static void settle_channels(struct change *change)
{
	struct daemon *daemon = change->daemon;
	struct channel *channel;

	TAILQ_FOREACH (channel, &daemon->channels, link) {
		if (channel->removed || config_find_channel(change->config, channel->config->name))
			continue;
		channel_set_remove(daemon, channel);
		change->n_channels_removed++;
	}
	channel_set_lend(&change->added_channels);
	TAILQ_CONCAT(&daemon->channels, &change->added_channels, link);
	channel_set_set_config(daemon, change->config);
}

/* What cannot fail. */
static void settle(struct change *change)
{
	struct daemon *daemon = change->daemon;
	struct stream *stream;

	for (uint32_t i = 0; i < change->n_kept; i++)
		settle_kept(daemon, &change->kept[i]);
	TAILQ_FOREACH (stream, &daemon->streams, link) {
		if (stream->removed || config_find_stream(change->config, stream->config->name))
			continue;
		streams_remove(daemon, stream);
		change->n_removed++;
	}
	TAILQ_FOREACH (stream, &change->added, link)
		keep_groups(daemon, stream);
	TAILQ_CONCAT(&daemon->streams, &change->added, link);
	settle_channels(change);
	change->config->older = daemon->config;
	daemon->config = change->config;
	log_set_level(daemon->config->log_level);
	log_debug("%s is in force: %u streams, %u channels", daemon->config->file, daemon->config->n_streams,
	          daemon->config->n_channels);
	control_set_config(daemon->control, daemon->config);
	if (change->n_added || change->n_channels_added)
		(void)channel_set_need_ipc_lock(
			daemon); /* what was given up at start is gone: the log says what lacks */
	events_reap(daemon);
	events_refresh_states(daemon);
}

/* ---- the thread ------------------------------------------------------------------------------------ */

static struct change *change_of(struct background_job *job)
{
	return (struct change *)((char *)job - offsetof(struct change, job));
}

static void on_prepared(struct background_job *job)
{
	struct change *change = change_of(job);
	struct daemon *daemon = change->daemon;
	char said[PROTOCOL_TEXT_MAX] = "";
	int r;

	r = change->result;
	if (daemon->stopping)
		r = failure_set(&change->failure, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (r == 0)
		r = commit(change, &change->failure);
	if (r < 0) {
		undo(change);
		preflight_leave_cpus(&daemon->cpus, daemon->config);
	} else {
		settle(change);
	}
	snprintf(said, sizeof(said), "%s: %u streams added, %u removed, %u kept", daemon->config->file, change->n_added,
	         change->n_removed, change->n_kept);
	if (change->n_channels_added || change->n_channels_removed)
		snprintf(said + strlen(said), sizeof(said) - strlen(said), "; %u channels added, %u removed",
		         change->n_channels_added, change->n_channels_removed);
	daemon->change = NULL;
	change->done(daemon, r, said, &change->failure);
	free_change(change, r < 0 ? change->config : NULL);
	events_look_for_end(daemon); /* a stop counts transmit workers that were to come */
}

static void prepare(struct background_job *job)
{
	struct change *change = change_of(job);

	change->result = preflight_test_seals(change->config, &change->failure);
	if (change->result == 0)
		change->result = streams_each(change->daemon, &change->added, streams_prepare, &change->failure);
	if (change->result == 0)
		change->result = channel_set_each(change->daemon, &change->added_channels, channel_set_prepare,
		                                  &change->failure);
}

static void begin_preparing(struct change *change)
{
	change->job = (struct background_job){
		.work = prepare, .done = on_prepared, .bytes = streams_pinned_bytes(&change->added)};
	/* The manager would take a client that waits for the end of a reload for one that hangs. */
	sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%llu",
	           (unsigned long long)(time_for_memory_us(change->job.bytes) + BESIDES_US));
	background_add(change->daemon->memory, &change->job);
}

/* ---- beginning ------------------------------------------------------------------------------------- */

static void add_text(struct failure *failure, const char *text)
{
	size_t used = strlen(failure->text);

	snprintf(failure->text + used, sizeof(failure->text) - used, "%s", text);
}

/* What each stream of the configuration to be is: one that runs, or a new one. */
static int sort_out(struct change *change, struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < change->config->n_streams && r == 0; i++) {
		const struct config_stream *config = &change->config->streams[i];
		struct stream *running = streams_find(change->daemon, config->name);

		if (running) {
			change->kept[change->n_kept++] =
				(struct kept){running, config, stream_compare(running, config)};
			continue;
		}
		r = streams_new(change->daemon, &change->added, config, failure);
		change->n_added++;
	}
	for (uint32_t i = 0; i < change->config->n_channels && r == 0; i++) {
		if (channel_set_find(change->daemon, change->config->channels[i].name))
			continue;
		r = channel_set_new(change->daemon, &change->added_channels, &change->config->channels[i], failure);
		change->n_channels_added++;
	}
	return r;
}

static int look_up(struct change *change, struct failure *failure)
{
	int r = sort_out(change, failure);

	if (r == 0) {
		r = streams_check_memory(&change->daemon->streams, &change->added, failure);
		if (r < 0 && failure->exit_code == EX_NOPERM) /* a start locks before it gives CAP_IPC_LOCK up */
			add_text(failure, "; or restart the daemon with it: systemctl restart ibvcapd");
	}
	if (r == 0)
		r = streams_each(change->daemon, &change->added, streams_open, failure);
	return r == 0 ? channel_set_each(change->daemon, &change->added_channels, channel_set_open, failure) : r;
}

static struct change *new_change(struct daemon *daemon, struct config *config, apply_done *done)
{
	struct change *change = calloc(1, sizeof(*change));

	if (!change)
		return NULL;
	*change = (struct change){.daemon = daemon, .config = config, .done = done};
	TAILQ_INIT(&change->added);
	TAILQ_INIT(&change->added_channels);
	change->kept = calloc(config->n_streams + 1, sizeof(*change->kept));
	if (change->kept)
		return change;
	free(change);
	return NULL;
}

int apply_begin(struct daemon *daemon, struct config *config, apply_done *done, struct failure *failure)
{
	struct change *change = new_change(daemon, config, done);
	int r;

	if (!change) {
		config_free(config);
		return failure_set(failure, EX_OSERR, ENOMEM, "out of memory");
	}
	r = look_up(change, failure);
	if (r == 0) {
		daemon->change = change;
		begin_preparing(change);
		return 0;
	}
	undo(change);
	free_change(change, config);
	return r;
}
