// SPDX-License-Identifier: Apache-2.0
/* ibvcap recv: attaches to a stream, counts and checks what it receives, and prints or writes it. */
#include "tools/ibvcap/recv.h"

#include "daemon/base/time.h"
#include "tools/ibvcap/ibvcap.h"
#include "tools/ibvcap/options.h"
#include "tools/ibvcap/report.h"
#include "tools/ibvcap/stop_signal.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

static const char usage[] =
	"usage: ibvcap recv STREAM [OPTIONS...]\n"
	"Receive a stream until it ends, or until SIGINT or SIGTERM. Print rates every second,\n"
	"and the loss sum at the end. Defaults are in parentheses.\n"
	"\n"
	"  -s, --socket PATH       the daemon's control socket (else $IBVCAP_SOCKET, else " IBVCAP_CONTROL_SOCKET ")\n"
	"  -c, --count N           end after N packets\n"
	"  -t, --duration S        end after S seconds\n"
	"  -v, --verify            check the numbered test pattern; exit 1 if a payload is corrupt\n"
	"  -d, --dump N            print the first N packets\n"
	"  -o, --oldest            begin with the oldest packet in the ring (the next packet that comes)\n"
	"  -b, --packets-back N    begin N packets back, or with the oldest\n"
	"  -B, --seconds-back S    begin with the packets of S seconds ago, or with the oldest\n"
	"  -p, --policy POLICY     lossy, lossless (needs a permission), or tap (no quotas, no headers) (lossy)\n"
	"  -r, --reattach S        when the daemon ends, wait S seconds for its next run; 0: end (30)\n"
	"  -w, --payload-out FILE  write all payloads to FILE, one after the other\n"
	"  -j, --json              print only the summary, as JSON\n"
	"  -h, --help              print this\n";

/* ---- arguments ----------------------------------------------------------------------------------- */

static bool parse_reattach(const char *text, uint32_t *ms)
{
	uint64_t seconds = 0;

	if (strcmp(text, "0") && !options_parse_count("recv", "--reattach", text, UINT32_MAX / 1000, &seconds))
		return false;
	*ms = seconds ? (uint32_t)seconds * 1000 : IBVCAP_NO_REATTACH;
	return true;
}

static bool parse_policy(const char *text, enum ibvcap_policy *policy)
{
	static const char *const names[] = {
		[IBVCAP_POLICY_LOSSY] = "lossy", [IBVCAP_POLICY_LOSSLESS] = "lossless", [IBVCAP_POLICY_TAP] = "tap"};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(text, names[i]))
			continue;
		*policy = (enum ibvcap_policy)i;
		return true;
	}
	fprintf(stderr, "ibvcap recv: --policy '%s': lossy, lossless or tap is wanted\n", text);
	return false;
}

/* -1: go on; otherwise the exit code. */
static int parse_recv_option(int option, struct recv_options *options)
{
	switch (option) {
	case 's':
		options->socket = optarg;
		return -1;
	case 'c':
		return options_parse_count("recv", "--count", optarg, UINT64_MAX - 1, &options->count) ? -1 : EX_USAGE;
	case 't':
		return options_parse_seconds("recv", "--duration", optarg, &options->duration_ns) ? -1 : EX_USAGE;
	case 'v':
		options->verify = true;
		return -1;
	case 'd':
		return options_parse_count("recv", "--dump", optarg, UINT64_MAX, &options->dump) ? -1 : EX_USAGE;
	case 'o':
		options->attach.start = IBVCAP_START_OLDEST;
		return -1;
	case 'b':
		options->attach.start = IBVCAP_START_PACKETS_BACK;
		return options_parse_count("recv", "--packets-back", optarg, UINT64_MAX, &options->attach.back)
		               ? -1
		               : EX_USAGE;
	case 'B':
		options->attach.start = IBVCAP_START_NS_BACK;
		return options_parse_seconds("recv", "--seconds-back", optarg, &options->attach.back) ? -1 : EX_USAGE;
	case 'p':
		return parse_policy(optarg, &options->attach.policy) ? -1 : EX_USAGE;
	case 'r':
		return parse_reattach(optarg, &options->attach.reattach_ms) ? -1 : EX_USAGE;
	case 'w':
		options->payload_out = optarg;
		return -1;
	case 'j':
		options->json = true;
		return -1;
	}
	return options_print_usage(option, usage);
}

static int parse_recv_arguments(int argc, char **argv, struct recv_options *options)
{
	static const struct option known[] = {
		{"socket", required_argument, NULL, 's'},
		{"count", required_argument, NULL, 'c'},
		{"duration", required_argument, NULL, 't'},
		{"verify", no_argument, NULL, 'v'},
		{"dump", required_argument, NULL, 'd'},
		{"oldest", no_argument, NULL, 'o'},
		{"payload-out", required_argument, NULL, 'w'},
		{"json", no_argument, NULL, 'j'},
		{"reattach", required_argument, NULL, 'r'},
		{"packets-back", required_argument, NULL, 'b'},
		{"seconds-back", required_argument, NULL, 'B'},
		{"policy", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	int option, r = -1;

	*options = (struct recv_options){
		.attach = IBVCAP_INIT(struct ibvcap_rx_options), .count = UINT64_MAX, .duration_ns = UINT64_MAX};
	while (r < 0 && (option = getopt_long(argc, argv, "s:c:t:vd:ob:B:p:r:w:jh", known, NULL)) != -1)
		r = parse_recv_option(option, options);
	if (r >= 0)
		return r;
	if (optind == argc)
		return options_reject("recv", usage, "which stream? 'ibvcap status' lists them");
	options->stream = argv[optind++];
	if (optind < argc)
		return options_reject("recv", usage, "unexpected argument '%s'", argv[optind]);
	if (options->dump && options->json)
		return options_reject("recv", usage, "--dump and --json do not go together");
	if (options->dump && options->attach.policy == IBVCAP_POLICY_TAP)
		return options_reject("recv", usage,
		                      "--dump and --policy tap do not go together: a tap has no headers");
	return -1;
}

/* ---- receiving ----------------------------------------------------------------------------------- */

struct receiver {
	struct recv_options options;
	struct ibvcap_rx *rx;
	FILE *payload_out;
	struct pattern_tally *tally; /* NULL without --verify */
	struct recv_totals totals;
	struct recv_totals printed; /* the totals in the last line of rates */
	uint64_t start_ns;
	uint64_t printed_ns;
};

static int count_row(struct receiver *receiver, const struct ibvcap_rx_batch *batch, uint32_t i)
{
	const struct ibvcap_meta *meta = &batch->meta[i];
	const uint8_t *payload = ibvcap_rx_payload(batch, i);

	if (receiver->options.dump > 0) {
		receiver->options.dump--;
		recv_dump(batch, i);
	}
	for (unsigned bit = 0; meta->flags >> bit && bit < RECV_FLAGS; bit++)
		receiver->totals.flagged[bit] += meta->flags >> bit & 1;
	if (meta->flags & IBVCAP_PACKET_FLAG_ERROR)
		return 0;
	receiver->totals.bytes += meta->length;
	if (meta->flags & IBVCAP_PACKET_FLAG_UNUSABLE)
		return 0;
	if (receiver->tally)
		pattern_tally_add(receiver->tally, payload, meta->length);
	if (receiver->payload_out && fwrite(payload, 1, meta->length, receiver->payload_out) != meta->length)
		return -EIO;
	return 0;
}

static int count_received(struct receiver *receiver, const struct ibvcap_rx_batch *batch)
{
	int r = 0;

	receiver->totals.packets += batch->n;
	receiver->totals.gaps += batch->gap > 0;
	receiver->totals.skipped += batch->gap;
	for (uint32_t i = 0; i < batch->n && r == 0; i++)
		r = count_row(receiver, batch, i);
	return r;
}

static void print_recv_rate(struct receiver *receiver, uint64_t now)
{
	if (!receiver->options.json)
		recv_print_rate((double)(now - receiver->start_ns) * 1e-9, (double)(now - receiver->printed_ns) * 1e-9,
		                &receiver->totals, &receiver->printed);
	receiver->printed = receiver->totals;
	receiver->printed_ns = now;
}

/* A tap receives copies, one packet at a time. Each one is counted as a batch of one. */
static int receive_tapped(struct receiver *receiver, int timeout_ms)
{
	static uint8_t payload[UINT16_MAX];
	struct ibvcap_meta meta;
	struct ibvcap_rx_batch batch = {.payload = payload, .meta = &meta, .n = 1};
	size_t length;
	int r = ibvcap_rx_recv(receiver->rx, payload, sizeof(payload), &length, &meta, timeout_ms);

	meta.payload_offset = 0; /* the copy begins at the payload */
	return r > 0 ? count_received(receiver, &batch) : r;
}

static int receive_leased(struct receiver *receiver, uint32_t max, int timeout_ms)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	int r = ibvcap_rx_acquire(receiver->rx, &batch, max, 1, timeout_ms);

	if (r <= 0)
		return r;
	r = count_received(receiver, &batch);
	ibvcap_rx_release(receiver->rx, &batch);
	return r;
}

/* 0 when --count or --duration is reached or a stop signal came; otherwise the library's error. */
static int receive_packets(struct receiver *receiver)
{
	const struct recv_options *options = &receiver->options;
	int r = 0;

	while (!stop_signal_came() && r >= 0 && receiver->totals.packets < options->count) {
		uint64_t left = options->count - receiver->totals.packets;
		uint64_t now = time_monotonic_ns();

		if (now - receiver->start_ns >= options->duration_ns)
			return 0;
		if (now - receiver->printed_ns >= TIME_SECOND_NS)
			print_recv_rate(receiver, now);
		/* A short wait, to print the rates in time, and to see a signal that came just before the call. */
		if (options->attach.policy == IBVCAP_POLICY_TAP)
			r = receive_tapped(receiver, 50);
		else
			r = receive_leased(receiver, left < UINT32_MAX ? (uint32_t)left : UINT32_MAX, 50);
	}
	return r == -EINTR || r > 0 ? 0 : r;
}

static void print_recv_end(const struct receiver *receiver)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	ibvcap_rx_counts(receiver->rx, &counts);
	recv_print_summary(&receiver->options, (double)(time_monotonic_ns() - receiver->start_ns) * 1e-9,
	                   &receiver->totals, &counts, receiver->tally);
}

/* ---- the command --------------------------------------------------------------------------------- */

static int open_receiver(struct receiver *receiver)
{
	const struct recv_options *options = &receiver->options;
	int r;

	if (options->verify && !(receiver->tally = calloc(1, sizeof(*receiver->tally)))) {
		fprintf(stderr, "ibvcap recv: out of memory\n");
		return EX_OSERR;
	}
	if (options->payload_out && !(receiver->payload_out = fopen(options->payload_out, "we"))) {
		fprintf(stderr, "ibvcap recv: --payload-out '%s': %s\n", options->payload_out, strerror(errno));
		return EX_CANTCREAT;
	}
	r = ibvcap_rx_open(options->socket, options->stream, &options->attach, &receiver->rx);
	return r == 0 ? EX_OK : report_failure("recv", r);
}

/* Print how far back the first packet is, if packets of the past were asked for. */
static void print_recv_start(const struct receiver *receiver)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(receiver->rx, &info);
	if (receiver->options.attach.start != IBVCAP_START_NEWEST && !receiver->options.json)
		printf("%s: begins %llu packets back\n", receiver->options.stream,
		       (unsigned long long)info.attach_back);
}

static int run_recv(struct receiver *receiver)
{
	int code, r;

	print_recv_start(receiver);

	receiver->start_ns = time_monotonic_ns();
	receiver->printed_ns = receiver->start_ns;
	r = receive_packets(receiver);
	if (receiver->payload_out && fflush(receiver->payload_out) != 0 && r == 0)
		r = -EIO;
	print_recv_end(receiver);
	if (r == -EIO) {
		fprintf(stderr, "ibvcap recv: stream '%s': the payloads cannot be written; is the file system full?\n",
		        receiver->options.stream);
		return EX_IOERR;
	}
	code = report_end("recv", "stream", receiver->options.stream, r);
	return code == EX_OK && receiver->tally && receiver->tally->corrupt ? 1 : code;
}

int cmd_recv(int argc, char **argv)
{
	struct receiver receiver = {0};
	int code = parse_recv_arguments(argc, argv, &receiver.options);

	if (code >= 0)
		return code;
	stop_signal_catch();
	setvbuf(stdout, NULL, _IOLBF, 0);
	code = open_receiver(&receiver);
	if (code == EX_OK)
		code = run_recv(&receiver);
	ibvcap_rx_close(receiver.rx);
	if (receiver.payload_out)
		fclose(receiver.payload_out);
	free(receiver.tally);
	return code;
}
