// SPDX-License-Identifier: Apache-2.0
#include "daemon/reload.h"

#include "daemon/base/log.h"
#include "daemon/config/change.h"
#include "daemon/flow/flow.h"
#include "daemon/preflight.h"
#include "daemon/streams.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

/* A change on its way: what of it is done, so that it can be undone. */
struct change {
	struct daemon *daemon;
	struct config *config; /* to be */
	struct stream **added;
	uint32_t n_added;
	struct stream **kept; /* in both */
	struct stream_change *flows; /* of each that is kept */
	uint32_t n_kept;
	uint32_t n_removed;
};

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

static int check(struct daemon *daemon, const struct config *after, struct fault *fault)
{
	const char *key = change_fixed_control_key(daemon->config, after);
	int r = flow_check(after, fault);

	if (r == 0 && key)
		r = fault_set(fault, EX_CONFIG, EBUSY,
			      "%s: control: %s cannot change while the daemon runs; restart it: systemctl restart ibvcapd",
			      after->file, key);
	for (uint32_t i = 0; i < after->n_streams && r == 0; i++)
		r = check_stream(daemon, after, &after->streams[i], streams_find(daemon, after->streams[i].name), fault);
	return r == 0 ? preflight_test_seals(after, fault) : r;
}

/* ---- what may fail, and its undoing ---------------------------------------------------------------- */

static void add_text(struct fault *fault, const char *text)
{
	size_t used = strlen(fault->text);

	snprintf(fault->text + used, sizeof(fault->text) - used, "%s", text);
}

static int add_stream(struct change *change, const struct config_stream *config, struct fault *fault)
{
	struct daemon *daemon = change->daemon;
	struct stream *stream;
	int r = streams_new(daemon, config, &stream, fault);

	if (r < 0)
		return r;
	change->added[change->n_added++] = stream;
	r = streams_check_memory(daemon, fault);
	if (r < 0 && fault->exit_code == EX_NOPERM) /* a start locks before it gives CAP_IPC_LOCK up */
		add_text(fault, "; or restart the daemon with it: systemctl restart ibvcapd");
	if (r == 0)
		r = streams_open(stream, fault);
	if (r == 0)
		r = streams_prepare(daemon, stream, 0, fault);
	return r == 0 ? stream_start(stream, fault) : r;
}

static int change_flows(struct change *change, struct stream *stream, const struct config_stream *config,
			struct fault *fault)
{
	int r = stream_add_flows(stream, config, &change->flows[change->n_kept], fault);

	if (r == 0)
		change->kept[change->n_kept++] = stream;
	return r;
}

static int make_changes(struct change *change, struct fault *fault)
{
	int r = 0;

	for (uint32_t i = 0; i < change->config->n_streams && r == 0; i++) {
		const struct config_stream *config = &change->config->streams[i];
		struct stream *running = streams_find(change->daemon, config->name);

		r = running ? change_flows(change, running, config, fault) : add_stream(change, config, fault);
	}
	for (uint32_t i = 0; i < change->n_added && r == 0; i++)
		r = streams_serve(change->daemon, change->added[i], fault);
	return r;
}

static void undo(struct change *change)
{
	while (change->n_kept > 0) {
		change->n_kept--;
		stream_undo_flows(change->kept[change->n_kept], &change->flows[change->n_kept]);
	}
	while (change->n_added > 0)
		streams_free(change->daemon, change->added[--change->n_added]);
}

/* ---- what can't fail ------------------------------------------------------------------------------- */

static void keep_groups(struct daemon *daemon, struct stream *stream)
{
	fdstore_keep_groups(&daemon->fdstore, stream->config->name, stream->membership, &stream->kept_as);
}

static void settle(struct change *change)
{
	struct daemon *daemon = change->daemon;
	struct stream *stream;

	for (uint32_t i = 0; i < change->n_kept; i++) {
		stream = change->kept[i];
		stream_settle_flows(stream, change_find_stream(change->config, stream->config->name), &change->flows[i]);
		keep_groups(daemon, stream);
	}
	for (uint32_t i = 0; i < change->n_added; i++)
		keep_groups(daemon, change->added[i]);
	TAILQ_FOREACH (stream, &daemon->streams, link) {
		if (stream->removed || change_find_stream(change->config, stream->config->name))
			continue;
		streams_remove(daemon, stream);
		change->n_removed++;
	}
	change->config->older = daemon->config;
	daemon->config = change->config;
	control_set_config(daemon->control, daemon->config);
	events_reap(daemon);
	events_refresh_states(daemon);
}

static int apply(struct daemon *daemon, struct config *config, char *said, size_t bytes, struct fault *fault)
{
	struct change change = { .daemon = daemon, .config = config };
	int r = check(daemon, config, fault);

	if (r < 0)
		return r;
	change.added = calloc(config->n_streams + 1, sizeof(*change.added));
	change.kept = calloc(config->n_streams + 1, sizeof(*change.kept));
	change.flows = calloc(config->n_streams + 1, sizeof(*change.flows));
	r = change.added && change.kept && change.flows ? make_changes(&change, fault) :
							  fault_set(fault, EX_OSERR, ENOMEM, "out of memory");
	if (r < 0) {
		undo(&change);
	} else {
		settle(&change);
		snprintf(said, bytes, "%s: %u streams added, %u removed, %u kept", config->file, change.n_added,
			 change.n_removed, change.n_kept);
	}
	free(change.added);
	free(change.kept);
	free(change.flows);
	return r;
}

/* ---- from where ------------------------------------------------------------------------------------ */

/* As a service manager that waits for the end of it wants to hear (sd_notify(3)). */
static void tell_begin(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)streams_now_us());
}

/* config: of use where r is 0. */
static int finish(struct daemon *daemon, struct config *config, int r, char *said, size_t bytes, struct fault *fault)
{
	if (r == 0) {
		r = apply(daemon, config, said, bytes, fault);
		if (r < 0)
			config_free(config);
	}
	if (r < 0)
		log_error("%s; nothing was changed", fault->text);
	else
		log_info("%s", said);
	events_tell_ready(daemon);
	return r;
}

int reload_file(struct daemon *daemon, char *said, size_t bytes, struct fault *fault)
{
	struct config *config = NULL;
	int r;

	tell_begin();
	r = config_load(daemon->config->file, &config, fault);
	return finish(daemon, config, r, said, bytes, fault);
}

static int build(struct daemon *daemon, const struct wire_change *change, struct config **config, struct fault *fault)
{
	struct config *added;
	int r;

	if (change->what == WIRE_CHANGE_REMOVE_STREAM)
		return change_copy(daemon->config, NULL, change->name, config, fault);
	r = config_load_text(change->name, change->text, &added, fault);
	if (r < 0)
		return r;
	r = change_copy(daemon->config, added, NULL, config, fault);
	config_free(added);
	return r;
}

int reload_change(void *context, const struct wire_change *change, char *said, size_t bytes, struct fault *fault)
{
	struct daemon *daemon = context;
	struct config *config = NULL;
	int r;

	if (daemon->stopping)
		return fault_set(fault, EX_TEMPFAIL, EAGAIN, "the daemon is stopping");
	if (change->what == WIRE_CHANGE_RELOAD)
		return reload_file(daemon, said, bytes, fault);
	tell_begin();
	r = build(daemon, change, &config, fault);
	return finish(daemon, config, r, said, bytes, fault);
}
