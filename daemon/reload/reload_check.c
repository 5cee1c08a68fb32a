// SPDX-License-Identifier: Apache-2.0
/*
 * The rules for a change while the daemon runs: keys that are fixed, header lengths, and flows that another stream
 * has. A stream or channel that waits for its interface does not run, and may change as it likes.
 */
#include "daemon/reload/reload_check.h"

#include "daemon/config/diff.h"
#include "daemon/config/key.h"
#include "daemon/flow/flow.h"

#include <errno.h>
#include <string.h>

#define RESTART_OR_TAKE_OUT(what)                                                                           \
	"; restart the daemon (systemctl restart ibvcapd) or take the " what " out, reload, and put it in " \
	"again"

static const struct config_stream *reload_running_stream(const struct daemon *daemon, const char *name)
{
	return service_find(&daemon->services, SERVICE_STREAM, name) ? config_find_stream(daemon->config, name) : NULL;
}

/*
 * New flows are added before old ones are removed: for a moment the device would have two rules for one packet. Those
 * of another backend are elsewhere.
 */
static int reload_check_flow(const struct daemon *daemon, const struct config *after, const struct config_stream *mine,
                             const struct config_flow *flow, struct failure *failure)
{
	const struct config *running = daemon->config;
	char text[FLOW_TEXT_MAX];

	for (uint32_t s = 0; s < running->n_streams; s++) {
		const struct config_stream *before = &running->streams[s];

		if (strcmp(before->interface, mine->interface) != 0 ||
		    !config_may_share_backend(before->backend, mine->backend) ||
		    !reload_running_stream(daemon, before->name))
			continue;
		for (uint32_t i = 0; i < before->n_flows; i++) {
			if (strcmp(before->name, mine->name) == 0 && flow_is_same(&before->flows[i], flow))
				break;
			if (flow_conflicts(&before->flows[i], flow))
				return failure_set(
					failure, EX_CONFIG, EBUSY,
					"%s:%d: stream '%s': this flow (%s) overlaps with one that stream '%s' "
					"has as long as %s is not applied: take that one out, reload, then put this "
					"one in, and reload",
					flow->file, flow->line, mine->name, flow_describe(flow, text, sizeof(text)),
					before->name, after->file);
		}
	}
	return 0;
}

/* The rows of a flow have the number that its rule on the device has. */
static int reload_check_flow_numbers(const struct config_stream *running, const struct config_stream *mine,
                                     struct failure *failure)
{
	for (uint32_t i = 0; i < mine->n_flows && mine->flow_numbers; i++)
		for (uint32_t k = 0; k < running->n_flows; k++)
			if (i != k && flow_is_same(&mine->flows[i], &running->flows[k]))
				return failure_set(failure, EX_CONFIG, EBUSY,
				                   "%s:%d: stream '%s' has flow_numbers, and this flow is number %u "
				                   "where it was %u: keep the order, and put another flow where one "
				                   "goes" RESTART_OR_TAKE_OUT("stream"),
				                   mine->flows[i].file, mine->flows[i].line, mine->name, i, k);
	return 0;
}

static int reload_check_stream(const struct daemon *daemon, const struct config *after,
                               const struct config_stream *mine, struct failure *failure)
{
	const struct config_stream *running = reload_running_stream(daemon, mine->name);
	const char *key = running ? diff_fixed_key(&stream_keys, running, mine) : NULL;
	int r = 0;

	if (key)
		return failure_set(failure, EX_CONFIG, EBUSY,
		                   "%s:%d: stream '%s': %s cannot change while it runs" RESTART_OR_TAKE_OUT("stream"),
		                   mine->file, mine->line, mine->name, key);
	if (running && mine->layout == CONFIG_LAYOUT_UDP &&
	    flow_header_bytes(&mine->flows[0]) != flow_header_bytes(&running->flows[0]))
		return failure_set(failure, EX_CONFIG, EBUSY,
		                   "%s:%d: stream '%s': flows with %u bytes of headers: its queue was made for %u" //
		                   RESTART_OR_TAKE_OUT("stream"),
		                   mine->flows[0].file, mine->flows[0].line, mine->name,
		                   flow_header_bytes(&mine->flows[0]), flow_header_bytes(&running->flows[0]));
	if (running)
		r = reload_check_flow_numbers(running, mine, failure);
	for (uint32_t i = 0; i < mine->n_flows && r == 0; i++)
		r = reload_check_flow(daemon, after, mine, &mine->flows[i], failure);
	return r;
}

static int reload_check_channel(const struct daemon *daemon, const struct config_channel *mine, struct failure *failure)
{
	bool is_running = service_find(&daemon->services, SERVICE_CHANNEL, mine->name);
	const struct config_channel *running = is_running ? config_find_channel(daemon->config, mine->name) : NULL;
	const char *key = running ? diff_fixed_key(&channel_keys, running, mine) : NULL;

	return key ? failure_set(failure, EX_CONFIG, EBUSY,
	                         "%s:%d: channel '%s': %s cannot change while it runs" RESTART_OR_TAKE_OUT("channel"),
	                         mine->file, mine->line, mine->name, key)
	           : 0;
}

int reload_check(const struct daemon *daemon, const struct config *after, struct failure *failure)
{
	const char *key = diff_fixed_key(&control_keys, daemon->config, after);
	int r = flow_check(after, failure);

	if (r == 0 && key)
		r = failure_set(
			failure, EX_CONFIG, EBUSY,
			"%s: control: %s cannot change while the daemon runs; restart it: systemctl restart ibvcapd",
			after->file, key);
	for (uint32_t i = 0; i < after->n_streams && r == 0; i++)
		r = reload_check_stream(daemon, after, &after->streams[i], failure);
	for (uint32_t i = 0; i < after->n_channels && r == 0; i++)
		r = reload_check_channel(daemon, &after->channels[i], failure);
	return r;
}
