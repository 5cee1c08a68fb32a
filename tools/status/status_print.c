// SPDX-License-Identifier: Apache-2.0
/* Prints streams, channels, clients and interfaces, and the sums that account for every packet. */
#include "tools/status/status_view.h"

#include "tools/common/report.h"

#include <ibvcap/ibvcap.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEVICE_TEXT_BYTES 80

static void print_sum_line(struct counters counters, const char *const *sum)
{
	counters_print_sum(counters, sum);
	putchar('\n');
}

static bool is_in_sum(const char *label, const char *const *sum)
{
	while (*sum && strcmp(label, *sum) != 0)
		sum++;
	return *sum;
}

/* The sum in a line, and the other counters that are not 0 in a second one. */
static void print_all_counters(struct counters counters)
{
	unsigned n_printed = 0;

	print_sum_line(counters, status_view_sums[counters.of]);
	for (uint32_t i = 0; i < counters.n; i++) {
		if (counters.at[i].value == 0 || is_in_sum(counters.at[i].label, status_view_sums[counters.of]))
			continue;
		printf("  %s %" PRIu64, counters.at[i].label, counters.at[i].value);
		n_printed++;
	}
	if (n_printed)
		putchar('\n');
}

static void print_age(const char *what, const char *device, uint32_t age_ms)
{
	if (age_ms > STATUS_VIEW_OLD_MS)
		printf("  %s are %u s old: device %s does not answer\n", what, age_ms / 1000, device);
}

/* " mlx5_0" beside the interface's name; "" if the device is the interface itself. Returns text. */
static const char *device_text(const char *device, const char *interface, char text[DEVICE_TEXT_BYTES])
{
	bool is_other = device[0] && strcmp(device, interface) != 0;

	snprintf(text, DEVICE_TEXT_BYTES, "%s%s", is_other ? " " : "", is_other ? device : "");
	return text;
}

/* The queue's own numbers. A line of the stream before has the sums. */
static void print_queue_status(const struct ibvcap_status_stream *stream)
{
	struct stream_sum own;
	struct counters counters = stream_sum_queue(stream, &own);

	printf("  queue %u:", stream->queue);
	for (uint32_t i = 0; i < counters.n; i++)
		if (counters.at[i].value || strcmp(counters.at[i].label, "published") == 0)
			printf(" %s %" PRIu64, counters.at[i].label, counters.at[i].value);
	putchar('\n');
}

static void print_stream_line(const struct status_view *view, const struct ibvcap_status_stream *stream)
{
	char device[DEVICE_TEXT_BYTES], clock_text[STATUS_CLOCK_BYTES];
	struct status_clock clock;
	struct stream_sum sum;

	printf("stream %s: %s on %s%s, %s", stream->name, stream->state, stream->interface,
	       device_text(stream->device, stream->interface, device), stream->backend);
	if (stream->n_blocks)
		printf("; %u B a payload, %u blocks of %u slots, pages of %u KiB", stream->slot_bytes, stream->n_blocks,
		       stream->slots_per_block, stream->page_bytes / 1024);
	if (stream->n_queues > 1)
		printf("; %u queues", stream->n_queues);
	STATUS_CLOCK_COPY(&clock, stream);
	putchar('\n');
	if (stream->n_blocks)
		printf("  %s\n", status_clock_text(&clock, clock_text));
	if (stream->offloads[0])
		printf("  %s\n", stream->offloads);
	if (stream->closed_why[0])
		printf("  not open: %s\n", stream->closed_why);
	flow_view_print(view, stream);
	print_all_counters(stream_sum_of(view, stream, &sum));
	print_age("matched and no_buffer", stream->device, stream->reading_age_ms);
}

/* Counts of its tracker: the sums, then the others that are not 0. */
static void print_tracked(struct counters counters)
{
	static const char *const sent[] = {"sent", "once", "lost", NULL};
	static const char *const arrived[] = {"arrived", "once", "repeated", NULL};
	static const char *const lost[] = {
		"lost", "lost_before_card", "lost_in_card", "lost_after_card", "lost_unread", "lost_in_absence", NULL};
	static const char *const rest[] = {"reordered", "late", "stray", "restarted", "unread", "untracked", NULL};
	bool has_rest = false;

	printf("  numbers of %" PRIu64 " sources:", counters_value(counters, "sources"));
	counters_print_sum(counters, sent);
	putchar(';');
	print_sum_line(counters, arrived);
	if (counters_value(counters, "lost") && counters_have(counters, "lost_before_card"))
		print_sum_line(counters, lost);
	for (const char *const *label = rest; *label; label++) {
		uint64_t value = counters_value(counters, *label);

		if (value)
			printf("  %s %" PRIu64, *label, value);
		has_rest |= value != 0;
	}
	if (has_rest)
		putchar('\n');
}

static bool has_queues(const struct status_view *view, const char *stream)
{
	for (int i = 0; i < view->n_streams; i++)
		if (strcmp(view->streams[i].name, stream) == 0)
			return view->streams[i].n_queues > 1;
	return false;
}

static void print_consumer_status(const struct status_view *view, const struct ibvcap_status_consumer *consumer)
{
	uint64_t gone = counters_value(COUNTERS_OF(consumer), "gone");
	char process[USER_PROCESS_BYTES];

	user_process(consumer->pid, consumer->uid, process);
	if (consumer->policy == IBVCAP_POLICY_TAP) {
		printf("tap of %s: %s; it counts for itself\n", consumer->stream, process);
		return;
	}
	printf("consumer of %s", consumer->stream);
	if (has_queues(view, consumer->stream))
		printf(" queue %u", consumer->queue);
	printf(": %s, %s, %" PRIu64 " of %u blocks under lease", process,
	       status_word(status_policy_words, consumer->policy),
	       counters_value(COUNTERS_OF(consumer), "leased_blocks"), consumer->lease_blocks);
	printf("%s%s\n", consumer->group[0] ? ", group " : "", consumer->group);
	print_sum_line(COUNTERS_OF(consumer), status_view_sums[STATUS_CONSUMER]);
	if (gone)
		printf("  gone %" PRIu64 " of lag: their blocks were used again, so this consumer will skip them\n",
		       gone);
	if (counters_have(COUNTERS_OF(consumer), "sources"))
		print_tracked(COUNTERS_OF(consumer));
}

static void print_channel_status(const struct ibvcap_status_channel *channel)
{
	char device[DEVICE_TEXT_BYTES];

	printf("channel %s: %s on %s%s, %s; %u B a payload at most, arenas of %u slots, pages of %u KiB; ",
	       channel->name, channel->state, channel->interface,
	       device_text(channel->device, channel->interface, device), channel->backend, channel->slot_bytes,
	       channel->arena_slots, channel->page_bytes / 1024);
	if (channel->rate_bps)
		printf("%" PRIu64 " Mb/s at most; ", channel->rate_bps / 1000000);
	printf("%u destinations", channel->n_destinations);
	if (channel->n_unresolved)
		printf(", %u of them without a next hop", channel->n_unresolved);
	putchar('\n');
	if (channel->closed_why[0])
		printf("  not open: %s\n", channel->closed_why);
	if (channel->send_time_why[0])
		printf("  send times are kept by the %s: %s\n", channel->send_time, channel->send_time_why);
	print_all_counters(COUNTERS_OF(channel));
}

static void print_sender_status(const struct ibvcap_status_sender *sender)
{
	char process[USER_PROCESS_BYTES];

	printf("sender on %s: %s\n", sender->channel, user_process(sender->pid, sender->uid, process));
	print_all_counters(COUNTERS_OF(sender));
}

static void print_interface_status(const struct ibvcap_status_interface *interface)
{
	char device[DEVICE_TEXT_BYTES];

	printf("interface %s%s:", interface->interface, device_text(interface->device, interface->interface, device));
	for (uint32_t i = 0; i < interface->n_counters; i++)
		printf(" %s %" PRIu64, interface->counters[i].label, interface->counters[i].value);
	putchar('\n');
	if (interface->backend_why[0])
		printf("  backend %s: %s\n", interface->backend, interface->backend_why);
	if (interface->backend_how[0])
		printf("  %s\n", interface->backend_how);
	if (interface->backend_better[0])
		printf("  %s%s%s\n", interface->backend_better, interface->backend_command[0] ? ": " : "",
		       interface->backend_command);
	print_age("these counters", interface->device, interface->reading_age_ms);
}

void status_print(const struct status_view *view)
{
	printf("ibvcapd %s, process %d\n", view->daemon.version, (int)view->daemon.pid);
	for (int i = 0; i < view->n_streams; i++) {
		if (view->streams[i].queue == 0)
			print_stream_line(view, &view->streams[i]);
		if (view->streams[i].n_queues > 1)
			print_queue_status(&view->streams[i]);
	}
	for (int i = 0; i < view->n_consumers; i++)
		print_consumer_status(view, &view->consumers[i]);
	for (int i = 0; i < view->n_channels; i++)
		print_channel_status(&view->channels[i]);
	for (int i = 0; i < view->n_senders; i++)
		print_sender_status(&view->senders[i]);
	for (int i = 0; i < view->n_interfaces; i++)
		print_interface_status(&view->interfaces[i]);
	if (view->n_streams + view->n_channels == 0)
		puts("no stream and no channel that this user may use: their keys users and groups say who may "
		     "(ibvcapd.conf(5)); root sees all");
}
