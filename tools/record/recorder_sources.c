// SPDX-License-Identifier: Apache-2.0
/* Takes batches of rows from the sources: sleeps until there are many, and notes the losses before each batch. */
#include "tools/record/recorder.h"

#include "lib/base/time.h"
#include "tools/common/report.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#define ROWS_AT_ONCE  4096u
#define ROWS_TO_WAKE  512u  /* a sleep for each few rows would cost more than the rows */
#define ROWS_TO_NAP   2048u /* come in a nap, and at most this part of a ring: */
#define NAP_RING_PART 8
#define NAP_ROWS_MIN  64u
#define NAP_NS_MAX    4000000u
#define RAW_WAIT_MS   200
#define RAW_SETTLE_MS 20

/* ---- batches ------------------------------------------------------------------------------------- */

uint64_t recorder_rows_taken(const struct recorder *recorder)
{
	uint64_t n = recorder->n_packets;

	for (unsigned i = 0; i < recorder->n_sources; i++)
		n += recorder->sources[i].losses.sum.errored + recorder->sources[i].n_filtered;
	return n;
}

/* Rows that may wait in the ring of each source. */
static uint64_t rows_to_nap(const struct recorder *recorder)
{
	uint64_t rows = ROWS_TO_NAP, ring_rows;

	for (unsigned i = 0; i < recorder->n_sources; i++) {
		struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

		ibvcap_rx_info(recorder->sources[i].rx, &info);
		ring_rows = (uint64_t)info.history_blocks * info.slots_per_block;
		rows = ring_rows / NAP_RING_PART < rows ? ring_rows / NAP_RING_PART : rows;
	}
	return rows;
}

bool recorder_nap(struct recorder *recorder)
{
	uint64_t now_ns = time_monotonic_ns(), passed_ns = now_ns - recorder->nap_ns;
	uint64_t rows = recorder_rows_taken(recorder), n = rows - recorder->nap_rows, nap_ns;
	struct timespec nap;

	recorder->nap_rows = rows;
	recorder->nap_ns = now_ns;
	if (n * NAP_NS_MAX <= passed_ns * NAP_ROWS_MIN)
		return false;
	nap_ns = passed_ns * rows_to_nap(recorder) / n;
	nap = (struct timespec){.tv_nsec = nap_ns < NAP_NS_MAX ? (long)nap_ns : NAP_NS_MAX};
	nanosleep(&nap, NULL);
	return true;
}

/* The source cannot be read any more. 0: other sources go on. Without other sources: the error. */
static int end_source(const struct recorder *recorder, struct source *source, int error)
{
	unsigned n = 0;

	source->end_error = error;
	for (unsigned i = 0; i < recorder->n_sources; i++)
		n += !recorder->sources[i].end_error;
	if (n && error != -EIO) { /* source_tell_changes() has told of -EIO */
		report_end("record", "stream", source->name, error);
		fprintf(stderr,
		        "ibvcap record: %s: later files have none of its packets, and say so; to record it "
		        "again, start the recording again\n",
		        source->name);
	}
	return n ? 0 : error;
}

/* How many rows to ask for: at most, and at least within timeout_ms. */
static uint32_t rows_to_ask_for(const struct recorder *recorder, int timeout_ms, uint32_t *min)
{
	uint64_t left = recorder->options.count - recorder->n_packets, most = ROWS_AT_ONCE;

	if (recorder->options.raw) { /* whole blocks, as far as the file takes them */
		most = output_rows_left(&recorder->options, SLIST_FIRST(&recorder->outputs));
		most = most < INT32_MAX ? most : INT32_MAX;
	}
	most = left < most ? left : most;
	*min = recorder->options.raw ? (uint32_t)most : ROWS_TO_WAKE;
	/* The program at the other end of a pipe gets packets as they come. */
	if (!timeout_ms || !strcmp(recorder->options.path, "-"))
		*min = 1;
	return (uint32_t)most;
}

int recorder_fill(struct recorder *recorder, struct source *source, int timeout_ms)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	uint32_t min, max;
	int r;

	if (source->has_batch || source->end_error)
		return source->has_batch;
	max = rows_to_ask_for(recorder, timeout_ms, &min);
	r = ibvcap_rx_acquire(source->rx, &source->batch, max, min, timeout_ms);
	if (r <= 0) {
		losses_caught_up(&source->losses, time_monotonic_ns());
		source_tell_changes(source);
		if (r == 0)
			source_tell_away(source);
		return r == 0 || r == -EINTR ? r : end_source(recorder, source, r);
	}
	source->has_batch = true;
	source->next = 0;
	losses_of_batch(&source->losses, source->rx, &source->batch, &(source - source->queue)->card,
	                time_monotonic_ns());
	if (source->batch.flags & IBVCAP_RX_BATCH_FLAG_GAP_UNKNOWN)
		source_tell_changes(source);
	/* Under a steady load a source is never empty. */
	if (ibvcap_rx_counts(source->rx, &counts) == 0 && counts.lag < ROWS_AT_ONCE)
		losses_caught_up(&source->losses, time_monotonic_ns());
	return 1;
}

void recorder_release(struct source *source)
{
	if (source->has_batch)
		ibvcap_rx_release(source->rx, &source->batch);
	source->has_batch = false;
}

int recorder_oldest(const struct recorder *recorder, uint64_t *until_ns)
{
	uint64_t oldest_ns = UINT64_MAX;
	int oldest = -1;

	*until_ns = UINT64_MAX;
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];
		uint64_t ns;

		if (!source->has_batch)
			continue;
		ns = source->batch.meta[source->next].timestamp_ns;
		if (oldest < 0 || ns < oldest_ns) {
			*until_ns = oldest_ns;
			oldest_ns = ns;
			oldest = (int)i;
		} else if (ns < *until_ns) {
			*until_ns = ns;
		}
	}
	return oldest;
}

int recorder_row_wait_ms(const struct recorder *recorder)
{
	if (!recorder->options.raw)
		return 0;
	return recorder->sources[0].from.is_settled && STAILQ_EMPTY(&recorder->ending) ? RAW_WAIT_MS : RAW_SETTLE_MS;
}

int recorder_wait(struct recorder *recorder)
{
	struct pollfd fds[RECORD_SOURCES_MAX];
	int r;

	if (recorder->n_sources == 1) {
		r = recorder_fill(recorder, &recorder->sources[0], RECORDER_SLEEP_MS);
		return r < 0 && r != -EINTR ? r : 0;
	}
	for (unsigned i = 0; i < recorder->n_sources; i++) {
		const struct source *source = &recorder->sources[i];

		fds[i] = (struct pollfd){.fd = source->end_error ? -1 : ibvcap_rx_fd(source->rx), .events = POLLIN};
	}
	poll(fds, recorder->n_sources, RECORDER_SLEEP_MS);
	return 0;
}
