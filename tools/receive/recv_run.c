// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap recv: attaches to a stream, counts and checks what it receives, and prints or writes it. ibvcap check is the
 * same with fewer options.
 */
#include "tools/receive/recv.h"

#include "lib/base/min.h"
#include "lib/base/safe_path.h"
#include "lib/base/time.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

/* In a sleep: to print the rates in time, and to see a signal that came just before the call. */
#define SLEEP_MS             50
#define PAYLOAD_BUFFER_BYTES 65536 /* what a pipe holds */
#define SETTLE_MS            1000
#define SETTLE_STEP_MS       10

/* ---- receiving ----------------------------------------------------------------------------------- */

struct receiver {
	struct recv_options options;
	struct ibvcap_rx *rx;
	FILE *payload_out;
	bool flushes;    /* payload_out is a pipe: write each batch as it comes */
	int write_error; /* errno of payload_out; 0 */
	struct recv_pattern pattern;
	struct latency *latency;        /* NULL without --latency */
	struct ibvcap_tracker *tracker; /* NULL without --sequence */
	struct ibvcap_rx_moment from;   /* before the first packet */
	struct recv_totals totals;
	struct recv_totals printed; /* the totals in the last line of rates */
	uint64_t start_ns;
	uint64_t printed_ns;
	bool silence_told;
	uint32_t failed_told;
	bool away_told;
	uint64_t last_row_ns; /* timestamp of the row that came last; 0: none came */
};

static void count_row(struct receiver *receiver, const struct ibvcap_rx_batch *batch, uint32_t i, uint64_t seen_ns)
{
	const struct ibvcap_meta *meta = &batch->meta[i];
	const uint8_t *payload = ibvcap_rx_payload(batch, i);

	if (receiver->options.dump > 0) {
		receiver->options.dump--;
		recv_dump(batch, i, receiver->options.utc);
	}
	for (unsigned bit = 0; meta->flags >> bit && bit < RECV_FLAGS; bit++)
		receiver->totals.flagged[bit] += meta->flags >> bit & 1;
	if (meta->flags & IBVCAP_PACKET_FLAG_ERROR)
		return;
	if (receiver->latency && meta->timestamp_ns)
		latency_add(receiver->latency, meta->timestamp_ns, seen_ns);
	receiver->totals.bytes += meta->length;
	if (meta->flags & IBVCAP_PACKET_FLAG_UNUSABLE)
		return;
	if (receiver->pattern.numbers)
		recv_pattern_add(&receiver->pattern, payload, meta->length);
	if (receiver->payload_out && fwrite(payload, 1, meta->length, receiver->payload_out) != meta->length)
		receiver->write_error = errno;
}

static void count_received(struct receiver *receiver, const struct ibvcap_rx_batch *batch)
{
	uint64_t seen_ns = receiver->latency ? time_utc_ns() : 0;

	recv_tell(&receiver->options, batch, receiver->last_row_ns);
	receiver->last_row_ns = batch->meta[batch->n - 1].timestamp_ns;
	receiver->totals.packets += batch->n;
	receiver->totals.gaps += batch->gap > 0;
	receiver->totals.skipped += batch->gap;
	for (uint32_t i = 0; i < batch->n && receiver->write_error == 0; i++)
		count_row(receiver, batch, i, seen_ns);
	if (receiver->flushes && receiver->write_error == 0 && fflush(receiver->payload_out) != 0)
		receiver->write_error = errno;
}

/* Packets that a tap has skipped since the last gap. */
static uint64_t count_new_gap(const struct receiver *receiver)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	return ibvcap_rx_counts(receiver->rx, &counts) == 0 ? counts.skipped - receiver->totals.skipped : 0;
}

/* A tap receives copies, one packet at a time. Each one is counted as a batch of one. */
static int receive_tapped(struct receiver *receiver, int timeout_ms)
{
	static uint8_t payload[UINT16_MAX];
	struct ibvcap_meta meta;
	struct ibvcap_rx_batch batch = {.payload = payload, .meta = &meta, .n = 1};
	size_t length;
	int r = ibvcap_rx_recv(receiver->rx, payload, sizeof(payload), &length, &meta, timeout_ms);

	if (r <= 0)
		return r;
	meta.header_length = 0; /* the copy begins at the payload */
	batch.flags = meta.flags & IBVCAP_PACKET_FLAG_GAP_UNKNOWN ? IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN : 0;
	batch.gap = meta.flags & IBVCAP_PACKET_FLAG_GAP ? count_new_gap(receiver) : 0;
	count_received(receiver, &batch);
	if (receiver->tracker)
		ibvcap_tracker_add(receiver->tracker,
		                   &(struct ibvcap_packet){
					   .row = payload, .row_bytes = meta.length, .timestamp_ns = meta.timestamp_ns},
		                   NULL);
	return r;
}

static int receive_leased(struct receiver *receiver, uint32_t max, int timeout_ms)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);
	int r = ibvcap_rx_acquire(receiver->rx, &batch, max, 1, timeout_ms), tracked = 0;

	if (r <= 0)
		return r;
	count_received(receiver, &batch);
	if (receiver->tracker)
		tracked = ibvcap_rx_track(receiver->rx, &batch, receiver->tracker, NULL);
	ibvcap_rx_release(receiver->rx, &batch);
	return tracked < 0 ? tracked : r;
}

/* A stream that stays silent from the start has a cause that other commands know. */
static void tell_silence(struct receiver *receiver, uint64_t now)
{
	const struct recv_options *options = &receiver->options;

	if (receiver->silence_told || receiver->totals.packets || now - receiver->start_ns < REPORT_SILENCE_NS)
		return;
	receiver->silence_told = true;
	report_silence(options->command, options->stream, options->socket);
}

/* 0 when --count or --duration is reached, a stop signal came or payloads cannot be written; else the library's error.
 */
static int receive_packets(struct receiver *receiver)
{
	const struct recv_options *options = &receiver->options;
	int timeout_ms = options->busy ? 0 : SLEEP_MS, r = 0;

	while (!stop_signal_came() && r >= 0 && receiver->write_error == 0 &&
	       receiver->totals.packets < options->count) {
		uint64_t left = options->count - receiver->totals.packets;
		uint64_t now = time_monotonic_ns();

		if (now - receiver->start_ns >= options->duration_ns)
			return 0;
		if (now - receiver->printed_ns >= TIME_SECOND_NS) {
			if (!receiver->options.json)
				recv_print_rate((double)(now - receiver->start_ns) * 1e-9,
				                (double)(now - receiver->printed_ns) * 1e-9, &receiver->totals,
				                &receiver->printed);
			receiver->printed = receiver->totals;
			receiver->printed_ns = now;
			ibvcap_rx_settle_moment(receiver->rx, &receiver->from);
			recv_tell_failed(options, receiver->rx, &receiver->failed_told);
			recv_tell_away(options, receiver->rx, &receiver->away_told);
		}
		tell_silence(receiver, now);
		if (options->attach.policy == IBVCAP_POLICY_TAP)
			r = receive_tapped(receiver, timeout_ms);
		else
			r = receive_leased(receiver, left < UINT32_MAX ? (uint32_t)left : UINT32_MAX, timeout_ms);
	}
	return r == -EINTR || r > 0 ? 0 : r;
}

/* A tap is unknown to the daemon, which tells it nothing of the card's losses at its place. */
static struct ibvcap_rx_account account_of(struct receiver *receiver)
{
	struct ibvcap_rx_account account = IBVCAP_INIT(struct ibvcap_rx_account);
	struct ibvcap_rx_moment until = IBVCAP_INIT(struct ibvcap_rx_moment);

	if (receiver->options.attach.policy == IBVCAP_POLICY_TAP)
		return account;
	ibvcap_rx_take_moment(receiver->rx, &until);
	/* The daemon accounts for the last packets within some 0.1 s. */
	for (int ms = 0; ms < SETTLE_MS && ibvcap_rx_settle_moment(receiver->rx, &until) == 0; ms += SETTLE_STEP_MS)
		usleep(SETTLE_STEP_MS * 1000);
	ibvcap_rx_settle_moment(receiver->rx, &receiver->from);
	ibvcap_rx_account_between(&receiver->from, &until, &account);
	account.missing += receiver->totals.flagged[RECV_FLAG_ERROR] + receiver->totals.flagged[RECV_FLAG_FRAGMENT];
	return account;
}

/* By the packets' own numbers: all from the first to the highest of each source. */
static void judge_numbers(struct verdict *verdict, const struct ibvcap_tracker *tracker, uint64_t n_malformed)
{
	struct ibvcap_tracker_counts counts = IBVCAP_INIT(struct ibvcap_tracker_counts);
	char unfollowed[VERDICT_UNFOLLOWED_BYTES];

	ibvcap_tracker_counts(tracker, &counts);
	verdict_print_unfollowed(&counts, n_malformed, unfollowed);
	if (counts.numbers.lost && !verdict_find_absent(verdict, counts.numbers.lost, n_malformed))
		verdict_take(verdict, FINDING_LOSS);
	else if (unfollowed[0])
		verdict_find(verdict, FINDING_DOUBT, "some packets could not be followed by their own numbers: %s",
		             unfollowed);
}

/* By the daemon's account and, with --sequence, by the packets' own numbers. */
static struct verdict judge_received(const struct recv_summary *summary)
{
	const struct recv_options *options = summary->options;
	const struct ibvcap_rx_account *account = &summary->account;
	struct verdict verdict = {0};

	if (!summary->totals->packets)
		verdict_find(&verdict, FINDING_DOUBT, "no packet came; see why: ibvcap why %s%s%s", options->stream,
		             options->socket ? " --socket " : "", options->socket ? options->socket : "");
	if (summary->totals->flagged[RECV_FLAG_TRUNCATED])
		verdict_find(&verdict, FINDING_NOTE,
		             "%" PRIu64 " packets were longer than their rows, which have only their beginning: raise "
		             "payload_size of the stream",
		             summary->totals->flagged[RECV_FLAG_TRUNCATED]);
	verdict_find_malformed(&verdict, summary->totals->flagged[RECV_FLAG_MALFORMED]);
	verdict_find_pieces(&verdict, summary->totals->flagged[RECV_FLAG_FRAGMENT]);
	if (account->missing)
		verdict_take(&verdict, FINDING_LOSS);
	if (account->no_buffer_least)
		verdict_find(&verdict, FINDING_LOSS,
		             "%" PRIu64 " packets came to the stream and got no row (no_buffer)",
		             account->no_buffer_least);
	verdict_find_unjoined(&verdict, u64_min(account->unjoined, account->no_buffer_least), account->no_buffer_least);
	verdict_find_unknown(&verdict, account->unknown & ~(uint32_t)IBVCAP_UNKNOWN_NO_PACKETS); /* said above */
	verdict_find_interface(&verdict, &(struct interface_drops){.lost = account->interface_lost,
	                                                           .counts_all = account->interface_counts_all,
	                                                           .uncounted = account->interface_uncounted});
	if (!account->until_ns)
		verdict_find(&verdict, FINDING_DOUBT, "a tap is not told what the network card lost");
	if (summary->tracker)
		judge_numbers(&verdict, summary->tracker, summary->totals->flagged[RECV_FLAG_MALFORMED]);
	return verdict;
}

static struct recv_summary summarize(struct receiver *receiver)
{
	struct recv_summary summary = {
		.options = &receiver->options,
		.totals = &receiver->totals,
		.pattern = &receiver->pattern,
		.latency = receiver->latency,
		.tracker = receiver->tracker,
		.counts = IBVCAP_INIT(struct ibvcap_rx_counts),
		.info = IBVCAP_INIT(struct ibvcap_rx_info),
		.seconds = (double)(time_monotonic_ns() - receiver->start_ns) * 1e-9,
		.account = account_of(receiver),
	};

	ibvcap_rx_counts(receiver->rx, &summary.counts);
	ibvcap_rx_info(receiver->rx, &summary.info);
	summary.verdict = judge_received(&summary);
	return summary;
}

/* ---- where payloads go --------------------------------------------------------------------------- */

/* Take standard output for the payloads. What is printed to it goes to standard error from now on. */
static FILE *take_standard_output(void)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return fd >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0 ? fdopen(fd, "w") : NULL;
}

static int open_payload_out(struct receiver *receiver)
{
	const char *path = receiver->options.payload_out;
	struct failure failure = {.text = "cannot take standard output"};

	receiver->flushes = !strcmp(path, "-");
	receiver->payload_out = receiver->flushes ? take_standard_output() : safe_path_fopen(path, &failure);
	if (!receiver->payload_out) {
		fprintf(stderr, "ibvcap recv: --payload-out %s\n", failure.text);
		return EX_CANTCREAT;
	}
	setvbuf(receiver->payload_out, NULL, _IOFBF, PAYLOAD_BUFFER_BYTES);
	/* The reader of a pipe may end at any time: then write() returns EPIPE. */
	signal(SIGPIPE, SIG_IGN);
	return EX_OK;
}

/* EX_OK also if the reader of a pipe, or a signal, has ended the run. */
static int finish_payloads(struct receiver *receiver)
{
	if (receiver->payload_out && receiver->write_error == 0 && fflush(receiver->payload_out) != 0)
		receiver->write_error = errno;
	if (receiver->write_error == 0)
		return EX_OK;
	__fpurge(receiver->payload_out);
	if (receiver->write_error == EPIPE || receiver->write_error == EINTR)
		return EX_OK;
	fprintf(stderr, "ibvcap recv: stream '%s': the payloads cannot be written: %s\n", receiver->options.stream,
	        strerror(receiver->write_error));
	return EX_IOERR;
}

/* ---- the command --------------------------------------------------------------------------------- */

static int move_to_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET((unsigned)cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) == 0)
		return EX_OK;
	fprintf(stderr, "ibvcap recv: --cpu %d: %s\n", cpu,
	        errno == EINVAL ? "there is no such CPU, or this process may not run on it" : strerror(errno));
	return EX_USAGE;
}

static int open_tracker(struct receiver *receiver)
{
	const struct recv_options *options = &receiver->options;
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct ibvcap_sequence sequence = options->own_sequence;
	struct ibvcap_tracker_options tracker = {
		.size = sizeof(tracker), .own = sequence.bytes != 0, .max_missing = TRACKER_MISSING_MAX};
	int r;

	ibvcap_rx_info(receiver->rx, &info);
	if (!tracker.own && !ibvcap_rx_sequence(receiver->rx, &sequence)) {
		fprintf(stderr,
		        "ibvcap %s: stream '%s': its configuration does not say where the packets have their number: "
		        "give it a sequence (ibvcapd.conf(5)), or use 'ibvcap check --sequence FILE'\n",
		        options->command, options->stream);
		return EX_CONFIG;
	}
	if (options->attach.policy == IBVCAP_POLICY_TAP &&
	    (sequence.source != IBVCAP_SOURCE_NONE || info.application_header_bytes)) {
		fprintf(stderr,
		        "ibvcap %s: stream '%s': headers tell its sources apart or have its numbers; a tap gets none: "
		        "leave out --policy tap\n",
		        options->command, options->stream);
		return EX_USAGE;
	}
	tracker.max_sources = tracker_max_sources(&sequence);
	r = ibvcap_tracker_new(&sequence, &tracker, &receiver->tracker);
	return r == 0 ? EX_OK : report_failure(options->command, r);
}

static int open_receiver(struct receiver *receiver)
{
	const struct recv_options *options = &receiver->options;
	int code = options->cpu >= 0 ? move_to_cpu(options->cpu) : EX_OK, r;

	if (code != EX_OK)
		return code;
	if ((options->verify && recv_pattern_init(&receiver->pattern) < 0) ||
	    (options->latency && !(receiver->latency = calloc(1, sizeof(*receiver->latency))))) {
		fprintf(stderr, "ibvcap recv: out of memory\n");
		return EX_OSERR;
	}
	code = options->payload_out ? open_payload_out(receiver) : EX_OK;
	if (code != EX_OK)
		return code;
	r = ibvcap_rx_open(options->socket, options->stream, &options->attach, &receiver->rx);
	if (r < 0)
		return report_stream_failure(options->command, options->stream, r);
	return options->sequence ? open_tracker(receiver) : EX_OK;
}

static int run_recv(struct receiver *receiver)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	struct recv_summary summary;
	int code, r;

	ibvcap_rx_info(receiver->rx, &info);
	if (receiver->options.attach.start != IBVCAP_START_NEWEST && !receiver->options.json && info.n_attached)
		printf("%s: begins %llu packets back\n", receiver->options.stream,
		       (unsigned long long)info.attach_back);
	receiver->from = (struct ibvcap_rx_moment)IBVCAP_INIT(struct ibvcap_rx_moment);
	ibvcap_rx_take_moment(receiver->rx, &receiver->from);
	receiver->start_ns = time_monotonic_ns();
	receiver->printed_ns = receiver->start_ns;
	r = receive_packets(receiver);
	code = finish_payloads(receiver);
	recv_tell_failed(&receiver->options, receiver->rx, &receiver->failed_told);
	summary = summarize(receiver);
	recv_print_summary(&summary);
	if (code == EX_OK)
		code = report_end(receiver->options.command, "stream", receiver->options.stream, r);
	if (code == EX_OK && receiver->options.check)
		code = verdict_exit_status(&summary.verdict);
	return code == EX_OK && receiver->pattern.corrupt ? 1 : code;
}

int recv_run(const struct recv_options *options)
{
	struct receiver receiver = {.options = *options};
	int code;

	stop_signal_catch();
	setvbuf(stdout, NULL, _IOLBF, 0);
	code = open_receiver(&receiver);
	if (code == EX_OK)
		code = run_recv(&receiver);
	ibvcap_rx_close(receiver.rx);
	if (receiver.payload_out)
		fclose(receiver.payload_out);
	ibvcap_tracker_free(receiver.tracker);
	free(receiver.latency);
	recv_pattern_deinit(&receiver.pattern);
	return code;
}
