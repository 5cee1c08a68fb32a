// SPDX-License-Identifier: Apache-2.0
/*
 * The explanation that `ibvcap why` prints: for each term of the sums of a stream and its consumers a cause and a
 * remedy; and its text and JSON. Declares why_consumer.c, why_explain.c, why_facts.c, why_json.c, why_print.c,
 * why_rank.c, why_rows.c.
 */
#ifndef TOOLS_STATUS_WHY_H
#define TOOLS_STATUS_WHY_H

#include "lib/status/counters.h"
#include "tools/status/status_view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define WHY_LINES_MAX  1024
#define WHY_TEXT_BYTES 768
#define WHY_QUIET_S    1 /* between two readings that tell whether packets come now */

enum why_level {
	WHY_OK,
	WHY_NOTE, /* worth knowing, but no loss */
	WHY_LOSS, /* packets were lost or damaged */
};

struct why_line {
	enum why_level level;
	const char *place;                             /* "port", "stream", "consumer" */
	const struct ibvcap_status_consumer *consumer; /* NULL: the line is not about a consumer */
	const char *term;                              /* the counter's label */
	uint64_t value;
	bool is_unknown;    /* value is not known */
	const char *cause;  /* meaning of the value here */
	const char *remedy; /* what helps; NULL: nothing is needed */
	uint64_t last;      /* part of value that was lost last */
	uint64_t from_ns;   /* … between these times, UTC; 0: not known */
	uint64_t to_ns;
};

struct why_report {
	struct why_line lines[WHY_LINES_MAX];
	uint32_t n_lines;
	/* Texts that lines point to. */
	char link_remedy[192];
	char interface_remedies[INTERFACE_COUNTER_N][STATUS_REMEDY_BYTES];
	char no_buffer_cause[WHY_TEXT_BYTES];
	char no_buffer_remedy[WHY_TEXT_BYTES];
	char fragments_cause[WHY_TEXT_BYTES];
	char irregular_cause[WHY_TEXT_BYTES];
	char irregular_remedy[WHY_TEXT_BYTES];
	char longer_remedy[WHY_TEXT_BYTES]; /* against packets that are longer than their rows */
};

struct why_facts {
	const struct ibvcap_status_stream *stream;
	const struct ibvcap_status_interface *interface; /* NULL: this user may not see it */
	const struct ibvcap_status_consumer *consumers;  /* consumers of all streams */
	uint32_t n_consumers;
	bool lacks_group; /* a multicast group of its flows is not joined */
	bool is_quiet;    /* packets have matched before, and none in WHY_QUIET_S; false: or it is not known */
};

/** Explain a stream and its consumers. Pure, but for the names of users. */
void why_explain(const struct why_facts *facts, struct why_report *report);

/** The part of why_explain() for rows and what they lack. Adds lines to the report. */
void why_explain_rows(const struct why_facts *facts, struct why_report *report);

/** The part of why_explain() for one consumer. Adds lines to the report. */
void why_explain_consumer(const struct why_facts *facts, const struct ibvcap_status_consumer *consumer,
                          struct why_report *report);

/* A stream over all its queues. */
struct why_stream {
	struct ibvcap_status_stream whole;
	struct stream_sum sum;
	struct why_facts facts;
};

/** Gather the facts of a stream, of which one queue's entry is given. They point into stream and view. */
void why_stream_init(struct why_stream *stream, const struct status_view *view,
                     const struct ibvcap_status_stream *queue);

/**
 * The order of all parts of a kind in which the worst comes first: the index of each in the view. First come those that
 * are stopped, then those that lost packets (the most of one cause first), then those of which losses are not known,
 * then those with a note. The first queue of a stream has its place. The caller frees it; NULL: no memory.
 */
int *why_worst_first(const struct status_view *view, enum status_kind_of_part kind);

/* ---- text and JSON ------------------------------------------------------------------------------- */

struct why_look;
extern const char *const why_level_names[]; /* by enum why_level */

/** The caller frees it. look may be NULL. */
json_t *why_report_to_json(const struct why_facts *facts, const struct why_report *report, const struct why_look *look);

/** The reports of all streams, the worst first, without a look at what arrives. The caller frees it. */
json_t *why_to_json(const struct status_view *view);

/** Has a packet ever matched that stream? */
bool why_has_matched(const struct status_view *view, const char *stream);

/**
 * Explain the stream, or the two of that name, of which one ends. before: an earlier reading, or NULL. Returns their
 * number: 0 if there is none.
 */
int why_print(const struct status_view *view, const struct status_view *before, const char *stream, bool as_json);

/** Look at the UDP that arrives on the interface, and print it. False: it could not, and the output says why. */
bool why_print_interface(const char *interface, bool as_json);

/** Append to the text, which may be cut. */
__attribute__((format(printf, 2, 3))) static inline void why_append(char text[WHY_TEXT_BYTES], const char *format, ...)
{
	size_t used = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + used, WHY_TEXT_BYTES - used, format, arguments);
	va_end(arguments);
}

static inline uint64_t why_stream_counter(const struct why_facts *facts, const char *label)
{
	return counters_value(COUNTERS_OF(facts->stream), label);
}

static inline void why_add_line(struct why_report *report, const struct why_line *line)
{
	if (report->n_lines < WHY_LINES_MAX)
		report->lines[report->n_lines++] = *line;
}

/** A line that is not about a consumer. */
static inline void why_add_stream_line(struct why_report *report, enum why_level level, const char *place,
                                       const char *term, uint64_t value, const char *cause, const char *remedy)
{
	why_add_line(report, &(struct why_line){.level = level,
	                                        .place = place,
	                                        .term = term,
	                                        .value = value,
	                                        .cause = cause,
	                                        .remedy = remedy});
}

#endif
