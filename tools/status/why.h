// SPDX-License-Identifier: Apache-2.0
/*
 * The explanation that `ibvcap why` prints: for each term of the sums of a stream and its consumers a cause and a
 * remedy. Declares why_consumer.c, why_explain.c.
 */
#ifndef TOOLS_STATUS_WHY_H
#define TOOLS_STATUS_WHY_H

#include <ibvcap/ibvcap.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define WHY_LINES_MAX  1024
#define WHY_TEXT_BYTES 768

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
	char no_buffer_cause[WHY_TEXT_BYTES];
	char no_buffer_remedy[WHY_TEXT_BYTES];
	char fragments_cause[WHY_TEXT_BYTES];
};

struct why_facts {
	const struct ibvcap_status_stream *stream;
	const struct ibvcap_status_interface *interface; /* NULL: this user may not see it */
	const struct ibvcap_status_consumer *consumers;  /* consumers of all streams */
	uint32_t n_consumers;
	bool lacks_group; /* a multicast group of its flows is not joined */
};

/** Explain a stream and its consumers. Pure, but for the names of users. */
void why_explain(const struct why_facts *facts, struct why_report *report);

/** The part of why_explain() for one consumer. Adds lines to the report. */
void why_explain_consumer(const struct why_facts *facts, const struct ibvcap_status_consumer *consumer,
                          struct why_report *report);

/** Append to the text, which may be cut. */
void why_append(char text[WHY_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline void why_add_line(struct why_report *report, const struct why_line *line)
{
	if (report->n_lines < WHY_LINES_MAX)
		report->lines[report->n_lines++] = *line;
}

#endif
