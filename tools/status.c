// SPDX-License-Identifier: Apache-2.0
/* ibvcap status: the daemon's streams, channels, clients and interfaces, and the sums that account for every packet. */
#include "tools/ibvcap.h"

#include <getopt.h>
#include <ibvcap/ibvcap.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define SCHEMA_VERSION 1

static const char usage[] =
	"usage: ibvcap status [--socket PATH] [--json]\n"
	"Show what ibvcapd captures and sends, and where every packet went.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -j, --json         print JSON\n"
	"  -h, --help         print this\n";

static const char *clock_name(enum ibvcap_clock_source source)
{
	switch (source) {
	case IBVCAP_CLOCK_SOFTWARE:
		return "software";
	case IBVCAP_CLOCK_DEVICE:
		return "device";
	case IBVCAP_CLOCK_NONE:
		break;
	}
	return "none";
}

static const char *policy_name(uint32_t policy)
{
	switch (policy) {
	case IBVCAP_POLICY_LOSSY:
		return "lossy";
	case IBVCAP_POLICY_LOSSLESS:
		return "lossless";
	case IBVCAP_POLICY_TAP:
		return "tap";
	}
	return "unknown";
}

/* ---- JSON: keys are the counters' labels --------------------------------------------------------- */

static json_t *add_counters(json_t *object, const struct ibvcap_counter *counters, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		json_object_set_new(object, counters[i].label, json_integer((json_int_t)counters[i].value));
	return object;
}

/* All 64 bits of it: more than a JSON reader's integer may hold. */
static void add_epoch(json_t *object, uint64_t epoch)
{
	char text[24];

	snprintf(text, sizeof(text), "%016" PRIx64, epoch);
	json_object_set_new(object, "epoch", json_string(text));
}

static json_t *stream_to_json(const struct ibvcap_stream_status *stream)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", stream->name, "interface", stream->interface,
				   "device", stream->device, "backend", stream->backend, "state", stream->state);

	add_epoch(object, stream->epoch);
	json_object_set_new(object, "queue", json_integer(stream->queue));
	json_object_set_new(object, "slot_bytes", json_integer(stream->slot_bytes));
	json_object_set_new(object, "slots_per_block", json_integer(stream->slots_per_block));
	json_object_set_new(object, "n_blocks", json_integer(stream->n_blocks));
	json_object_set_new(object, "receive_queue_slots", json_integer(stream->receive_queue_slots));
	json_object_set_new(object, "page_bytes", json_integer(stream->page_bytes));
	json_object_set_new(object, "clock_source", json_string(clock_name(stream->clock_source)));
	json_object_set_new(object, "clock_error_ns", json_integer((json_int_t)stream->clock_error_ns));
	json_object_set_new(object, "loss_packets", json_integer((json_int_t)stream->loss_packets));
	json_object_set_new(object, "loss_from_ns", json_integer((json_int_t)stream->loss_from_ns));
	json_object_set_new(object, "loss_to_ns", json_integer((json_int_t)stream->loss_to_ns));
	return add_counters(object, stream->counters, stream->n_counters);
}

static json_t *consumer_to_json(const struct ibvcap_consumer_status_info *consumer)
{
	json_t *object = json_pack("{s:s, s:I, s:s, s:I, s:I}", "stream", consumer->stream, "queue",
				   (json_int_t)consumer->queue, "policy", policy_name(consumer->policy), "pid",
				   (json_int_t)consumer->pid, "uid", (json_int_t)consumer->uid);

	return add_counters(object, consumer->counters, consumer->n_counters);
}

static json_t *channel_to_json(const struct ibvcap_channel_status *channel)
{
	json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:s}", "name", channel->name, "interface", channel->interface,
				   "device", channel->device, "backend", channel->backend, "state", channel->state);

	add_epoch(object, channel->epoch);
	json_object_set_new(object, "rate_bps", json_integer((json_int_t)channel->rate_bps));
	json_object_set_new(object, "burst_bytes", json_integer(channel->burst_bytes));
	json_object_set_new(object, "slot_bytes", json_integer(channel->slot_bytes));
	json_object_set_new(object, "arena_slots", json_integer(channel->arena_slots));
	json_object_set_new(object, "page_bytes", json_integer(channel->page_bytes));
	json_object_set_new(object, "send_queue_slots", json_integer(channel->send_queue_slots));
	json_object_set_new(object, "n_destinations", json_integer(channel->n_destinations));
	json_object_set_new(object, "n_unresolved", json_integer(channel->n_unresolved));
	json_object_set_new(object, "max_senders", json_integer(channel->max_senders));
	return add_counters(object, channel->counters, channel->n_counters);
}

static json_t *sender_to_json(const struct ibvcap_sender_status *sender)
{
	json_t *object = json_pack("{s:s, s:I, s:I}", "channel", sender->channel, "pid", (json_int_t)sender->pid, "uid",
				   (json_int_t)sender->uid);

	return add_counters(object, sender->counters, sender->n_counters);
}

static json_t *interface_to_json(const struct ibvcap_interface_status *interface)
{
	json_t *object = json_pack("{s:s, s:s}", "interface", interface->interface, "device", interface->device);

	return add_counters(object, interface->counters, interface->n_counters);
}

static void print_json(const struct ibvcap_status *status)
{
	const struct ibvcap_stream_status *streams;
	const struct ibvcap_consumer_status_info *consumers;
	const struct ibvcap_channel_status *channels;
	const struct ibvcap_sender_status *senders;
	const struct ibvcap_interface_status *interfaces;
	int n_streams = ibvcap_status_streams(status, &streams);
	int n_consumers = ibvcap_status_consumers(status, &consumers);
	int n_channels = ibvcap_status_channels(status, &channels);
	int n_senders = ibvcap_status_senders(status, &senders);
	int n_interfaces = ibvcap_status_interfaces(status, &interfaces);
	json_t *parts[5] = { json_array(), json_array(), json_array(), json_array(), json_array() };
	pid_t pid;
	const char *version = ibvcap_status_daemon(status, &pid);

	for (int i = 0; i < n_streams; i++)
		json_array_append_new(parts[0], stream_to_json(&streams[i]));
	for (int i = 0; i < n_consumers; i++)
		json_array_append_new(parts[1], consumer_to_json(&consumers[i]));
	for (int i = 0; i < n_channels; i++)
		json_array_append_new(parts[2], channel_to_json(&channels[i]));
	for (int i = 0; i < n_senders; i++)
		json_array_append_new(parts[3], sender_to_json(&senders[i]));
	for (int i = 0; i < n_interfaces; i++)
		json_array_append_new(parts[4], interface_to_json(&interfaces[i]));
	json_t *all = json_pack("{s:i, s:{s:s, s:I}, s:o, s:o, s:o, s:o, s:o}", "schema_version", SCHEMA_VERSION, "daemon",
				"version", version, "pid", (json_int_t)pid, "streams", parts[0], "consumers", parts[1],
				"channels", parts[2], "senders", parts[3], "interfaces", parts[4]);

	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
}

/* ---- for people ---------------------------------------------------------------------------------- */

static uint64_t value_of(const struct ibvcap_counter *counters, uint32_t n, const char *label)
{
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(counters[i].label, label))
			return counters[i].value;
	return 0;
}

/* "  whole 5 = part 3 + part 2"; the whole is labels[0]. */
static void print_sum(const struct ibvcap_counter *counters, uint32_t n, const char *const *labels, unsigned n_labels)
{
	for (unsigned i = 0; i < n_labels; i++)
		printf("%s%s %" PRIu64, i == 0 ? "  " : i == 1 ? " = " : " + ", labels[i],
		       value_of(counters, n, labels[i]));
	putchar('\n');
}

static const char *const stream_sum[] = { "matched", "published", "no_buffer", "errored", "in_flight" };
static const char *const channel_sum[] = { "submitted", "completed", "errored", "flushed", "late_dropped", "pending" };
static const char *const consumer_sum[] = { "published", "delivered", "skipped", "lag" };
#define N(array) (unsigned)(sizeof(array) / sizeof((array)[0]))

static bool is_in_sum(const char *label, const char *const *sum, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(label, sum[i]))
			return true;
	return false;
}

/* The sum, then what else is not 0. */
static void print_counters(const struct ibvcap_counter *counters, uint32_t n, const char *const *sum, unsigned n_sum)
{
	unsigned n_printed = 0;

	print_sum(counters, n, sum, n_sum);
	for (uint32_t i = 0; i < n; i++) {
		if (counters[i].value == 0 || is_in_sum(counters[i].label, sum, n_sum))
			continue;
		printf("  %s %" PRIu64, counters[i].label, counters[i].value);
		n_printed++;
	}
	if (n_printed)
		putchar('\n');
}

static void print_stream(const struct ibvcap_stream_status *stream)
{
	printf("stream %s, queue %u: %s on %s%s%s, %s; %u B a payload, %u blocks of %u slots, pages of %u KiB; clock: %s",
	       stream->name, stream->queue, stream->state, stream->interface, stream->device[0] ? " " : "", stream->device,
	       stream->backend, stream->slot_bytes, stream->n_blocks, stream->slots_per_block, stream->page_bytes / 1024,
	       clock_name(stream->clock_source));
	if (stream->clock_source != IBVCAP_CLOCK_NONE)
		printf(" (within %" PRIu64 " ns)", stream->clock_error_ns);
	putchar('\n');
	print_counters(stream->counters, stream->n_counters, stream_sum, N(stream_sum));
}

static void print_consumer(const struct ibvcap_consumer_status_info *consumer)
{
	printf("consumer of %s, queue %u: process %d of user %u, %s, %" PRIu64 " blocks under lease\n", consumer->stream,
	       consumer->queue, (int)consumer->pid, (unsigned)consumer->uid, policy_name(consumer->policy),
	       value_of(consumer->counters, consumer->n_counters, "leased_blocks"));
	print_sum(consumer->counters, consumer->n_counters, consumer_sum, N(consumer_sum));
}

static void print_channel(const struct ibvcap_channel_status *channel)
{
	printf("channel %s: %s on %s%s%s, %s; %u B a payload at most, arenas of %u slots, pages of %u KiB; ", channel->name,
	       channel->state, channel->interface, channel->device[0] ? " " : "", channel->device, channel->backend,
	       channel->slot_bytes, channel->arena_slots, channel->page_bytes / 1024);
	if (channel->rate_bps)
		printf("%" PRIu64 " Mb/s at most; ", channel->rate_bps / 1000000);
	printf("%u destinations", channel->n_destinations);
	if (channel->n_unresolved)
		printf(", %u of them without a next hop", channel->n_unresolved);
	putchar('\n');
	print_counters(channel->counters, channel->n_counters, channel_sum, N(channel_sum));
}

static void print_sender(const struct ibvcap_sender_status *sender)
{
	printf("sender on %s: process %d of user %u\n", sender->channel, (int)sender->pid, (unsigned)sender->uid);
	print_counters(sender->counters, sender->n_counters, channel_sum, N(channel_sum));
}

static void print_interface(const struct ibvcap_interface_status *interface)
{
	printf("interface %s%s%s:", interface->interface, interface->device[0] ? " " : "", interface->device);
	for (uint32_t i = 0; i < interface->n_counters; i++)
		printf(" %s %" PRIu64, interface->counters[i].label, interface->counters[i].value);
	putchar('\n');
}

static void print_text(const struct ibvcap_status *status)
{
	const struct ibvcap_stream_status *streams;
	const struct ibvcap_consumer_status_info *consumers;
	const struct ibvcap_channel_status *channels;
	const struct ibvcap_sender_status *senders;
	const struct ibvcap_interface_status *interfaces;
	int n_streams = ibvcap_status_streams(status, &streams);
	int n_consumers = ibvcap_status_consumers(status, &consumers);
	int n_channels = ibvcap_status_channels(status, &channels);
	int n_senders = ibvcap_status_senders(status, &senders);
	int n_interfaces = ibvcap_status_interfaces(status, &interfaces);
	pid_t pid;
	const char *version = ibvcap_status_daemon(status, &pid);

	printf("ibvcapd %s, process %d\n", version, (int)pid);
	for (int i = 0; i < n_streams; i++)
		print_stream(&streams[i]);
	for (int i = 0; i < n_consumers; i++)
		print_consumer(&consumers[i]);
	for (int i = 0; i < n_channels; i++)
		print_channel(&channels[i]);
	for (int i = 0; i < n_senders; i++)
		print_sender(&senders[i]);
	for (int i = 0; i < n_interfaces; i++)
		print_interface(&interfaces[i]);
}

/* ---- the command --------------------------------------------------------------------------------- */

struct arguments {
	const char *socket;
	bool json;
};

/* -1: go on; else the exit code. */
static int parse_arguments(int argc, char **argv, struct arguments *arguments)
{
	static const struct option known[] = {
		{ "socket", required_argument, NULL, 's' },
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "s:jh", known, NULL)) != -1) {
		switch (option) {
		case 's':
			arguments->socket = optarg;
			break;
		case 'j':
			arguments->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EX_OK;
		default:
			fputs(usage, stderr);
			return EX_USAGE;
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "ibvcap status: unexpected argument '%s'\n%s", argv[optind], usage);
	return EX_USAGE;
}

int cmd_status(int argc, char **argv)
{
	struct arguments arguments = { 0 };
	struct ibvcap_status *status;
	int r = parse_arguments(argc, argv, &arguments);

	if (r >= 0)
		return r;
	r = ibvcap_status(arguments.socket, 0, &status);
	if (r < 0) {
		fprintf(stderr, "ibvcap status: %s\n", ibvcap_error_text());
		return exit_code_of(r);
	}
	if (arguments.json)
		print_json(status);
	else
		print_text(status);
	ibvcap_status_free(status);
	return fflush(stdout) == 0 && !ferror(stdout) ? EX_OK : EX_IOERR;
}
