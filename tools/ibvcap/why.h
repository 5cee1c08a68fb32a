// SPDX-License-Identifier: Apache-2.0
/* ibvcap why: the sum from the wire to each reader, and for every term of it what is behind it and what helps. */
#ifndef TOOLS_IBVCAP_WHY_H
#define TOOLS_IBVCAP_WHY_H

#include <ibvcap/ibvcap.h>
#include <stdint.h>
#include <stdio.h>

#define WHY_LINES_MAX 1024

enum why_level {
	WHY_OK,
	WHY_NOTE, /* worth knowing; nothing is lost by it */
	WHY_LOSS, /* packets that were sent and did not arrive, or not whole */
};

struct why_line {
	enum why_level level;
	const char *place;                             /* "port", "stream", "consumer" */
	const struct ibvcap_status_consumer *consumer; /* NULL: not of one */
	const char *term;                              /* as the counter's label */
	uint64_t value;
	const char *cause;  /* what it means here, and what is behind it */
	const char *remedy; /* NULL: none is needed */
	uint64_t last;      /* of value: so many the last time, */
	uint64_t from_ns;   /* … between these, UTC; 0: not known */
	uint64_t to_ns;
};

struct why_report {
	struct why_line lines[WHY_LINES_MAX];
	uint32_t n_lines;
	char link_remedy[128]; /* a line's, with the interface's name */
};

struct why_facts {
	const struct ibvcap_status_stream *stream;
	const struct ibvcap_status_interface *interface; /* NULL: not to be seen */
	const struct ibvcap_status_consumer *consumers;  /* of all streams */
	uint32_t n_consumers;
};

/** Pure. */
void why_explain(const struct why_facts *facts, struct why_report *report);

#endif
