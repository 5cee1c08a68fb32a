// SPDX-License-Identifier: Apache-2.0
/*
 * Puts a status together: asks for new readings of the devices and the workers to account for them, waits for that for
 * a bounded time, builds the answer once, and sends each client the part that it may see.
 */
#include "daemon/control/status.h"

#include "daemon/base/loop.h"
#include "daemon/control/server.h"
#include "lib/base/min.h"
#include "lib/base/time.h"

#include <ibvcap/ibvcap.h>
#include <string.h>
#include <unistd.h>

#define REFRESH_STEP_US    UINT64_C(500)
#define REFRESH_TIMEOUT_US UINT64_C(50000)
/* A refresh sends commands to each device: the rest after it bounds how many of them clients can cause. */
#define REFRESH_REST_US UINT64_C(20000)
#define HUNG_NS         UINT64_C(1000000000)

/* ---- one message each ---------------------------------------------------------------------------- */

static int append_interface(struct reply *reply, const struct control_interface *interface)
{
	struct ibvcap_status_interface part = {.size = sizeof(part),
	                                       .n_counters = INTERFACE_COUNTER_N,
	                                       .is_second_best = interface->is_second_best,
	                                       .is_auto = interface->is_auto,
	                                       .counts_all_losses = *interface->counts_all_losses,
	                                       .loss_packets = interface->lost->packets,
	                                       .loss_from_ns = interface->lost->from_utc_ns,
	                                       .loss_to_ns = interface->lost->to_utc_ns};

	reply_copy_text(part.interface, sizeof(part.interface), interface->name);
	reply_copy_text(part.device, sizeof(part.device), interface->device);
	reply_copy_text(part.backend, sizeof(part.backend), interface->backend);
	reply_copy_text(part.uncounted, sizeof(part.uncounted), *interface->uncounted);
	reply_copy_text(part.backend_why, sizeof(part.backend_why), interface->backend_why);
	reply_copy_text(part.backend_how, sizeof(part.backend_how), interface->backend_how);
	reply_copy_text(part.backend_better, sizeof(part.backend_better), interface->backend_better);
	reply_copy_text(part.backend_command, sizeof(part.backend_command), interface->backend_command);
	for (uint32_t i = 0; i < CONTROL_INTERFACE_READINGS; i++)
		part.reading_age_ms = (uint32_t)u64_max(part.reading_age_ms, status_age_ms(interface->readings[i]));
	return reply_append_part(reply, STATUS_INTERFACE, &part, interface->counters);
}

/* ---- the whole status --------------------------------------------------------------------------------- */

static bool has_stream(const struct control *control, const char *name)
{
	const struct rx_stream *stream;

	TAILQ_FOREACH (stream, &control->rx_streams, link)
		if (strcmp(stream->known->config->name, name) == 0)
			return true;
	return false;
}

static bool has_channel(const struct control *control, const char *name)
{
	const struct tx_endpoint *channel;

	TAILQ_FOREACH (channel, &control->tx_endpoints, link)
		if (strcmp(channel->channel->config->name, name) == 0)
			return true;
	return false;
}

const char *status_closed_why(const struct control *control, const char *interface, bool is_lent)
{
	return control->options.closed_why(control->options.context, interface, is_lent);
}

/* Their interface is not there, or cannot be opened yet; or no consumer lends a stream memory. */
static int append_closed(const struct control *control, struct reply *reply)
{
	const struct config *config = control->options.config;
	int r = 0;

	for (uint32_t i = 0; i < config->n_streams && r == 0; i++)
		if (!has_stream(control, config->streams[i].name))
			r = status_append_closed_stream(reply, &config->streams[i],
			                                status_closed_why(control, config->streams[i].interface,
			                                                  config->streams[i].payload_is_lent));
	for (uint32_t i = 0; i < config->n_channels && r == 0; i++)
		if (!has_channel(control, config->channels[i].name))
			r = status_append_closed_channel(
				reply, &config->channels[i],
				status_closed_why(control, config->channels[i].interface, false));
	return r;
}

/*
 * Flows and consumers follow their stream, and senders follow their channel, and those that are closed follow the
 * others: send_seen() relies on it.
 */
static int build_status(const struct control *control, struct reply *reply)
{
	const struct control_interface *interface;
	const struct tx_endpoint *channel;
	const struct rx_stream *stream;
	struct ibvcap_status_daemon daemon = {
		.size = sizeof(daemon), .pid = getpid(), .config_written_ns = control->options.config->written_ns};
	struct protocol_header end;
	int r;

	reply_copy_text(daemon.version, sizeof(daemon.version), IBVCAP_BUILD_VERSION);
	r = reply_append_part(reply, STATUS_DAEMON, &daemon, NULL);
	TAILQ_FOREACH (stream, &control->rx_streams, link)
		if (r == 0)
			r = status_append_stream(reply, stream);
	TAILQ_FOREACH (channel, &control->tx_endpoints, link)
		if (r == 0)
			r = status_append_channel(reply, channel);
	if (r == 0)
		r = append_closed(control, reply);
	TAILQ_FOREACH (interface, &control->interfaces, link)
		if (r == 0)
			r = append_interface(reply, interface);
	protocol_init(&end, PROTOCOL_END, sizeof(end));
	return r == 0 ? reply_append(reply, &end) : r;
}

/* ---- the part that a client may see ------------------------------------------------------------------- */

static bool may_see_all(const struct session *session)
{
	return rights_to_see_all(session->control->options.config, &session->peer, geteuid());
}

static bool may_see_stream(const struct session *session, const struct config_stream *stream)
{
	return may_see_all(session) || rights_to_receive(session->control->options.config, stream, &session->peer,
	                                                 geteuid(), NULL) == RIGHTS_GRANTED;
}

static bool may_see_channel(const struct session *session, const struct config_channel *channel)
{
	return may_see_all(session) || rights_to_send(channel, &session->peer, geteuid(), NULL) == RIGHTS_GRANTED;
}

static bool is_on_interface(const char *interface, const char *backend, const struct ibvcap_status_interface *seen)
{
	return strcmp(interface, seen->interface) == 0 && strcmp(backend, seen->backend) == 0;
}

/* A port's counters are about all of its streams and channels: a client that may use one of them may see them. */
static bool may_see_interface(const struct session *session, const struct ibvcap_status_interface *interface)
{
	const struct tx_endpoint *channel;
	const struct rx_stream *stream;

	if (may_see_all(session))
		return true;
	TAILQ_FOREACH (channel, &session->control->tx_endpoints, link)
		if (is_on_interface(channel->channel->config->interface, channel->channel->backend, interface) &&
		    may_see_channel(session, channel->channel->config))
			return true;
	TAILQ_FOREACH (stream, &session->control->rx_streams, link)
		if (is_on_interface(stream->known->config->interface, stream->known->backend, interface) &&
		    may_see_stream(session, stream->known->config))
			return true;
	return false;
}

/* next is the stream of the part; NULL: it is closed, and found by its name. */
static bool may_see_next_stream(const struct session *session, const struct rx_stream **next,
                                const struct ibvcap_status_stream *part)
{
	const struct rx_stream *stream = *next;

	if (!stream)
		return may_see_stream(session, config_find_stream(session->control->options.config, part->name));
	*next = TAILQ_NEXT(stream, link);
	return may_see_stream(session, stream->known->config);
}

static bool may_see_next_channel(const struct session *session, const struct tx_endpoint **next,
                                 const struct ibvcap_status_channel *part)
{
	const struct tx_endpoint *channel = *next;

	if (!channel)
		return may_see_channel(session, config_find_channel(session->control->options.config, part->name));
	*next = TAILQ_NEXT(channel, link);
	return may_see_channel(session, channel->channel->config);
}

/*
 * Streams and channels are in the order of control's lists. Rights are looked up by that order and not by name: a
 * stream that was removed and one that was added in its place have the same name and may have different rights.
 */
static int send_seen(struct session *session, const struct reply *reply)
{
	const struct rx_stream *stream = TAILQ_FIRST(&session->control->rx_streams);
	const struct tx_endpoint *channel = TAILQ_FIRST(&session->control->tx_endpoints);
	struct reply seen = {0};
	bool may_see = true;
	int r = 0;

	for (size_t at = 0; at < reply->used && r == 0;) {
		union protocol_message message;

		memcpy(&message.header, reply->bytes + at, sizeof(message.header));
		memcpy(&message, reply->bytes + at, message.header.bytes);
		at += message.header.bytes;
		switch (message.header.type == PROTOCOL_PART ? message.part.kind : STATUS_N_PARTS) {
		case STATUS_STREAM:
			if (((const struct ibvcap_status_stream *)message.part.body)->queue > 0)
				break;
			may_see = may_see_next_stream(session, &stream, (const void *)message.part.body);
			break;
		case STATUS_CHANNEL:
			may_see = may_see_next_channel(session, &channel, (const void *)message.part.body);
			break;
		case STATUS_INTERFACE:
			may_see = may_see_interface(session, (const void *)message.part.body);
			break;
		case STATUS_FLOW: /* these are seen with their stream or channel */
		case STATUS_CONSUMER:
		case STATUS_SENDER:
			break;
		default:
			may_see = true;
		}
		if (may_see)
			r = reply_append(&seen, &message.header);
	}
	if (r == 0)
		return session_send_reply(session, &seen);
	reply_deinit(&seen);
	return r;
}

static void answer_all(struct control *control)
{
	struct reply reply = {0};
	struct session *session, *next;
	int r = build_status(control, &reply);

	for (session = LIST_FIRST(&control->sessions); session; session = next) {
		next = LIST_NEXT(session, link);
		if (!session->in_refresh)
			continue;
		session->in_refresh = false;
		if (r < 0 || send_seen(session, &reply) < 0)
			session_free(session);
	}
	reply_deinit(&reply);
}

/* ---- the refresh --------------------------------------------------------------------------------- */

/* A device that hangs is not waited for: the status says how old its readings are. */
static bool is_renewed(const struct control *control, const struct reading *reading)
{
	return reading->tried_ns >= control->refresh.asked_ns || reading->is_closed ||
	       reading_waits_ns(reading, time_monotonic_ns()) >= HUNG_NS;
}

static bool is_stream_fresh(const struct control *control, const struct rx_stream *stream)
{
	bool is_mailed = true;

	if (!rx_stream_runs(stream))
		return true;
	if (!is_renewed(control, stream->known->matched))
		return false;
	for (uint32_t i = 0; i < stream->n_queues; i++)
		if (!stream->queues[i]->endpoint.ended)
			is_mailed &= rx_readings_mail(stream->queues[i]);
	rx_losses_update(stream->known->losses);
	return is_mailed && rx_losses_is_settled(stream->known->losses, stream->known->matched->value);
}

static bool is_fresh(struct control *control)
{
	const struct control_interface *interface;
	const struct rx_stream *stream;
	bool fresh = true;

	TAILQ_FOREACH (stream, &control->rx_streams, link)
		fresh &= is_stream_fresh(control, stream);
	TAILQ_FOREACH (interface, &control->interfaces, link)
		for (uint32_t i = 0; i < CONTROL_INTERFACE_READINGS; i++)
			fresh &= is_renewed(control, interface->readings[i]);
	return fresh;
}

/* Clients that asked before the readings are taken are answered by them; later ones by the next refresh. */
static void begin_refresh(struct control *control)
{
	struct status_refresh *refresh = &control->refresh;
	struct session *session;
	const struct control_interface *interface;
	const struct rx_stream *stream;

	LIST_FOREACH (session, &control->sessions, link) {
		if (!session->wants_status)
			continue;
		session->wants_status = false;
		session->in_refresh = true;
		refresh->active = true;
	}
	if (!refresh->active)
		return;
	control->refresh.asked_ns = time_monotonic_ns();
	TAILQ_FOREACH (stream, &control->rx_streams, link)
		reading_renew(stream->known->matched);
	TAILQ_FOREACH (interface, &control->interfaces, link)
		for (uint32_t i = 0; i < CONTROL_INTERFACE_READINGS; i++)
			reading_renew(interface->readings[i]);
	refresh->deadline_us = loop_now_us(control->options.event) + REFRESH_TIMEOUT_US;
	loop_arm(refresh->timer, REFRESH_STEP_US);
}

static int on_refresh(sd_event_source *, uint64_t, void *context)
{
	struct control *control = context;

	if (control->refresh.resting) {
		control->refresh.resting = false;
		control->refresh.active = false;
		begin_refresh(control);
		return 0;
	}
	if (!is_fresh(control) && loop_now_us(control->options.event) < control->refresh.deadline_us) {
		loop_arm(control->refresh.timer, REFRESH_STEP_US);
		return 0;
	}
	answer_all(control);
	control->refresh.resting = true;
	loop_arm(control->refresh.timer, REFRESH_REST_US);
	return 0;
}

int status_request(struct session *session)
{
	session->wants_status = true;
	if (!session->control->refresh.active)
		begin_refresh(session->control);
	return 0;
}

int status_init(struct control *control)
{
	return loop_add_timer(control->options.event, &control->refresh.timer, on_refresh, control);
}

void status_deinit(struct control *control)
{
	sd_event_source_disable_unref(control->refresh.timer);
	control->refresh = (struct status_refresh){0};
}
