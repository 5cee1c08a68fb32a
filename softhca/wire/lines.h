// SPDX-License-Identifier: Apache-2.0
/* Lines about objects and events, for people (`qp qpn=64 state=RTS`) or as JSON, one object a line. */
#ifndef SOFTHCA_WIRE_LINES_H
#define SOFTHCA_WIRE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINES_LONGEST 2048 /* room for the longest line */

struct lines {
	char *text;
	size_t bytes, size;
	bool json;
	void (*make_room)(struct lines *r); /* called when a line may not fit: enlarges the text or takes it away */
};

void lines_begin(struct lines *r, const char *what);
void lines_number(struct lines *r, const char *name, uint64_t value);
void lines_hex(struct lines *r, const char *name, uint64_t value);
/* Any text; in a line for people it is quoted if it has spaces. */
void lines_text(struct lines *r, const char *name, const char *value);
void lines_flag(struct lines *r, const char *name, bool value);
/* CLOCK_REALTIME, as seconds with nine decimals. */
void lines_time(struct lines *r, const char *name, uint64_t realtime_ns);
void lines_end(struct lines *r);

/* make_room() of a text on the heap, which the caller frees. */
void lines_enlarge(struct lines *r);

#endif
