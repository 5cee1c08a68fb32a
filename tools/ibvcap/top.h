// SPDX-License-Identifier: Apache-2.0
/*
 * ibvcap top: what happens now, as the difference of two statuses. The view is pure; lines of it go to a terminal
 * (top_screen.h) or to stdout.
 */
#ifndef TOOLS_IBVCAP_TOP_H
#define TOOLS_IBVCAP_TOP_H

#include "tools/ibvcap/status_view.h"

#include <stdbool.h>

struct top_view {
	struct status_view now;
	struct status_view before; /* all zero: there is none */
	uint64_t interval_ns;      /* between the two */
};

/*
 * The counters that the same stream, consumer, … had before; none where it is another: the daemon ended in between, or
 * it came since. at is one of now's.
 */
struct counters top_stream_before(const struct top_view *view, const struct ibvcap_status_stream *at);
struct counters top_consumer_before(const struct top_view *view, const struct ibvcap_status_consumer *at);
struct counters top_channel_before(const struct top_view *view, const struct ibvcap_status_channel *at);
struct counters top_sender_before(const struct top_view *view, const struct ibvcap_status_sender *at);
struct counters top_interface_before(const struct top_view *view, const struct ibvcap_status_interface *at);

/** Does it only grow, while its owner lives? What is a level or a maximum has no rate. */
bool top_is_total(const char *label);

/** A second, of the sum of some totals; labels ends with NULL. Negative: not known. */
double top_rate(const struct top_view *view, struct counters now, struct counters before, const char *const *labels);

/** The rows that the slowest of its consumers has still ahead of it. */
uint64_t top_stream_lag(const struct status_view *status, const struct ibvcap_status_stream *stream);

/** Of the stream's history, in percent; 100: a lossy consumer begins to skip. */
unsigned top_fill_percent(const struct ibvcap_status_stream *stream, uint64_t rows);

/**
 * How late packets of a channel or sender left: after their own times, or, where none has one, after its rate let them.
 * Mean over the interval; negative: none left.
 */
double top_lateness_ns(struct counters now, struct counters before);

enum top_style {
	TOP_PLAIN,
	TOP_HEADING,
	TOP_TROUBLE, /* something is lost now */
};
typedef void top_put(void *context, enum top_style style, const char *line);

/** The whole view, line by line. */
void top_print(const struct top_view *view, top_put *put, void *context);

/** What `ibvcap status --json` says, and of each part "per_s": an object of its totals' rates, or null. */
json_t *top_to_json(const struct top_view *view);

#endif
