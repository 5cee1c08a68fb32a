// SPDX-License-Identifier: Apache-2.0
/* The view of `ibvcap top` as lines of text, at most 79 columns wide. */
#include "tools/status/top.h"

#include "tools/common/report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CELL_BYTES 32

struct printer {
	const struct top_view *view;
	top_put *put;
	void *context;
};

static void print_line(const struct printer *printer, enum top_style style, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void print_line(const struct printer *printer, enum top_style style, const char *format, ...)
{
	char line[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	printer->put(printer->context, style, line);
}

/* ---- cells: "-" stands for a value that is not known ---------------------------------------------- */

struct cell {
	char text[CELL_BYTES];
};

static struct cell number_cell(double value, int decimals)
{
	struct cell cell = {"-"};

	if (value >= 0)
		snprintf(cell.text, sizeof(cell.text), "%.*f", decimals, value);
	return cell;
}

static struct cell gigabits_cell(double bytes_per_s)
{
	double gigabits = bytes_per_s * 8 / 1e9;

	return number_cell(gigabits, gigabits < 100 ? 3 : 1);
}

static struct cell microseconds_cell(double ns)
{
	return number_cell(ns / 1e3, ns < 1e6 ? 1 : 0);
}

static struct cell percent_cell(unsigned value)
{
	struct cell cell;

	snprintf(cell.text, sizeof(cell.text), "%u%%", value);
	return cell;
}

static double label_rate(const struct printer *printer, struct counters now, struct counters before, const char *label)
{
	const char *const labels[] = {label, NULL};

	return top_rate(printer->view, now, before, labels);
}

/* Print "  12 no_buffer (+3/s), 4 errored": the counters that are not 0. */
static void print_causes(const struct printer *printer, struct counters now, struct counters before,
                         const char *const *labels)
{
	char line[400] = "";
	size_t used = 0;
	bool growing = false;

	for (; *labels; labels++) {
		uint64_t value = counters_value(now, *labels);
		double per_s = label_rate(printer, now, before, *labels);

		if (value == 0)
			continue;
		used += (size_t)snprintf(line + used, sizeof(line) - used, "%s%" PRIu64 " %s", used ? ", " : "", value,
		                         *labels);
		if (per_s > 0 && used < sizeof(line))
			used += (size_t)snprintf(line + used, sizeof(line) - used, " (+%.*f/s)", per_s < 10, per_s);
		growing |= per_s > 0;
		if (used >= sizeof(line))
			break;
	}
	if (used)
		print_line(printer, growing ? TOP_TROUBLE : TOP_PLAIN, "  %s", line);
}

/* ---- streams and their consumers ------------------------------------------------------------------- */

#define NAME_BYTES  21 /* width of the first column, which cuts off longer names of users */
#define STREAM_LINE "%-20s %-10s %10s %7s %9s %5s %5s %6s"

static const char *const stream_loss[] = {"no_buffer", "errored", NULL};
static const char *const queue_loss[] = {"errored", NULL}; /* of several queues */
static const char *const stream_causes[] = {"no_buffer",    "errored",      "truncated", "fragments",
                                            "bad_checksum", "queue_resets", NULL};
/* Skipped packets were counted as gone before, so the sum only grows. */
static const char *const consumer_loss[] = {"skipped", "gone", NULL};

/* By the packets' own numbers, from before the card on. */
static const char *const consumer_tracked[] = {
	"lost_before_card", "lost_in_card", "lost_after_card", "lost_unread", "lost_in_absence", "late", NULL};
/* If a packet takes several numbers. */
static const char *const consumer_lost[] = {"lost", "late", NULL};

static void print_consumer_row(const struct printer *printer, const struct ibvcap_status_stream *stream,
                               const struct ibvcap_status_consumer *consumer)
{
	struct counters now = COUNTERS_OF(consumer), before = top_before(printer->view, STATUS_CONSUMER, consumer);
	double losses = top_rate(printer->view, now, before, consumer_loss);
	bool is_tap = consumer->policy == IBVCAP_POLICY_TAP;
	uint64_t lag = counters_value(now, "lag"), gone = counters_value(now, "gone");
	enum top_style style = losses > 0 ? TOP_TROUBLE : TOP_PLAIN;
	char name[NAME_BYTES], user[USER_NAME_BYTES];

	snprintf(name, sizeof(name), "  %d %s", (int)consumer->pid, user_name_or_number(consumer->uid, user));
	print_line(printer, style, STREAM_LINE, name, status_word(status_policy_words, consumer->policy),
	           number_cell(label_rate(printer, now, before, "delivered"), 0).text, "",
	           number_cell(is_tap ? -1 : (double)lag, 0).text,
	           is_tap ? "-" : percent_cell(top_fill_percent(stream, lag)).text, "", number_cell(losses, 0).text);
	if (counters_value(now, "skipped"))
		print_line(printer, style, "    %" PRIu64 " skipped", counters_value(now, "skipped"));
	if (gone)
		print_line(printer, style, "    %" PRIu64 " of its lag are gone: it will skip them", gone);
	print_causes(printer, now, before, counters_have(now, "lost_before_card") ? consumer_tracked : consumer_lost);
}

/* The row of sums of a stream with several queues, before the queues' rows. */
static void print_sum_row(const struct printer *printer, const struct ibvcap_status_stream *stream)
{
	struct stream_sum sum, sum_before;
	struct counters now = stream_sum_of(&printer->view->now, stream, &sum);
	struct counters before = top_sum_before(printer->view, stream, now, &sum_before);
	double losses = top_rate(printer->view, now, before, stream_loss);

	print_line(printer, losses > 0 ? TOP_TROUBLE : TOP_PLAIN, STREAM_LINE, stream->name, stream->state,
	           number_cell(label_rate(printer, now, before, "published"), 0).text,
	           gigabits_cell(label_rate(printer, now, before, "published_bytes")).text, "", "", "",
	           number_cell(losses, 0).text);
	print_causes(printer, now, before, stream_causes);
}

static void print_queue_row(const struct printer *printer, const struct ibvcap_status_stream *stream)
{
	const struct status_view *status = &printer->view->now;
	struct stream_sum own;
	bool is_one = stream->n_queues <= 1;
	struct counters now = is_one ? COUNTERS_OF(stream) : stream_sum_queue(stream, &own);
	struct counters before = top_before(printer->view, STATUS_STREAM, stream);
	uint64_t lag = top_stream_lag(status, stream);
	uint64_t most = counters_value(now, "fill_max");
	double losses = top_rate(printer->view, now, before, is_one ? stream_loss : queue_loss);
	double published = label_rate(printer, now, before, "published");
	double rows = (double)stream->history_blocks * stream->slots_per_block;
	char name[IBVCAP_STREAM_NAME_MAX + 16];

	snprintf(name, sizeof(name), "%s %u", stream->name, stream->queue);
	print_line(printer, losses > 0 ? TOP_TROUBLE : TOP_PLAIN, STREAM_LINE, name, stream->state,
	           number_cell(published, 0).text,
	           gigabits_cell(label_rate(printer, now, before, "published_bytes")).text,
	           number_cell((double)lag, 0).text, percent_cell(top_fill_percent(stream, lag)).text,
	           percent_cell(top_fill_percent(stream, lag > most ? lag : most)).text, number_cell(losses, 0).text);
	/* For how long a consumer may pause before packets are gone: until new ones have taken the history's place. */
	if (published > 0)
		print_line(printer, TOP_PLAIN, "  history: %s s at this rate",
		           number_cell(rows / published, rows / published < 10 ? 2 : 0).text);
	print_causes(printer, now, before, stream_causes);
	for (int i = 0; i < status->n_consumers; i++)
		if (strcmp(status->consumers[i].stream, stream->name) == 0 &&
		    status->consumers[i].queue == stream->queue)
			print_consumer_row(printer, stream, &status->consumers[i]);
}

/* ---- channels and their senders -------------------------------------------------------------------- */

#define CHANNEL_LINE "%-20s %-10s %9s %6s %7s %7s %7s %6s"

static const char *const channel_loss[] = {"errored", "flushed", "late_dropped", NULL};
static const char *const channel_causes[] = {"errored",      "flushed", "late_dropped", "late", "bad_senders",
                                             "queue_resets", NULL};

static void print_tx_row(const struct printer *printer, const char *name, const char *state, struct counters now,
                         struct counters before)
{
	double losses = top_rate(printer->view, now, before, channel_loss);
	uint64_t timed_max = counters_value(now, "timed_lateness_max_ns");
	uint64_t paced_max = counters_value(now, "paced_lateness_max_ns");

	print_line(printer, losses > 0 ? TOP_TROUBLE : TOP_PLAIN, CHANNEL_LINE, name, state,
	           number_cell(label_rate(printer, now, before, "completed"), 0).text,
	           gigabits_cell(label_rate(printer, now, before, "wire_bytes")).text,
	           number_cell((double)counters_value(now, "pending"), 0).text,
	           microseconds_cell(top_lateness_ns(now, before)).text,
	           microseconds_cell((double)(timed_max > paced_max ? timed_max : paced_max)).text,
	           number_cell(losses, 0).text);
	print_causes(printer, now, before, channel_causes);
	if (counters_value(now, "fragmented"))
		print_line(printer, TOP_PLAIN,
		           "  %" PRIu64 " fragmented: longer than the MTU, sent as %" PRIu64 " fragments",
		           counters_value(now, "fragmented"), counters_value(now, "fragments"));
}

static void print_channel_row(const struct printer *printer, const struct ibvcap_status_channel *channel)
{
	const struct status_view *status = &printer->view->now;

	print_tx_row(printer, channel->name, channel->state, COUNTERS_OF(channel),
	             top_before(printer->view, STATUS_CHANNEL, channel));
	if (channel->n_unresolved)
		print_line(printer, TOP_TROUBLE, "  %u of %u destinations without a next hop", channel->n_unresolved,
		           channel->n_destinations);
	if (channel->send_time_why[0])
		print_line(printer, TOP_PLAIN, "  send times are kept by the %s: %s", channel->send_time,
		           channel->send_time_why);
	for (int i = 0; i < status->n_senders; i++) {
		const struct ibvcap_status_sender *sender = &status->senders[i];
		char name[NAME_BYTES], user[USER_NAME_BYTES];

		if (strcmp(sender->channel, channel->name) != 0)
			continue;
		snprintf(name, sizeof(name), "  %d %s", (int)sender->pid, user_name_or_number(sender->uid, user));
		print_tx_row(printer, name, "", COUNTERS_OF(sender), top_before(printer->view, STATUS_SENDER, sender));
	}
}

/* ---- all ------------------------------------------------------------------------------------------ */

static void print_interface_row(const struct printer *printer, const struct ibvcap_status_interface *interface)
{
	static const char *const causes[] = {"out_of_buffer", "port_discards",   "card_dropped",
	                                     "damaged",       "backlog_dropped", "kernel_dropped",
	                                     "peer_dropped",  "down_dropped",    NULL};
	struct counters now = COUNTERS_OF(interface), before = top_before(printer->view, STATUS_INTERFACE, interface);

	bool has_other_name = strcmp(interface->interface, interface->device) != 0;

	print_line(printer, TOP_PLAIN, "%s%s%s", interface->interface, has_other_name ? " " : "",
	           has_other_name ? interface->device : "");
	print_causes(printer, now, before, causes);
}

void top_print(const struct top_view *view, top_put *put, void *context)
{
	const struct printer printer = {view, put, context};
	const struct status_view *now = &view->now;

	print_line(&printer, TOP_PLAIN, "ibvcapd %s, process %d, over %s s", now->daemon.version, (int)now->daemon.pid,
	           number_cell(view->interval_ns ? (double)view->interval_ns / 1e9 : -1, 1).text);
	if (now->n_streams)
		print_line(&printer, TOP_HEADING, STREAM_LINE, "STREAM, QUEUE", "", "PACKETS/S", "Gb/s", "LAG", "FILL",
		           "MAX", "LOST/S");
	for (int i = 0; i < now->n_streams; i++) {
		if (now->streams[i].n_queues > 1 && now->streams[i].queue == 0)
			print_sum_row(&printer, &now->streams[i]);
		print_queue_row(&printer, &now->streams[i]);
	}
	if (now->n_channels)
		print_line(&printer, TOP_HEADING, CHANNEL_LINE, "CHANNEL", "", "PACKETS/S", "Gb/s", "PENDING",
		           "LATE/us", "MAX/us", "LOST/S");
	for (int i = 0; i < now->n_channels; i++)
		print_channel_row(&printer, &now->channels[i]);
	if (now->n_interfaces)
		print_line(&printer, TOP_HEADING, "%-23s", "INTERFACE");
	for (int i = 0; i < now->n_interfaces; i++)
		print_interface_row(&printer, &now->interfaces[i]);
}
