// SPDX-License-Identifier: Apache-2.0
/*
 * Random histories of a simulated machine: readings, lines and stamps as in the daemon, against the true time of each
 * packet. No stamp may be wrong by more than the bound that was published for it.
 */
#include "daemon/clock/clock.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>

#define US          UINT64_C(1000)
#define MS          UINT64_C(1000000)
#define NS_PER_S    UINT64_C(1000000000)
#define START_NS    (1000 * NS_PER_S)
#define EPOCH_NS    UINT64_C(1790000000000000000)
#define PATIENCE_NS (2 * MS)

/* ---- chance -------------------------------------------------------------------------------------- */

static uint64_t chance_state;

static uint64_t chance_below(uint64_t n)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return chance_state % n;
}

static int64_t chance_within(int64_t n)
{
	return (int64_t)chance_below(2 * (uint64_t)n + 1) - n;
}

static bool chance_once_in(uint64_t n)
{
	return chance_below(n) == 0;
}

/* ---- clocks -------------------------------------------------------------------------------------- */

/* A clock in ns, with a rate that is off by so much since its last change. */
struct motion {
	uint64_t since_ns;
	uint64_t value_ns;
	int64_t off_ppb;
	uint64_t next_ns; /* when it is changed again */
};

static uint64_t motion_at(const struct motion *motion, uint64_t now_ns)
{
	int64_t passed = (int64_t)(now_ns - motion->since_ns);

	return motion->value_ns + (uint64_t)(passed + (int64_t)((__int128)passed * motion->off_ppb / 1000000000));
}

static void motion_change(struct motion *motion, int64_t step_ns, int64_t off_ppb)
{
	uint64_t now_ns = motion->next_ns;

	motion->value_ns = motion_at(motion, now_ns) + (uint64_t)step_ns;
	motion->since_ns = now_ns;
	motion->off_ppb = off_ppb;
}

enum steering {
	STEERING_NONE,  /* a crystal, whose rate wanders by some ppb a second */
	STEERING_SERVO, /* ptp4l, phc2sys: a small change of the rate, eight times a second */
	STEERING_SLEW,  /* ntpd: up to 500 ppm for seconds to minutes */
	STEERING_FAST,  /* chronyd: up to 8 % */
	STEERING_STEP,  /* set by 10 us to an hour */
	N_STEERING,
};

struct machine {
	uint64_t seed, now_ns;
	struct motion device, system;
	enum steering device_steering, system_steering;
	int64_t crystal_ppb; /* of the device */
	uint64_t hz, mask, raw_at_start;
	bool is_loaded; /* threads wait for a CPU */
	bool was_set;   /* CLOCK_REALTIME: the kernel wakes the control thread */

	struct clock_fit fit;
	struct clock_line line, workers; /* of the control thread, of the worker */
	uint64_t published_ns, before_ns, newest_ns;
	uint64_t worst_ns;     /* error of the stamps since the bound was published last */
	uint64_t line_at_ns;   /* when the worker takes the line */
	uint64_t round_at_ns;  /* when the control thread renews it */
	uint64_t packet_at_ns; /* the next packet arrives */
	uint64_t n_stamps, n_wrong, n_rounds;
};

static int64_t random_step_ns(void)
{
	static const int64_t sizes[] = {10000, 300000, 2000000, 50000000, 3600000000000};

	return chance_within(sizes[chance_below(5)]);
}

static void motion_steer(struct motion *motion, enum steering steering, int64_t crystal_ppb)
{
	switch (steering) {
	case STEERING_SERVO:
		motion_change(motion, 0, crystal_ppb + chance_within(300));
		motion->next_ns += NS_PER_S / 8;
		break;
	case STEERING_SLEW:
		motion_change(motion, 0, crystal_ppb + (chance_once_in(2) ? chance_within(500000) : 0));
		motion->next_ns += 4 * NS_PER_S + chance_below(100 * NS_PER_S);
		break;
	case STEERING_FAST:
		motion_change(motion, 0, crystal_ppb + (chance_once_in(2) ? chance_within(80000000) : 0));
		motion->next_ns += 4 * NS_PER_S + chance_below(100 * NS_PER_S);
		break;
	case STEERING_STEP:
		motion_change(motion, random_step_ns(), crystal_ppb);
		motion->next_ns += 4 * NS_PER_S + chance_below(60 * NS_PER_S);
		break;
	default:
		motion_change(motion, 0, crystal_ppb + chance_within(20));
		motion->next_ns += NS_PER_S;
	}
}

static void advance(struct machine *m, uint64_t now_ns)
{
	m->now_ns = now_ns;
	while (m->device.next_ns <= now_ns)
		motion_steer(&m->device, m->device_steering, m->crystal_ppb);
	while (m->system.next_ns <= now_ns) {
		m->was_set |= m->system_steering == STEERING_STEP;
		motion_steer(&m->system, m->system_steering, 30000);
	}
}

static uint64_t device_raw(const struct machine *m)
{
	uint64_t ns = motion_at(&m->device, m->now_ns);

	return (m->raw_at_start + (uint64_t)((unsigned __int128)ns * m->hz / NS_PER_S)) & m->mask;
}

/* A part of a reading takes this long; the thread may lose its CPU in it. */
static void pass(struct machine *m, uint64_t ns)
{
	advance(m, m->now_ns + ns + (m->is_loaded && chance_once_in(20) ? chance_below(3 * MS) : 0));
}

static int read_device(void *context, struct clock_pair *pair)
{
	struct machine *m = context;

	pass(m, 400);
	pair->raw = device_raw(m);
	pass(m, 300);
	return 0;
}

static uint64_t read_system(void *context)
{
	struct machine *m = context;

	pass(m, 20);
	return motion_at(&m->system, m->now_ns);
}

/* ---- the daemon ---------------------------------------------------------------------------------- */

static void follow_utc(struct machine *m)
{
	uint64_t now_ns = motion_at(&m->system, m->now_ns);

	if (m->newest_ns > now_ns + m->workers.error_ns)
		m->newest_ns = now_ns;
}

static void control_publish(struct machine *m, uint64_t error_ns)
{
	if (m->worst_ns > m->published_ns && m->worst_ns > error_ns) {
		m->n_wrong++;
		cr_log_error("seed %" PRIu64 ", round %" PRIu64 ": wrong by %" PRIu64 " ns, bounds %" PRIu64
		             " and %" PRIu64 " ns",
		             m->seed, m->n_rounds, m->worst_ns, m->published_ns, error_ns);
	}
	m->worst_ns = 0;
	m->published_ns = error_ns;
}

static void control_round(struct machine *m)
{
	const struct clock_reader reader = {read_device, read_system, m};
	struct clock_pair pair;
	uint64_t error_ns;

	m->was_set = false;
	m->n_rounds++;
	if (clock_read_pair(&reader, PATIENCE_NS, &pair) == 0)
		clock_fit_add(&m->fit, &pair, &m->line);
	else
		clock_fit_miss(&m->fit, &m->line);
	error_ns = m->line.error_ns > m->before_ns ? m->line.error_ns : m->before_ns;
	error_ns = m->fit.past_error_ns > error_ns ? m->fit.past_error_ns : error_ns;
	control_publish(m, error_ns);
	m->before_ns = m->line.error_ns;
	m->line_at_ns = m->now_ns + chance_below(m->is_loaded ? 10 * MS : 50 * US);
	m->round_at_ns = m->now_ns + NS_PER_S + (m->is_loaded && chance_once_in(20) ? chance_below(3 * NS_PER_S) : 0);
}

static void worker_take_line(struct machine *m)
{
	m->workers = m->line;
	m->line_at_ns = UINT64_MAX;
	follow_utc(m);
}

/* The packet has arrived now, and its completion is polled with the worker's line. */
static void worker_stamp(struct machine *m)
{
	uint64_t raw = device_raw(m), true_ns = motion_at(&m->system, m->now_ns), utc_ns, error_ns;

	m->packet_at_ns = m->now_ns + chance_below(200 * MS);
	if (clock_reaches(&m->workers, raw)) {
		utc_ns = clock_utc_ns(&m->workers, raw);
	} else if (!m->workers.can_step) {
		utc_ns = clock_utc_far_ns(&m->workers, raw);
	} else { /* the row says that it has the time of the poll */
		follow_utc(m);
		return;
	}
	m->newest_ns = utc_ns > m->newest_ns ? utc_ns : m->newest_ns;
	error_ns = m->newest_ns > true_ns ? m->newest_ns - true_ns : true_ns - m->newest_ns;
	m->worst_ns = error_ns > m->worst_ns ? error_ns : m->worst_ns;
	m->n_stamps++;
}

/* ---- histories ----------------------------------------------------------------------------------- */

static void machine_init(struct machine *m, bool is_precision_clock, uint64_t seed)
{
	static const uint64_t frequencies[] = {78125000, 156250000, 333333333, 1000000000, 10000000000};
	static const unsigned widths[] = {32, 36, 41, 48, 63, 64};
	unsigned width;

	chance_state = (seed + 1 + is_precision_clock) * UINT64_C(0x9e3779b97f4a7c15);
	*m = (struct machine){.seed = seed, .now_ns = START_NS, .hz = frequencies[chance_below(5)]};
	do
		width = is_precision_clock ? 64 : widths[chance_below(6)];
	while (width < 64 && ((UINT64_C(1) << width) / m->hz) < 9);
	m->hz = is_precision_clock ? NS_PER_S : m->hz;
	m->mask = UINT64_MAX >> (64 - width);
	m->crystal_ppb = chance_within(200000);
	m->is_loaded = chance_once_in(3);
	m->system_steering = chance_below(N_STEERING);
	/* Within a second one clock is set or slewed, not both. */
	if (is_precision_clock)
		m->device_steering = chance_below(m->system_steering <= STEERING_SERVO ? N_STEERING : STEERING_SLEW);
	m->device = (struct motion){START_NS, START_NS, m->crystal_ppb, START_NS};
	m->system = (struct motion){START_NS, EPOCH_NS, 30000, START_NS};
	/* Counters begin a minute before they wrap; a precision clock has TAI. */
	if (is_precision_clock)
		m->raw_at_start = EPOCH_NS + 37 * NS_PER_S;
	else
		m->raw_at_start =
			m->mask - (uint64_t)((unsigned __int128)(START_NS + 60 * NS_PER_S) * m->hz / NS_PER_S);
	clock_fit_init(&m->fit, m->hz, m->mask);
	m->fit.can_step = is_precision_clock;
	control_round(m);
	control_round(m);
	worker_take_line(m);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void machine_run(struct machine *m, uint64_t seconds)
{
	uint64_t end_ns = m->now_ns + seconds * NS_PER_S;

	while (m->now_ns < end_ns) {
		uint64_t next_ns = least(m->packet_at_ns, least(m->round_at_ns, m->line_at_ns));

		advance(m, next_ns > m->now_ns ? next_ns : m->now_ns);
		if (m->was_set && m->round_at_ns > m->now_ns + 2 * MS)
			m->round_at_ns = m->now_ns + chance_below(m->is_loaded ? 20 * MS : 100 * US);
		if (m->line_at_ns <= m->now_ns)
			worker_take_line(m);
		if (m->packet_at_ns <= m->now_ns)
			worker_stamp(m);
		if (m->round_at_ns <= m->now_ns)
			control_round(m);
	}
	control_round(m);
}

/* The bound is of use: two crystals, read by threads that do not wait, are known to two microseconds. */
static void expect_small_bound(const struct machine *m)
{
	if (!m->is_loaded && m->device_steering == STEERING_NONE && m->system_steering == STEERING_NONE)
		cr_expect(lt(u64, m->published_ns, 2000), "seed %" PRIu64, m->seed);
}

static void run_histories(bool is_precision_clock, uint64_t n_stamps)
{
	uint64_t n_done = 0, n_wrong = 0;

	for (uint64_t seed = 0; n_done < n_stamps; seed += 2) {
		struct machine m;

		machine_init(&m, is_precision_clock, seed);
		machine_run(&m, 300);
		expect_small_bound(&m);
		n_done += m.n_stamps;
		n_wrong += m.n_wrong;
	}
	cr_expect(eq(u64, n_wrong, 0));
}

static uint64_t stamps_wanted(void)
{
	return getenv("IBVCAP_ALL") ? 50000000 : 500000;
}

Test(clock_truth, no_stamp_of_a_counter_is_wrong_by_more_than_the_bound)
{
	run_histories(false, stamps_wanted());
}

Test(clock_truth, no_stamp_of_a_precision_clock_is_wrong_by_more_than_the_bound)
{
	run_histories(true, stamps_wanted());
}
