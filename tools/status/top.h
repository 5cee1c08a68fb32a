// SPDX-License-Identifier: Apache-2.0
/*
 * The view of `ibvcap top`: two answers of the daemon, and the rates between them. It is pure; the caller puts its
 * lines on a terminal (top_screen.c) or on standard output. Declares top_*.c.
 */
#ifndef TOOLS_STATUS_TOP_H
#define TOOLS_STATUS_TOP_H

#include "tools/status/status_view.h"

#include <stdbool.h>

struct top_view {
	struct status_view now;
	struct status_view before; /* all zero: none */
	uint64_t now_at_ns;        /* when the last answer came */
	uint64_t interval_ns;      /* between the two */
};

/** Take an answer, which came at at_ns, as the present one; NULL: the daemon did not answer, so both are dropped. */
void top_view_take(struct top_view *view, const struct status_view *answer, uint64_t at_ns);

/*
 * The counters that the same stream, consumer, … had in the earlier answer. None if it was not there then, or belonged
 * to another run of the daemon. at points into view->now.
 */
struct counters top_before(const struct top_view *view, enum status_kind_of_part kind, const void *at);
/* The same of a stream over all its queues; now: those of the present answer. */
struct counters top_sum_before(const struct top_view *view, const struct ibvcap_status_stream *at, struct counters now,
                               struct stream_sum *sum);

/** The rate per second of the sum of some counters; labels ends with NULL. Negative if it is not known. */
double top_rate(const struct top_view *view, struct counters now, struct counters before, const char *const *labels);

/** How many rows the slowest consumer of the stream has not acquired yet. */
uint64_t top_stream_lag(const struct status_view *status, const struct ibvcap_status_stream *stream);

/** Rows in percent of the stream's history. At 100 a lossy consumer begins to skip. */
unsigned top_fill_percent(const struct ibvcap_status_stream *stream, uint64_t rows);

/**
 * How late packets of a channel or sender left, as the mean over the interval: after their own send times, or, if none
 * had one, after the rate allowed them. Negative if none left.
 */
double top_lateness_ns(struct counters now, struct counters before);

enum top_style {
	TOP_PLAIN,
	TOP_HEADING,
	TOP_TROUBLE, /* packets are being lost */
};
typedef void top_put(void *context, enum top_style style, const char *line);

/** Print the whole view, line by line. */
void top_print(const struct top_view *view, top_put *put, void *context);

/** The JSON of `ibvcap status`, with "per_s" in each entry: the rates of the counters that only grow, or null. */
json_t *top_to_json(const struct top_view *view);

struct top_options {
	const char *socket;
	uint64_t interval_ns;
	bool once;
	bool json;
};

/** Show what changes, until the user or a signal ends it; with once, one interval. Returns the exit code. */
int top_run(const struct top_options *options);

/* ---- the terminal: keys scroll its lines, which are drawn again when it changes its size --------- */

struct top_screen;

/** Take the terminal over. NULL if standard output is no terminal, or one that ncurses does not know. */
struct top_screen *top_screen_new(void);

/** Give the terminal back in the state in which it was. NULL is allowed. */
void top_screen_free(struct top_screen *screen);

/** Clear the lines, add lines (a top_put with the screen as context), and show them. */
void top_screen_clear(struct top_screen *screen);
void top_screen_put(void *screen, enum top_style style, const char *line);
void top_screen_show(struct top_screen *screen);

/** Handle keys for ns, or until a signal comes. False if the user wants to quit. */
bool top_screen_wait(struct top_screen *screen, uint64_t ns);

#endif
