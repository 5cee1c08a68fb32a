// SPDX-License-Identifier: Apache-2.0
/*
 * What a machine can keep at all: a bare loop that looks at the clock until the next time has come, and then how late
 * it is. spin_loop COUNT INTERVAL_NS LATE_NS: so many times, so far apart; prints how many were more than LATE_NS late.
 * It begins to spin SPIN_NS before: a real-time process that did nothing else would be stopped for some of each second.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <time.h>

#define SPIN_NS 100000u

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t count, interval_ns, late_ns, due_ns, n_late = 0, max_ns = 0;

	if (argc != 4) {
		fputs("usage: spin_loop COUNT INTERVAL_NS LATE_NS\n", stderr);
		return EX_USAGE;
	}
	count = strtoull(argv[1], NULL, 10);
	interval_ns = strtoull(argv[2], NULL, 10);
	late_ns = strtoull(argv[3], NULL, 10);
	due_ns = now_ns();
	for (uint64_t i = 0; i < count; i++) {
		uint64_t now;

		due_ns += interval_ns;
		clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME,
		                &(struct timespec){.tv_sec = (time_t)((due_ns - SPIN_NS) / 1000000000),
		                                   .tv_nsec = (long)((due_ns - SPIN_NS) % 1000000000)},
		                NULL);
		do {
			now = now_ns();
		} while (now < due_ns);
		n_late += now - due_ns > late_ns;
		if (now - due_ns > max_ns)
			max_ns = now - due_ns;
	}
	printf("{\"n\": %" PRIu64 ", \"late\": %" PRIu64 ", \"max_ns\": %" PRIu64 "}\n", count, n_late, max_ns);
	return EX_OK;
}
