// SPDX-License-Identifier: Apache-2.0
/* Passes the readings of a stream's flow counters to its workers, and looks for what they have noted of them. */
#include "daemon/base/loop.h"
#include "daemon/control/server.h"

/* The workers have settled a reading some ms after they got it. They are looked at soon, then less and less often. */
#define LOOK_US_MIN UINT64_C(3000)
#define LOOK_US_MAX UINT64_C(50000)

bool rx_readings_mail(struct rx_endpoint *rx_endpoint)
{
	const struct control_stream *stream = rx_endpoint->stream;
	const struct mail mail = {.type = MAIL_MATCHED,
	                          .at_ns = stream->matched->at_utc_ns,
	                          .matched = stream->matched->value,
	                          .read_ns = stream->matched->at_ns};

	if (!rx_endpoint->is_matched_mailed)
		rx_endpoint->is_matched_mailed = mailbox_send(rx_endpoint->queue->inbox, &mail) == 0;
	return rx_endpoint->is_matched_mailed;
}

static void rx_readings_look_soon(struct control *control)
{
	control->look_us = LOOK_US_MIN;
	loop_arm(control->look, control->look_us);
}

void rx_readings_note_interface(const struct control_stream *stream)
{
	const struct reading *lost = stream->interface_lost;

	rx_losses_note_interface(stream->losses, lost->value, lost->at_ns, lost->at_utc_ns,
	                         *stream->interface_uncounted);
}

void control_note_interface(const struct control *control, const struct reading *lost)
{
	const struct rx_stream *stream;

	TAILQ_FOREACH (stream, &control->rx_streams, link)
		if (stream->known->interface_lost == lost)
			rx_readings_note_interface(stream->known);
}

/*
 * All queues of the stream share the reading. If a mailbox is full, the next reading is mailed, which is newer. No mail
 * if the ledger has all that is to be known of the reading: the workers of a stream at rest may sleep.
 */
void rx_readings_take(void *context)
{
	struct rx_stream *stream = context;
	const struct reading *matched = stream->known->matched;
	const struct losses_reading reading = {
		.matched = matched->value, .at_ns = matched->at_ns, .utc_ns = matched->at_utc_ns};
	bool is_known;

	if (matched->result < 0)
		return;
	is_known = rx_losses_read(stream->known->losses, &reading);
	for (uint32_t i = 0; i < stream->n_queues; i++) {
		stream->queues[i]->is_matched_mailed = is_known;
		if (!stream->queues[i]->endpoint.ended)
			rx_readings_mail(stream->queues[i]);
	}
	if (!is_known)
		rx_readings_look_soon(stream->control);
}

/*
 * The last entry of the ledger comes when the workers of all queues have ended. Their rings close together behind it,
 * so that a reader of a closed ring finds all losses. A ring whose queue has failed closes at once.
 */
void rx_readings_end(struct rx_endpoint *rx_endpoint)
{
	const struct rx_stream *stream = rx_endpoint->stream->stream;

	rx_losses_update(rx_endpoint->stream->losses);
	if (rx_endpoint->has_failed)
		rx_ring_close(rx_endpoint->queue->ring, IBVCAP_RING_END_FAILED);
	for (uint32_t i = 0; i < stream->n_queues && !rx_stream_runs(stream); i++)
		if (!stream->queues[i]->has_failed)
			rx_ring_close(stream->queues[i]->queue->ring, IBVCAP_RING_END_STOPPED);
}

static int on_look(sd_event_source *source, uint64_t, void *context)
{
	struct control *control = context;
	const struct rx_stream *stream;
	bool is_waiting = false;

	TAILQ_FOREACH (stream, &control->rx_streams, link) {
		if (!rx_stream_runs(stream) || !rx_losses_is_waiting(stream->known->losses))
			continue;
		rx_losses_update(stream->known->losses);
		is_waiting |= rx_losses_is_waiting(stream->known->losses);
	}
	control->look_us *= 2;
	if (is_waiting && control->look_us <= LOOK_US_MAX)
		loop_arm(source, control->look_us);
	return 0;
}

int rx_readings_init(struct control *control)
{
	return loop_add_timer(control->options.event, &control->look, on_look, control);
}
