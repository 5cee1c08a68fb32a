// SPDX-License-Identifier: Apache-2.0
/*
 * The log lines about the beginning and the end of a loss of one consumer: packets whose blocks were used again before
 * it acquired them. The consumer itself writes the counts, so it can make these lines say anything, but only about
 * itself.
 */
#include "daemon/base/log.h"
#include "daemon/control/id_name.h"
#include "daemon/control/rx_endpoint.h"

static void log_skips(const struct rx_session *rx, enum loss_change change)
{
	const struct rx_skips *skips = &rx->skips;
	const struct id_text user = id_of_user(rx->client.uid);
	const char *stream = rx->client.endpoint->name;
	const unsigned long long lost = skips->seen - skips->before;
	const struct log_about about = {.event = change == LOSS_BEGINS ? LOG_EVENT_CONSUMER_LOSES
	                                                               : LOG_EVENT_CONSUMER_LOSS_ENDED,
	                                .stream = stream,
	                                .peer = "CONSUMER",
	                                .pid = rx->client.pid,
	                                .uid = rx->client.uid,
	                                .counters = &(struct log_counter){"skipped", skips->seen},
	                                .n_counters = 1};

	if (change == LOSS_BEGINS)
		log_message(
			LOG_NOTICE, &about,
			"stream '%s': consumer process %d of user %s is too slow and loses packets: %llu so far; what "
			"helps: ibvcap why %s",
			stream, (int)rx->client.pid, user.text, lost, stream);
	else
		log_message(LOG_NOTICE, &about,
		            "stream '%s': consumer process %d of user %s has lost no packet for %u s; in the %llu s "
		            "before: %llu",
		            stream, (int)rx->client.pid, user.text, (unsigned)(LOSS_END_NS / TIME_SECOND_NS),
		            (unsigned long long)loss_span_seconds(&skips->span), lost);
}

static void look_at_skips(const struct rx_endpoint *endpoint, struct rx_session *rx, uint64_t now_ns)
{
	uint64_t counters[CONSUMER_COUNTER_N], lost;
	struct rx_skips *skips = &rx->skips;
	enum loss_change change;

	status_read_consumer(endpoint, rx, counters);
	lost = counters[CONSUMER_COUNTER_SKIPPED] + counters[CONSUMER_COUNTER_GONE];
	if (!skips->span.goes_on)
		skips->before = skips->seen;
	change = loss_span_look(&skips->span, lost > skips->seen, now_ns);
	skips->seen = lost;
	if (change != LOSS_UNCHANGED)
		log_skips(rx, change);
}

void control_tell_skips(const struct control_stream *stream, uint64_t now_ns)
{
	struct endpoint_client *client;

	for (uint32_t i = 0; stream->stream && i < stream->stream->n_queues; i++)
		LIST_FOREACH (client, &stream->stream->queues[i]->endpoint.clients, link)
			if (client->served)
				look_at_skips(stream->stream->queues[i], (struct rx_session *)client, now_ns);
}
