// SPDX-License-Identifier: Apache-2.0
/* A run of packets through one channel: fills rows, submits them in batches, and accounts for what became of them. */
#include "tools/send/tx_run.h"

#include "lib/base/time.h"
#include "tools/common/report.h"
#include "tools/common/stop_signal.h"
#include "tools/common/terminal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sysexits.h>

#define BATCH 64u
/* Time between submission and send time of a packet: longer than this process is likely to be preempted, and short
   enough that nothing has to be taken back at a signal. */
#define AHEAD_NS UINT64_C(500000000)
#define START_NS UINT64_C(100000000)
/* The longest wait in one call: the rates are printed in time, and a signal that came just before is seen soon. */
#define SLICE_MS 50
#define SLICE_NS (SLICE_MS * UINT64_C(1000000))
/* After a signal, pending packets have this time to be sent. */
#define LEAVE_NS (2 * TIME_SECOND_NS)

/* The meaning of packets' statuses, in the order in which an administrator would look for causes. */
static const struct {
	int32_t status;
	const char *key;
	const char *text;
} reasons[TX_RUN_REASONS] = {
	{-EHOSTUNREACH, "no_next_hop",
         "no Ethernet address of a next hop: is there a route, does it answer, or is it this machine's own address?"},
	{-ENETDOWN, "link_down", "the link is down"},
	{-EIO, "device_error", "the device reported an error; the daemon's log says more"},
	{-EMSGSIZE, "too_long",
         "the interface's MTU is too little for the channel's payload_size now, or it was longer than that"},
	{-EINVAL, "not_allowed", "the daemon has no such destination"},
	{-ETIME, "late_dropped", "late, and dropped"},
	{-ECANCELED, "flushed", "the channel ended or its device was reset: it is not known whether they were sent"},
};

/* ---- time -------------------------------------------------------------------------------------------- */

uint64_t tx_run_start(struct tx_run *run)
{
	run->start_ns = run->printed_ns = time_monotonic_ns() + START_NS;
	run->start_utc_ns = time_utc_ns() + START_NS;
	return run->start_utc_ns;
}

uint64_t tx_run_elapsed_ns(const struct tx_run *run)
{
	uint64_t now_ns = time_monotonic_ns();

	return now_ns > run->start_ns ? now_ns - run->start_ns : 0;
}

/* ---- life ---------------------------------------------------------------------------------------- */

int tx_run_open(struct tx_run *run, const struct tx_run_options *options)
{
	int r;

	*run = (struct tx_run){
		.options = *options,
		.info = IBVCAP_INIT(struct ibvcap_tx_info),
		.slots = IBVCAP_INIT(struct ibvcap_tx_slots),
	};
	stop_signal_catch();
	setvbuf(stdout, NULL, _IOLBF, 0);
	r = ibvcap_tx_open(options->socket, options->channel, NULL, &run->tx);
	if (r < 0)
		return report_failure(options->command, r);
	ibvcap_tx_info(run->tx, &run->info);
	if (options->destination >= run->info.n_destinations) {
		fprintf(stderr, "ibvcap %s: --destination %" PRIu64 ": channel '%s' has %u, the first is 0\n",
		        options->command, options->destination, options->channel, run->info.n_destinations);
		return EX_USAGE;
	}
	run->start_ns = run->printed_ns = time_monotonic_ns();
	return EX_OK;
}

void tx_run_close(struct tx_run *run)
{
	ibvcap_tx_close(run->tx);
	run->tx = NULL;
}

/* ---- what became of them ------------------------------------------------------------------------- */

static void count_results(struct tx_run *run)
{
	int32_t statuses[256];
	uint64_t sequence;
	int n;

	do {
		n = ibvcap_tx_results(run->tx, statuses, 256, &sequence);
		for (int i = 0; i < n; i++)
			for (unsigned k = 0; statuses[i] != 0 && k < TX_RUN_REASONS; k++)
				run->reasons[k] += statuses[i] == reasons[k].status;
	} while (n == 256);
}

/* Print rates once per second, and collect the results of packets. */
static void tx_run_tick(struct tx_run *run)
{
	uint64_t now_ns = time_monotonic_ns();
	struct ibvcap_tx_counts now = IBVCAP_INIT(struct ibvcap_tx_counts);

	count_results(run);
	ibvcap_tx_counts(run->tx, &now);
	timing_drift_add(&run->drift, now_ns, now.timed, now.timed_lateness_ns);
	if (now_ns < run->printed_ns + TIME_SECOND_NS)
		return;
	if (!run->options.json) {
		const struct ibvcap_tx_counts *printed = &run->printed;
		double interval = (double)(now_ns - run->printed_ns) * 1e-9;

		printf("%6.1f s  %10.0f packets/s  %8.3f Gb/s  errored %" PRIu64 "  late %" PRIu64,
		       (double)(now_ns - run->start_ns) * 1e-9, (double)(now.completed - printed->completed) / interval,
		       (double)(now.completed_bytes - printed->completed_bytes) * 8e-9 / interval,
		       now.errored - printed->errored, now.late - printed->late);
		if (run->skipped)
			printf("  skipped %" PRIu64 " so far", run->skipped);
		terminal_print_lost(stdout, now.errored, now.completed + now.errored);
		putchar('\n');
	}
	run->printed = now;
	run->printed_ns = now_ns;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

int tx_run_push(struct tx_run *run)
{
	int r;

	/* Submitting rows overwrites the results of the packets that were in them before: collect these first. */
	tx_run_tick(run);
	r = ibvcap_tx_submit(run->tx, run->filled);
	run->filled = run->slots.n = 0;
	return r;
}

static int wait_until_due(struct tx_run *run, uint64_t utc_ns)
{
	uint64_t now = time_utc_ns();
	int r = now < utc_ns && run->filled ? tx_run_push(run) : 0;

	while (r == 0 && !stop_signal_came() && (now = time_utc_ns()) < utc_ns) {
		uint64_t ns = utc_ns - now < SLICE_NS ? utc_ns - now : SLICE_NS;

		tx_run_tick(run);
		/* Submits nothing, but returns an error soon if the daemon has ended during a long pause. */
		r = ibvcap_tx_submit(run->tx, 0);
		if (r == 0)
			nanosleep(&(struct timespec){.tv_nsec = (long)ns}, NULL);
	}
	return r;
}

static int reserve_slots(struct tx_run *run)
{
	int r = run->filled ? tx_run_push(run) : 0;

	while (r == 0 && !stop_signal_came()) {
		r = ibvcap_tx_reserve(run->tx, &run->slots, BATCH, 1, SLICE_MS);
		if (r == 0)
			tx_run_tick(run);
	}
	return r > 0 ? 0 : r < 0 ? r : -EINTR;
}

int tx_run_row(struct tx_run *run, uint64_t not_before_ns, struct tx_run_row *row)
{
	int r = not_before_ns > AHEAD_NS ? wait_until_due(run, not_before_ns - AHEAD_NS) : 0;

	if (r == 0 && run->filled == run->slots.n)
		r = reserve_slots(run);
	if (stop_signal_came())
		r = -EINTR;
	if (r < 0)
		return r;
	row->payload = run->slots.payload + (size_t)run->filled * run->slots.stride;
	row->packet = &run->slots.packets[run->filled];
	row->packet->not_before_ns = not_before_ns;
	row->packet->destination = (uint16_t)run->options.destination;
	row->packet->flags = run->options.drop_late ? IBVCAP_TX_FLAG_DROP_LATE : 0;
	return 0;
}

void tx_run_add(struct tx_run *run)
{
	run->filled++;
}

/* ---- the end ------------------------------------------------------------------------------------- */

static int flush_or_leave(struct tx_run *run)
{
	uint64_t stopped_ns = 0;
	int r;

	do {
		r = ibvcap_tx_flush(run->tx, SLICE_MS);
		tx_run_tick(run);
		if (stop_signal_came() && !stopped_ns)
			stopped_ns = time_monotonic_ns();
		if (stop_signal_came() && time_monotonic_ns() - stopped_ns >= LEAVE_NS)
			break;
	} while (r == -ETIMEDOUT || r == -EINTR);
	return r == -ETIMEDOUT || r == -EINTR ? 0 : r;
}

int tx_run_finish(struct tx_run *run, int r)
{
	struct ibvcap_tx_counts counts = IBVCAP_INIT(struct ibvcap_tx_counts);
	int code;

	if (r == 0)
		r = tx_run_push(run);
	if (r == 0 || r == -EINTR)
		r = flush_or_leave(run);
	count_results(run);
	run->end_ns = time_monotonic_ns();
	ibvcap_tx_counts(run->tx, &counts);
	code = report_end(run->options.command, "channel", run->options.channel, r);
	if (counts.pending && r == 0)
		fprintf(stderr,
		        "ibvcap %s: stopped with %" PRIu64 " packets pending: those that the daemon has taken over are "
		        "sent, the others are not\n",
		        run->options.command, counts.pending);
	return code == EX_OK && counts.submitted != counts.completed ? 1 : code;
}

static double run_seconds(const struct tx_run *run)
{
	return run->end_ns > run->start_ns ? (double)(run->end_ns - run->start_ns) * 1e-9 : 1e-9;
}

static double mean_lateness_ns(const struct ibvcap_tx_counts *counts)
{
	return counts->timed ? (double)counts->timed_lateness_ns / (double)counts->timed : 0;
}

void tx_run_print(const struct tx_run *run)
{
	double seconds = run_seconds(run);
	struct ibvcap_tx_counts counts = IBVCAP_INIT(struct ibvcap_tx_counts);

	ibvcap_tx_counts(run->tx, &counts);
	printf("%s: %" PRIu64 " packets, %" PRIu64 " payload bytes sent in %.1f s: %.0f packets/s, %.3f Gb/s\n",
	       run->options.channel, counts.completed, counts.completed_bytes, seconds,
	       (double)counts.completed / seconds, (double)counts.completed_bytes * 8e-9 / seconds);
	printf("submitted %" PRIu64 " = completed %" PRIu64 " + errored %" PRIu64 " + flushed %" PRIu64
	       " + late_dropped %" PRIu64 " + pending %" PRIu64 "\n",
	       counts.submitted, counts.completed, counts.errored, counts.flushed, counts.late_dropped, counts.pending);
	if (counts.timed) {
		double drift_ns;

		printf("timing: %" PRIu64
		       " packets had a time, and left %.1f us after it in the mean, %.1f us at most; more than "
		       "%.0f us: %" PRIu64 "; drift ",
		       counts.timed, mean_lateness_ns(&counts) * 1e-3, (double)counts.timed_lateness_max_ns * 1e-3,
		       (double)run->info.late_after_ns * 1e-3, counts.late);
		if (timing_drift_of(&run->drift, &drift_ns))
			printf("%+.1f us\n", drift_ns * 1e-3);
		else
			printf("not known, that was too short\n");
	}
	for (unsigned k = 0; k < TX_RUN_REASONS; k++)
		if (run->reasons[k])
			printf("not sent: %s %" PRIu64 ": %s\n", reasons[k].key, run->reasons[k], reasons[k].text);
}

json_t *tx_run_to_json(const struct tx_run *run)
{
	struct ibvcap_tx_counts counts = IBVCAP_INIT(struct ibvcap_tx_counts);
	json_t *not_sent = json_object();
	double drift_ns;

	ibvcap_tx_counts(run->tx, &counts);
	for (unsigned k = 0; k < TX_RUN_REASONS; k++)
		json_object_set_new(not_sent, reasons[k].key, json_integer((json_int_t)run->reasons[k]));
	return json_pack(
		"{s:i, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}",
		"schema_version", 1, "channel", run->options.channel, "seconds", run_seconds(run), "submitted",
		(json_int_t)counts.submitted, "completed", (json_int_t)counts.completed, "errored",
		(json_int_t)counts.errored, "flushed", (json_int_t)counts.flushed, "late_dropped",
		(json_int_t)counts.late_dropped, "pending", (json_int_t)counts.pending, "completed_bytes",
		(json_int_t)counts.completed_bytes, "wire_bytes", (json_int_t)counts.wire_bytes, "start_ns",
		(json_int_t)run->start_utc_ns, "late", (json_int_t)counts.late, "late_after_ns",
		(json_int_t)run->info.late_after_ns, "timed", (json_int_t)counts.timed, "timed_lateness_ns",
		(json_int_t)counts.timed_lateness_ns, "timed_lateness_max_ns", (json_int_t)counts.timed_lateness_max_ns,
		"drift_ns", timing_drift_of(&run->drift, &drift_ns) ? json_real(drift_ns) : json_null(), "not_sent",
		not_sent);
}
