// SPDX-License-Identifier: Apache-2.0
/* ibvcap status: the daemon's streams, channels, clients and interfaces, and the sums that account for every packet. */
#include "tools/ibvcap/ibvcap.h"
#include "tools/ibvcap/status_view.h"

#include <getopt.h>
#include <ibvcap/ibvcap.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap status [--socket PATH] [--json]\n"
	"Show what ibvcapd captures and sends, and where every packet went.\n"
	"\n"
	"  -s, --socket PATH  the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -j, --json         print JSON\n"
	"  -h, --help         print this\n";

/* "  whole 5 = part 3 + part 2"; the whole is labels[0]. */
static void print_sum(struct counters counters, const char *const *labels, unsigned n_labels)
{
	for (unsigned i = 0; i < n_labels; i++)
		printf("%s%s %" PRIu64,
		       i == 0   ? "  "
		       : i == 1 ? " = "
		                : " + ",
		       labels[i], counters_value(counters, labels[i]));
	putchar('\n');
}

static const char *const stream_sum[] = {"matched", "published", "no_buffer", "errored", "in_flight"};
static const char *const channel_sum[] = {"submitted", "completed", "errored", "flushed", "late_dropped", "pending"};
static const char *const consumer_sum[] = {"published", "delivered", "skipped", "lag"};
#define N(array) (unsigned)(sizeof(array) / sizeof((array)[0]))

static bool is_in_sum(const char *label, const char *const *sum, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(label, sum[i]))
			return true;
	return false;
}

/* The sum, then what else is not 0. */
static void print_counters(struct counters counters, const char *const *sum, unsigned n_sum)
{
	unsigned n_printed = 0;

	print_sum(counters, sum, n_sum);
	for (uint32_t i = 0; i < counters.n; i++) {
		if (counters.at[i].value == 0 || is_in_sum(counters.at[i].label, sum, n_sum))
			continue;
		printf("  %s %" PRIu64, counters.at[i].label, counters.at[i].value);
		n_printed++;
	}
	if (n_printed)
		putchar('\n');
}

static void print_stream(const struct ibvcap_status_stream *stream)
{
	printf("stream %s, queue %u: %s on %s%s%s, %s; %u B a payload, %u blocks of %u slots, pages of %u KiB; clock: "
	       "%s",
	       stream->name, stream->queue, stream->state, stream->interface, stream->device[0] ? " " : "",
	       stream->device, stream->backend, stream->slot_bytes, stream->n_blocks, stream->slots_per_block,
	       stream->page_bytes / 1024, status_view_clock_name(stream->clock_source));
	if (stream->clock_source != IBVCAP_CLOCK_SOURCE_NONE)
		printf(" (within %" PRIu64 " ns)", stream->clock_error_ns);
	putchar('\n');
	print_counters(COUNTERS_OF(stream), stream_sum, N(stream_sum));
}

static void print_consumer(const struct ibvcap_status_consumer *consumer)
{
	printf("consumer of %s, queue %u: process %d of user %u, %s, %" PRIu64 " blocks under lease\n",
	       consumer->stream, consumer->queue, (int)consumer->pid, (unsigned)consumer->uid,
	       status_view_policy_name(consumer->policy), counters_value(COUNTERS_OF(consumer), "leased_blocks"));
	print_sum(COUNTERS_OF(consumer), consumer_sum, N(consumer_sum));
}

static void print_channel(const struct ibvcap_status_channel *channel)
{
	printf("channel %s: %s on %s%s%s, %s; %u B a payload at most, arenas of %u slots, pages of %u KiB; ",
	       channel->name, channel->state, channel->interface, channel->device[0] ? " " : "", channel->device,
	       channel->backend, channel->slot_bytes, channel->arena_slots, channel->page_bytes / 1024);
	if (channel->rate_bps)
		printf("%" PRIu64 " Mb/s at most; ", channel->rate_bps / 1000000);
	printf("%u destinations", channel->n_destinations);
	if (channel->n_unresolved)
		printf(", %u of them without a next hop", channel->n_unresolved);
	putchar('\n');
	print_counters(COUNTERS_OF(channel), channel_sum, N(channel_sum));
}

static void print_sender(const struct ibvcap_status_sender *sender)
{
	printf("sender on %s: process %d of user %u\n", sender->channel, (int)sender->pid, (unsigned)sender->uid);
	print_counters(COUNTERS_OF(sender), channel_sum, N(channel_sum));
}

static void print_interface(const struct ibvcap_status_interface *interface)
{
	printf("interface %s%s%s:", interface->interface, interface->device[0] ? " " : "", interface->device);
	for (uint32_t i = 0; i < interface->n_counters; i++)
		printf(" %s %" PRIu64, interface->counters[i].label, interface->counters[i].value);
	putchar('\n');
}

static void print_text(const struct status_view *view)
{
	printf("ibvcapd %s, process %d\n", view->version, (int)view->pid);
	for (int i = 0; i < view->n_streams; i++)
		print_stream(&view->streams[i]);
	for (int i = 0; i < view->n_consumers; i++)
		print_consumer(&view->consumers[i]);
	for (int i = 0; i < view->n_channels; i++)
		print_channel(&view->channels[i]);
	for (int i = 0; i < view->n_senders; i++)
		print_sender(&view->senders[i]);
	for (int i = 0; i < view->n_interfaces; i++)
		print_interface(&view->interfaces[i]);
}

static void print_json(const struct status_view *view)
{
	json_t *all = status_view_to_json(view);

	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
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
		{"socket", required_argument, NULL, 's'},
		{"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'},
		{0},
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
		default:
			return say_usage(option, usage);
		}
	}
	if (optind == argc)
		return -1;
	fprintf(stderr, "ibvcap status: unexpected argument '%s'\n%s", argv[optind], usage);
	return EX_USAGE;
}

int cmd_status(int argc, char **argv)
{
	struct arguments arguments = {0};
	struct ibvcap_status *status;
	struct status_view view;
	int r = parse_arguments(argc, argv, &arguments);

	if (r >= 0)
		return r;
	r = ibvcap_status(arguments.socket, 0, &status);
	if (r < 0) {
		fprintf(stderr, "ibvcap status: %s\n", ibvcap_error_text());
		return exit_code_of(r);
	}
	status_view_fill(status, &view);
	if (arguments.json)
		print_json(&view);
	else
		print_text(&view);
	ibvcap_status_free(status);
	return fflush(stdout) == 0 && !ferror(stdout) ? EX_OK : EX_IOERR;
}
