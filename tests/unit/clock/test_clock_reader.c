// SPDX-License-Identifier: Apache-2.0
/* Pairs of readings are true: of a clock that is read itself, and of a page that a thread writes, however late. */
#include "daemon/clock/clock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define START_NS    UINT64_C(1000000000000)
#define PATIENCE_NS UINT64_C(20000000)

/* A machine whose device counts the nanoseconds that pass on it. Each reading of a clock takes 20 ns. */
struct machine {
	uint64_t now_ns;
	bool is_page;        /* a thread writes the clock to a page, which is read; else the clock is read */
	uint64_t page;       /* what it holds: the time at which the value was taken from the clock */
	uint64_t next_taken; /* of the value that the thread writes next */
	uint64_t next_written_ns;
	unsigned n_row; /* values of a row that are still to be written */
	unsigned busy;  /* of 1000 steps of either thread, in so many it is held up */
	uint64_t period_ns;
};

static uint64_t held_up_ns(const struct machine *m, uint64_t most_ns)
{
	return (unsigned)rand() % 1000 < m->busy ? (uint64_t)rand() % most_ns : 0;
}

/* Time passes, and the thread writes what is due. */
static void pass(struct machine *m, uint64_t ns)
{
	m->now_ns += ns + held_up_ns(m, 3000000);
	while (m->is_page && m->next_written_ns <= m->now_ns) {
		bool ends_row = m->n_row == 0;

		m->page = m->next_taken;
		m->n_row = ends_row ? 3 : m->n_row - 1;
		m->next_taken = m->next_written_ns + (ends_row ? m->period_ns : 300) + held_up_ns(m, 5000000);
		m->next_written_ns = m->next_taken + 15 + held_up_ns(m, 5000000);
	}
}

static int read_raw(void *context, struct clock_pair *pair)
{
	struct machine *m = context;

	pass(m, 10);
	pair->raw = m->is_page ? m->page : m->now_ns;
	pass(m, 10);
	return 0;
}

static uint64_t read_utc(void *context)
{
	struct machine *m = context;

	pass(m, 20);
	return m->now_ns;
}

static int take(struct machine *m, struct clock_pair *pair)
{
	const struct clock_reader reader = {read_raw, read_utc, m};

	return clock_read_pair(&reader, PATIENCE_NS, pair);
}

static struct machine new_machine(bool is_page, unsigned busy)
{
	return (struct machine){.now_ns = START_NS,
	                        .is_page = is_page,
	                        .next_taken = START_NS,
	                        .next_written_ns = START_NS + 15,
	                        .busy = busy,
	                        .period_ns = 500000};
}

Test(clock_reader, a_clock_that_is_read_itself_has_the_bracket_of_one_reading)
{
	struct machine m = new_machine(false, 0);
	struct clock_pair pair;

	cr_expect(eq(int, take(&m, &pair), 0));
	cr_expect(eq(u64, pair.after_ns - pair.before_ns, 40));
	cr_expect(pair.before_ns < pair.raw && pair.raw < pair.after_ns);
	cr_expect(lt(u64, m.now_ns, START_NS + 1000), "and takes no longer than a few readings");
}

static int read_with_bracket(void *context, struct clock_pair *pair)
{
	struct machine *m = context;

	pass(m, 1000);
	*pair = (struct clock_pair){m->now_ns, m->now_ns - 5, m->now_ns + 5};
	pass(m, 1000);
	return 0;
}

Test(clock_reader, a_driver_that_reads_both_clocks_gives_a_closer_bracket)
{
	struct machine m = new_machine(false, 0);
	const struct clock_reader reader = {read_with_bracket, read_utc, &m};
	struct clock_pair pair;

	cr_assert(eq(int, clock_read_pair(&reader, PATIENCE_NS, &pair), 0));
	cr_expect(eq(u64, pair.after_ns - pair.before_ns, 10));
	cr_expect(eq(u64, pair.raw, pair.before_ns + 5));
}

Test(clock_reader, the_value_of_a_page_was_taken_within_the_bracket_whoever_is_held_up)
{
	static const unsigned busy[] = {0, 1, 20}, least_tight[] = {5000, 2500, 1};
	struct clock_pair pair;

	srand(13);
	for (size_t i = 0; i < 3; i++) {
		struct machine m = new_machine(true, busy[i]);
		unsigned n_tight = 0, n_none = 0;

		for (unsigned n = 0; n < 5000; n++) {
			pass(&m, 1000000);
			if (take(&m, &pair) == -EAGAIN) {
				n_none++;
				continue;
			}
			cr_assert(le(u64, pair.before_ns, pair.raw), "pair %u: taken %llu ns before the bracket", n,
			          (unsigned long long)(pair.before_ns - pair.raw));
			cr_assert(le(u64, pair.raw, pair.after_ns));
			n_tight += pair.after_ns - pair.before_ns <= 2000;
		}
		cr_expect(ge(u32, n_tight, least_tight[i]), "busy %u: %u tight, %u without a pair", busy[i], n_tight,
		          n_none);
	}
}

Test(clock_reader, a_page_that_is_written_too_seldom_gives_no_pair)
{
	struct machine m = new_machine(true, 0);
	struct clock_pair pair;

	m.next_written_ns = UINT64_MAX;
	cr_expect(eq(int, take(&m, &pair), -EAGAIN));
	cr_expect(lt(u64, m.now_ns, START_NS + PATIENCE_NS + 10000));
}

static int read_nothing(void *context, struct clock_pair *pair)
{
	(void)context;
	(void)pair;
	return -EIO;
}

Test(clock_reader, a_clock_that_cannot_be_read_is_a_failure)
{
	struct machine m = new_machine(false, 0);
	const struct clock_reader reader = {read_nothing, read_utc, &m};
	struct clock_pair pair;

	cr_expect(eq(int, clock_read_pair(&reader, PATIENCE_NS, &pair), -EIO));
}

Test(clock_reader, a_line_that_is_not_renewed_says_so_in_its_bound)
{
	const struct clock_pair first = {START_NS, START_NS, START_NS + 100};
	struct clock_line line;
	struct clock_fit fit;
	uint64_t before_ns;

	clock_fit_init(&fit, 1000000000, UINT64_MAX);
	clock_fit_add(&fit, &first, &line);
	before_ns = line.error_ns;
	clock_fit_miss(&fit, &line);
	cr_expect(eq(u64, line.error_ns, before_ns + 300000), "300 ppm, the nominal tolerance, of a second");
}
