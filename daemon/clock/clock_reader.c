// SPDX-License-Identifier: Apache-2.0
/* Takes pairs of readings, and finds out when the value on a page that a thread writes was taken from the clock. */
#include "daemon/clock/clock_reader.h"

#include <errno.h>

#define TRIES 8

/* A pair this tight needs no better one. */
#define TIGHT_NS 2000

static int clock_take_pair(const struct clock_reader *reader, struct clock_pair *pair)
{
	uint64_t before_ns = reader->utc_ns(reader->context), after_ns;
	int r;

	*pair = (struct clock_pair){0};
	r = reader->read(reader->context, pair);
	after_ns = reader->utc_ns(reader->context);
	if (pair->before_ns == 0) {
		pair->before_ns = before_ns;
		pair->after_ns = after_ns;
	}
	return r;
}

/* A pair whose end is before its begin, because CLOCK_REALTIME was set back, is wider than any other. */
static uint64_t clock_bracket_ns(const struct clock_pair *pair)
{
	return pair->after_ns >= pair->before_ns ? pair->after_ns - pair->before_ns : UINT64_MAX;
}

static void clock_keep_tightest(struct clock_pair *best, const struct clock_pair *pair)
{
	if (clock_bracket_ns(pair) < clock_bracket_ns(best))
		*best = *pair;
}

/*
 * A thread takes a value from the clock, is perhaps held up, and writes it; then the next value. So a value was taken
 * after the value before it was written, which was after the last reading that gave the value before that one.
 */
static int clock_watch_page(const struct clock_reader *reader, uint64_t patience_ns, struct clock_pair *best)
{
	struct clock_pair now, last;
	uint64_t begin_ns, written_after_ns = 0; /* the value of last was written after this; 0: not known */
	int r = clock_take_pair(reader, &last);

	begin_ns = last.before_ns;
	while (r == 0 && clock_bracket_ns(best) > TIGHT_NS && last.after_ns - begin_ns < patience_ns) {
		r = clock_take_pair(reader, &now);
		if (r == 0 && now.raw != last.raw) {
			if (written_after_ns)
				clock_keep_tightest(best,
				                    &(struct clock_pair){now.raw, written_after_ns, now.after_ns});
			written_after_ns = last.before_ns;
		}
		last = now;
	}
	return r;
}

int clock_read_pair(const struct clock_reader *reader, uint64_t patience_ns, struct clock_pair *pair)
{
	const struct clock_pair none = {.before_ns = 1};
	struct clock_pair now;
	uint64_t last_raw = 0;
	bool is_page = false;
	int r = 0;

	*pair = none;
	for (int i = 0; i < TRIES && r == 0; i++) {
		r = clock_take_pair(reader, &now);
		is_page |= i > 0 && now.raw == last_raw;
		last_raw = now.raw;
		clock_keep_tightest(pair, &now);
	}
	if (r == 0 && is_page) {
		*pair = none;
		r = clock_watch_page(reader, patience_ns, pair);
	}
	if (r < 0)
		return r;
	return clock_bracket_ns(pair) == UINT64_MAX ? -EAGAIN : 0;
}
