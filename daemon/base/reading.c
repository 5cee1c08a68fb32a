// SPDX-License-Identifier: Apache-2.0
/* A reading is a job of a background runner: the thread fills in `now`, and the event loop takes it over. */
#include "daemon/base/reading.h"

#include "lib/base/min.h"
#include "lib/base/time.h"

/* To wake the thread may take as long as to read. */
static void reading_work(void *context)
{
	static _Thread_local uint64_t cpu_ns;
	struct reading *reading = context;

	reading->now.at_ns = time_monotonic_ns();
	reading->now.at_utc_ns = time_utc_ns();
	reading->now.result = reading->read(reading->context, &reading->now.value);
	reading->now.cost_ns = time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	cpu_ns += reading->now.cost_ns;
}

static void reading_begin(struct reading *reading)
{
	reading->waiting_since_ns = time_monotonic_ns();
	reading->is_due = false;
	if (reading->runner) {
		background_add(reading->runner, &reading->job);
		return;
	}
	reading_work(reading);
	reading->job.done(reading);
}

/* gone may free the object. */
static void reading_done(void *context)
{
	struct reading *reading = context;

	reading->waiting_since_ns = 0;
	reading->result = reading->now.result;
	reading->tried_ns = reading->now.at_ns;
	reading->cost_ns = reading->now.cost_ns;
	if (reading->result >= 0) {
		reading->value = reading->now.value;
		reading->at_ns = reading->now.at_ns;
		reading->at_utc_ns = reading->now.at_utc_ns;
	}
	if (reading->is_closed) {
		if (reading->gone)
			reading->gone(reading->gone_context);
		return;
	}
	if (reading->taken)
		reading->taken(reading->taken_context);
	if (reading->is_due)
		reading_ask(reading);
}

void reading_init(struct reading *reading, int (*read)(void *context, uint64_t *value), void *context)
{
	*reading = (struct reading){.read = read,
	                            .context = context,
	                            .job = {.work = reading_work, .done = reading_done, .context = reading}};
}

void reading_ask(struct reading *reading)
{
	if (!reading->is_closed && !reading->waiting_since_ns)
		reading_begin(reading);
}

void reading_ask_often(struct reading *reading)
{
	if (time_monotonic_ns() - reading->tried_ns >= u64_min(reading->cost_ns * 1000, READING_REST_NS_MAX))
		reading_ask(reading);
}

void reading_renew(struct reading *reading)
{
	reading->is_due = reading->waiting_since_ns != 0;
	reading_ask(reading);
}

void reading_close(struct reading *reading, void (*gone)(void *context), void *context)
{
	reading->is_closed = true;
	reading->gone = gone;
	reading->gone_context = context;
	if (gone && !reading->waiting_since_ns)
		gone(context);
}

uint64_t reading_waits_ns(const struct reading *reading, uint64_t now_ns)
{
	return reading->waiting_since_ns && now_ns > reading->waiting_since_ns ? now_ns - reading->waiting_since_ns : 0;
}

uint64_t reading_age_ns(const struct reading *reading, uint64_t now_ns)
{
	if (!reading->at_ns)
		return reading_waits_ns(reading, now_ns);
	return now_ns > reading->at_ns ? now_ns - reading->at_ns : 0;
}
