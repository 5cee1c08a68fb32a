// SPDX-License-Identifier: Apache-2.0
/*
 * A consumer for tests, on the public library only: a line of JSON when attached, one for each packet,
 * one with the counts in the end. Ends after --count packets, when nothing came for --timeout
 * milliseconds, when the daemon ends (and no other comes within --reattach milliseconds), or at TERM.
 */
#include <ibvcap/ibvcap.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

struct options {
	const char *socket;
	const char *stream;
	struct ibvcap_rx_options attach;
	uint64_t count;
	int timeout_ms;
	uint32_t pause_us; /* while a batch is held */
	bool quiet;        /* no line a packet */
	bool rows;         /* its whole rows, too */
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"stream", required_argument, NULL, 'n'},
		{"count", required_argument, NULL, 'c'},
		{"timeout", required_argument, NULL, 't'},
		{"lease", required_argument, NULL, 'l'},
		{"pause-us", required_argument, NULL, 'p'},
		{"oldest", no_argument, NULL, 'o'},
		{"quiet", no_argument, NULL, 'q'},
		{"reattach", required_argument, NULL, 'r'},
		{"rows", no_argument, NULL, 'w'},
		{0},
	};
	int option;

	*options = (struct options){.count = UINT64_MAX, .timeout_ms = -1};
	options->attach.size = sizeof(options->attach);
	options->attach.reattach_ms = IBVCAP_NO_REATTACH;
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 's':
			options->socket = optarg;
			break;
		case 'n':
			options->stream = optarg;
			break;
		case 'c':
			options->count = strtoull(optarg, NULL, 10);
			break;
		case 't':
			options->timeout_ms = atoi(optarg);
			break;
		case 'l':
			options->attach.lease_blocks = (uint32_t)atoi(optarg);
			break;
		case 'p':
			options->pause_us = (uint32_t)atoi(optarg);
			break;
		case 'o':
			options->attach.start = IBVCAP_START_OLDEST;
			break;
		case 'r':
			options->attach.reattach_ms = (uint32_t)atoi(optarg);
			break;
		case 'w':
			options->rows = true;
			break;
		case 'q':
			options->quiet = true;
			break;
		default:
			exit(EX_USAGE);
		}
	}
}

static void print_hex(const char *name, const uint8_t *bytes, uint32_t n, const char *end)
{
	printf(", \"%s\": \"", name);
	for (uint32_t i = 0; i < n; i++)
		printf("%02x", bytes[i]);
	printf("\"%s", end);
}

static void print_packet(const struct ibvcap_rx_batch *batch, uint32_t i, const struct options *options)
{
	const struct ibvcap_meta *meta = &batch->meta[i];

	printf("{\"epoch\": %" PRIu64 ", \"unknown\": %s, ", batch->epoch,
	       i == 0 && batch->flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN ? "true" : "false");
	printf("\"sequence\": %" PRIu64 ", \"gap\": %" PRIu64 ", \"timestamp_ns\": %" PRIu64
	       ", \"length\": %u, \"wire_length\": %u, \"flags\": %u, \"header_length\": %u, \"flow\": %u",
	       batch->sequence + i, i == 0 ? batch->gap : 0, meta->timestamp_ns, meta->length, meta->wire_length,
	       meta->flags, meta->header_length, meta->flow);
	if (options->rows) {
		print_hex("headers", ibvcap_rx_headers(batch, i), batch->header_bytes, "");
		print_hex("row", batch->payload + (size_t)i * batch->stride, batch->stride, "");
	}
	print_hex("payload", ibvcap_rx_payload(batch, i), meta->length, "}\n");
}

static void hold(uint32_t us)
{
	nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

/* In short waits: a signal that comes just before one would else be waited out. */
static int acquire(struct ibvcap_rx *rx, struct ibvcap_rx_batch *batch, uint32_t max, int timeout_ms)
{
	int waited_ms = 0, n;

	do {
		int slice_ms = timeout_ms >= 0 && timeout_ms - waited_ms < 100 ? timeout_ms - waited_ms : 100;

		n = ibvcap_rx_acquire(rx, batch, max, 1, slice_ms);
		waited_ms += timeout_ms >= 0 ? slice_ms : 0;
	} while (n == 0 && !stop && (timeout_ms < 0 || waited_ms < timeout_ms));
	return n;
}

/* 0: ended as it should; else the library's error. */
static int consume(struct ibvcap_rx *rx, const struct options *options)
{
	uint64_t left = options->count;

	while (left > 0 && !stop) {
		struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
		uint32_t max = left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
		int n = acquire(rx, &batch, max, options->timeout_ms);

		if (n == 0 || n == -ESHUTDOWN || (n == -EINTR && stop))
			return 0;
		if (n < 0)
			return n;
		for (uint32_t i = 0; i < batch.n && !options->quiet; i++)
			print_packet(&batch, i, options);
		if (options->pause_us)
			hold(options->pause_us);
		left -= batch.n;
		ibvcap_rx_release(rx, &batch);
	}
	return 0;
}

static void print_counts(const struct ibvcap_rx *rx)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	ibvcap_rx_counts(rx, &counts);
	printf("{\"published\": %" PRIu64 ", \"delivered\": %" PRIu64 ", \"skipped\": %" PRIu64 ", \"lag\": %" PRIu64
	       ", \"epochs\": %" PRIu64 "}\n",
	       counts.published, counts.delivered, counts.skipped, counts.lag, counts.epochs);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	struct options options;
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct ibvcap_rx *rx;
	int r;

	parse(argc, argv, &options);
	sigaction(SIGTERM, &action, NULL);
	r = ibvcap_rx_open(options.socket, options.stream, &options.attach, &rx);
	if (r < 0) {
		fprintf(stderr, "capture_dump: %s (%s)\n", ibvcap_error_text(), strerror(-r));
		return r == -EACCES ? EX_NOPERM : EX_UNAVAILABLE;
	}
	ibvcap_rx_info(rx, &info);
	printf("{\"epoch\": %" PRIu64 ", \"slot_bytes\": %u, \"lease_blocks\": %u, \"page_bytes\": %u, ", info.epoch,
	       info.slot_bytes, info.lease_blocks, info.page_bytes);
	printf("\"flags\": %u, \"row_stride\": %u, \"header_stride\": %u, \"header_bytes\": %u, "
	       "\"application_header_bytes\": %u}\n",
	       info.flags, info.row_stride, info.header_stride, info.header_bytes, info.application_header_bytes);
	fflush(stdout);
	r = consume(rx, &options);
	if (r == 0)
		print_counts(rx);
	else
		fprintf(stderr, "capture_dump: %s\n", strerror(-r));
	ibvcap_rx_close(rx);
	return r == 0 ? EX_OK : EX_SOFTWARE;
}
