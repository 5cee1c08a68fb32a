// SPDX-License-Identifier: Apache-2.0
#include "tools/outgoing.h"

#include "tools/clock.h"
#include "tools/ibvcap.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#define BATCH 64u
/* Longer than this process may be kept from running, and so short that a signal need not wait for it. */
#define AHEAD_NS UINT64_C(500000000)
#define START_NS UINT64_C(100000000)
/* Of waiting, for the line of the second, and for a signal that came just before. */
#define SLICE_MS 50
#define SLICE_NS (SLICE_MS * UINT64_C(1000000))
/* What is still on its way at a signal gets so long. */
#define LEAVE_NS (2 * SECOND_NS)

/* What statuses mean, in the order in which an administrator would look. */
static const struct {
	int32_t status;
	const char *key;
	const char *text;
} reasons[OUTGOING_REASONS] = {
	{-EHOSTUNREACH, "no_next_hop",
         "the next hop's Ethernet address is not known: is there a route, does it answer?"},
	{-ENETDOWN, "link_down", "the link is down"},
	{-EIO, "device_error", "the device reported an error; the daemon's log says more"},
	{-EMSGSIZE, "too_long",
         "the interface's MTU is too little for the channel's payload_size now, or it was longer than that"},
	{-EINVAL, "not_allowed", "the daemon has no such destination"},
	{-ETIME, "late_dropped", "late, and dropped as asked for"},
	{-ECANCELED, "flushed", "the channel ended or its device was reset: sent or not, nobody knows"},
};

/* ---- arguments ----------------------------------------------------------------------------------- */

int outgoing_parse_option(int option, const char *usage, struct outgoing_options *options)
{
	switch (option) {
	case 's':
		options->socket = optarg;
		return -1;
	case 'L':
		options->drop_late = true;
		return -1;
	case 'd':
		return parse_number(options->command, "--destination", optarg, UINT16_MAX, &options->destination)
		               ? -1
		               : EX_USAGE;
	case 'j':
		options->json = true;
		return -1;
	}
	return say_usage(option, usage);
}

/* ---- signals and time ---------------------------------------------------------------------------- */

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

bool outgoing_is_stopped(void)
{
	return stop;
}

uint64_t outgoing_start(struct outgoing *outgoing)
{
	outgoing->start_ns = outgoing->told_ns = clock_ns(CLOCK_MONOTONIC) + START_NS;
	outgoing->start_utc_ns = clock_ns(CLOCK_REALTIME) + START_NS;
	return outgoing->start_utc_ns;
}

uint64_t outgoing_elapsed_ns(const struct outgoing *outgoing)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);

	return now_ns > outgoing->start_ns ? now_ns - outgoing->start_ns : 0;
}

/* ---- life ---------------------------------------------------------------------------------------- */

int outgoing_open(struct outgoing *outgoing, const struct outgoing_options *options)
{
	const struct sigaction action = {.sa_handler = on_signal};
	int r;

	*outgoing = (struct outgoing){.options = *options};
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	r = ibvcap_tx_open(options->socket, options->channel, NULL, &outgoing->tx);
	if (r < 0) {
		fprintf(stderr, "ibvcap %s: %s\n", options->command, ibvcap_error_text());
		return exit_code_of(r);
	}
	ibvcap_tx_info(outgoing->tx, &outgoing->info);
	if (options->destination >= outgoing->info.n_destinations) {
		fprintf(stderr, "ibvcap %s: --destination %" PRIu64 ": channel '%s' has %u, the first is 0\n",
		        options->command, options->destination, options->channel, outgoing->info.n_destinations);
		return EX_USAGE;
	}
	outgoing->start_ns = outgoing->told_ns = clock_ns(CLOCK_MONOTONIC);
	return EX_OK;
}

void outgoing_close(struct outgoing *outgoing)
{
	ibvcap_tx_close(outgoing->tx);
	outgoing->tx = NULL;
}

/* ---- what became of them ------------------------------------------------------------------------- */

static void look_at_results(struct outgoing *outgoing)
{
	int32_t statuses[256];
	uint64_t sequence;
	int n;

	do {
		n = ibvcap_tx_results(outgoing->tx, statuses, 256, &sequence);
		for (int i = 0; i < n; i++)
			for (unsigned k = 0; statuses[i] != 0 && k < OUTGOING_REASONS; k++)
				outgoing->reasons[k] += statuses[i] == reasons[k].status;
	} while (n == 256);
}

static void print_progress(const struct outgoing *outgoing, uint64_t now_ns, const struct ibvcap_tx_counts *now)
{
	const struct ibvcap_tx_counts *told = &outgoing->told;
	double interval = (double)(now_ns - outgoing->told_ns) * 1e-9;

	printf("%6.1f s  %10.0f packets/s  %8.3f Gb/s  errored %" PRIu64 "  late %" PRIu64,
	       (double)(now_ns - outgoing->start_ns) * 1e-9, (double)(now->completed - told->completed) / interval,
	       (double)(now->completed_bytes - told->completed_bytes) * 8e-9 / interval, now->errored - told->errored,
	       now->late - told->late);
	if (outgoing->skipped)
		printf("  skipped %" PRIu64 " so far", outgoing->skipped);
	putchar('\n');
}

void outgoing_tick(struct outgoing *outgoing)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	struct ibvcap_tx_counts now;

	look_at_results(outgoing);
	ibvcap_tx_counts(outgoing->tx, &now);
	timing_drift_look(&outgoing->drift, now_ns, now.timed, now.timed_lateness_ns);
	if (now_ns < outgoing->told_ns + SECOND_NS)
		return;
	if (!outgoing->options.json)
		print_progress(outgoing, now_ns, &now);
	outgoing->told = now;
	outgoing->told_ns = now_ns;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

int outgoing_push(struct outgoing *outgoing)
{
	int r;

	/* Of the rows that are submitted now all results are there: they are lost with that. */
	outgoing_tick(outgoing);
	r = ibvcap_tx_submit(outgoing->tx, outgoing->filled);
	outgoing->filled = outgoing->slots.n = 0;
	return r;
}

static int wait_until(struct outgoing *outgoing, uint64_t utc_ns)
{
	uint64_t now = clock_ns(CLOCK_REALTIME);
	int r = now < utc_ns && outgoing->filled ? outgoing_push(outgoing) : 0;

	while (r == 0 && !stop && (now = clock_ns(CLOCK_REALTIME)) < utc_ns) {
		uint64_t ns = utc_ns - now < SLICE_NS ? utc_ns - now : SLICE_NS;

		outgoing_tick(outgoing);
		/* A daemon that ended shows here, not after an hour's pause. */
		r = ibvcap_tx_submit(outgoing->tx, 0);
		if (r == 0)
			nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
	}
	return r;
}

static int reserve(struct outgoing *outgoing)
{
	int r = outgoing->filled ? outgoing_push(outgoing) : 0;

	while (r == 0 && !stop) {
		r = ibvcap_tx_reserve(outgoing->tx, &outgoing->slots, BATCH, 1, SLICE_MS);
		if (r == 0)
			outgoing_tick(outgoing);
	}
	return r > 0 ? 0 : r < 0 ? r : -EINTR;
}

int outgoing_row(struct outgoing *outgoing, uint64_t not_before_ns, struct outgoing_row *row)
{
	int r = not_before_ns > AHEAD_NS ? wait_until(outgoing, not_before_ns - AHEAD_NS) : 0;

	if (r == 0 && outgoing->filled == outgoing->slots.n)
		r = reserve(outgoing);
	if (stop)
		r = -EINTR;
	if (r < 0)
		return r;
	row->payload = outgoing->slots.payload + (size_t)outgoing->filled * outgoing->slots.stride;
	row->packet = &outgoing->slots.packets[outgoing->filled];
	row->packet->not_before_ns = not_before_ns;
	row->packet->destination = (uint16_t)outgoing->options.destination;
	row->packet->flags = outgoing->options.drop_late ? IBVCAP_TX_FLAG_DROP_LATE : 0;
	return 0;
}

void outgoing_add(struct outgoing *outgoing)
{
	outgoing->filled++;
}

/* ---- the end ------------------------------------------------------------------------------------- */

static int flush(struct outgoing *outgoing)
{
	uint64_t stopped_ns = 0;
	int r;

	do {
		r = ibvcap_tx_flush(outgoing->tx, SLICE_MS);
		outgoing_tick(outgoing);
		if (stop && !stopped_ns)
			stopped_ns = clock_ns(CLOCK_MONOTONIC);
		if (stop && clock_ns(CLOCK_MONOTONIC) - stopped_ns >= LEAVE_NS)
			break;
	} while (r == -ETIMEDOUT || r == -EINTR);
	return r == -ETIMEDOUT || r == -EINTR ? 0 : r;
}

static int explain_end(const struct outgoing *outgoing, int error)
{
	const char *command = outgoing->options.command, *channel = outgoing->options.channel;

	switch (error) {
	case 0:
		return EX_OK;
	case -ESHUTDOWN:
		fprintf(stderr,
		        "ibvcap %s: channel '%s': the daemon has ended; what was still pending was sent or not\n",
		        command, channel);
		return EX_UNAVAILABLE;
	case -ENODEV:
		fprintf(stderr, "ibvcap %s: channel '%s': the administrator has removed it\n", command, channel);
		return EX_UNAVAILABLE;
	case -EIO:
		fprintf(stderr, "ibvcap %s: channel '%s': its device failed; the daemon's log says more\n", command,
		        channel);
		return EX_UNAVAILABLE;
	case -ECONNABORTED:
		fprintf(stderr, "ibvcap %s: channel '%s': the daemon disconnected this sender; its log says why\n",
		        command, channel);
		return EX_UNAVAILABLE;
	}
	fprintf(stderr, "ibvcap %s: channel '%s': %s\n", command, channel, strerror(-error));
	return exit_code_of(error);
}

int outgoing_finish(struct outgoing *outgoing, int r)
{
	struct ibvcap_tx_counts counts;
	int code;

	if (r == 0)
		r = outgoing_push(outgoing);
	if (r == 0 || r == -EINTR)
		r = flush(outgoing);
	look_at_results(outgoing);
	outgoing->end_ns = clock_ns(CLOCK_MONOTONIC);
	ibvcap_tx_counts(outgoing->tx, &counts);
	code = explain_end(outgoing, r);
	if (counts.pending && r == 0)
		fprintf(stderr,
		        "ibvcap %s: stopped with %" PRIu64 " packets pending: what the daemon has taken of them is "
		        "sent, the rest is not\n",
		        outgoing->options.command, counts.pending);
	return code == EX_OK && counts.errored + counts.flushed ? 1 : code;
}

static double seconds_of(const struct outgoing *outgoing)
{
	return outgoing->end_ns > outgoing->start_ns ? (double)(outgoing->end_ns - outgoing->start_ns) * 1e-9 : 1e-9;
}

static double mean_ns(const struct ibvcap_tx_counts *counts)
{
	return counts->timed ? (double)counts->timed_lateness_ns / (double)counts->timed : 0;
}

static void print_timing(const struct outgoing *outgoing, const struct ibvcap_tx_counts *counts)
{
	double drift_ns;

	printf("timing: %" PRIu64
	       " packets had a time, and left %.1f us after it in the mean, %.1f us at most; more than "
	       "%.0f us: %" PRIu64 "; drift ",
	       counts->timed, mean_ns(counts) * 1e-3, (double)counts->timed_lateness_max_ns * 1e-3,
	       (double)outgoing->info.late_after_ns * 1e-3, counts->late);
	if (timing_drift_of(&outgoing->drift, &drift_ns))
		printf("%+.1f us\n", drift_ns * 1e-3);
	else
		printf("not known, that was too short\n");
}

void outgoing_print(const struct outgoing *outgoing)
{
	double seconds = seconds_of(outgoing);
	struct ibvcap_tx_counts counts;

	ibvcap_tx_counts(outgoing->tx, &counts);
	printf("%s: %" PRIu64 " packets, %" PRIu64 " payload bytes sent in %.1f s: %.0f packets/s, %.3f Gb/s\n",
	       outgoing->options.channel, counts.completed, counts.completed_bytes, seconds,
	       (double)counts.completed / seconds, (double)counts.completed_bytes * 8e-9 / seconds);
	printf("submitted %" PRIu64 " = completed %" PRIu64 " + errored %" PRIu64 " + flushed %" PRIu64
	       " + late_dropped %" PRIu64 " + pending %" PRIu64 "\n",
	       counts.submitted, counts.completed, counts.errored, counts.flushed, counts.late_dropped, counts.pending);
	if (counts.timed)
		print_timing(outgoing, &counts);
	for (unsigned k = 0; k < OUTGOING_REASONS; k++)
		if (outgoing->reasons[k])
			printf("not sent: %s %" PRIu64 ": %s\n", reasons[k].key, outgoing->reasons[k], reasons[k].text);
}

json_t *outgoing_to_json(const struct outgoing *outgoing)
{
	struct ibvcap_tx_counts counts;
	json_t *all, *not_sent = json_object();
	double drift_ns;

	ibvcap_tx_counts(outgoing->tx, &counts);
	all = json_pack("{s:i, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "schema_version", 1, "channel",
	                outgoing->options.channel, "seconds", seconds_of(outgoing), "submitted",
	                (json_int_t)counts.submitted, "completed", (json_int_t)counts.completed, "errored",
	                (json_int_t)counts.errored, "flushed", (json_int_t)counts.flushed, "late_dropped",
	                (json_int_t)counts.late_dropped, "pending", (json_int_t)counts.pending, "completed_bytes",
	                (json_int_t)counts.completed_bytes, "wire_bytes", (json_int_t)counts.wire_bytes);
	json_object_set_new(all, "start_ns", json_integer((json_int_t)outgoing->start_utc_ns));
	json_object_set_new(all, "late", json_integer((json_int_t)counts.late));
	json_object_set_new(all, "late_after_ns", json_integer((json_int_t)outgoing->info.late_after_ns));
	json_object_set_new(all, "timed", json_integer((json_int_t)counts.timed));
	json_object_set_new(all, "timed_lateness_ns", json_integer((json_int_t)counts.timed_lateness_ns));
	json_object_set_new(all, "timed_lateness_max_ns", json_integer((json_int_t)counts.timed_lateness_max_ns));
	json_object_set_new(all, "drift_ns",
	                    timing_drift_of(&outgoing->drift, &drift_ns) ? json_real(drift_ns) : json_null());
	for (unsigned k = 0; k < OUTGOING_REASONS; k++)
		json_object_set_new(not_sent, reasons[k].key, json_integer((json_int_t)outgoing->reasons[k]));
	json_object_set_new(all, "not_sent", not_sent);
	return all;
}
