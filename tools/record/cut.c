// SPDX-License-Identifier: Apache-2.0
/* Finds out whether all rows until a time were taken from queues of which some have no row now. */
#include "tools/record/cut.h"

#include "lib/base/min.h"
#include "lib/base/time.h"
#include "tools/record/account.h"

#define CUT_RING_PART 4u /* of the ring of a source may fill while the end of a file is found */

/* When the moment is settled, all rows from before it are in the ring. */
bool source_is_past(const struct source *source, uint64_t ns, struct ibvcap_rx_moment *moment)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	if (source->n_queues == 1 || source->end_error)
		return true;
	if (source->has_batch)
		return source->batch.meta[source->next].timestamp_ns >= ns;
	return source_settle(source, moment) && ibvcap_rx_counts(source->rx, &counts) == 0 && counts.lag == 0;
}

/* The ring is the buffer while the source waits for others. */
static bool must_be_read(const struct source *source)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	ibvcap_rx_info(source->rx, &info);
	ibvcap_rx_counts(source->rx, &counts);
	return counts.lag > (uint64_t)info.history_blocks * info.slots_per_block / CUT_RING_PART;
}

/* The moment is behind ns, a time of which a packet has come, and behind all that have passed by the clock. */
static void take_edge(struct source *source, uint64_t ns)
{
	uint64_t now_ns = time_utc_ns();

	source->edge_ns = u64_max(ns, now_ns - u64_min(source_clock_error_ns(source), now_ns));
	source_take_moment(source, &source->edge);
}

bool sources_are_past(struct source *sources, unsigned n, uint64_t ns)
{
	bool is_past = true;

	for (unsigned i = 0; i < n; i++) {
		struct source *source = &sources[i];

		if (!source->has_batch && ns > source->edge_ns)
			take_edge(source, ns);
		is_past &= source_is_past(source, ns, &source->edge);
	}
	return is_past;
}

bool sources_may_be_cut(struct source *sources, unsigned n, uint64_t ns, bool is_end)
{
	bool must_go_on = false;
	uint64_t now_ns;

	if (sources_are_past(sources, n, ns))
		return true;
	now_ns = time_monotonic_ns(); /* no edge is newer */
	for (unsigned i = 0; i < n; i++) {
		const struct source *source = &sources[i];

		must_go_on |= !is_end && must_be_read(source);
		must_go_on |= !source->has_batch && !source->edge.is_settled &&
		              now_ns - source->edge.monotonic_ns > SETTLE_NS_MAX;
	}
	return must_go_on;
}
