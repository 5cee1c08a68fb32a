// SPDX-License-Identifier: Apache-2.0
/* Counts SIGUSR1, and gives the second signal that ends programs its effect back. */
#include "tools/record/rotate_signal.h"

#include "daemon/base/time.h"
#include "tools/ibvcap/stop_signal.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define ONE_SIGNAL_NS TIME_SECOND_NS

static volatile sig_atomic_t came, seen;

static void note_rotate_signal(int number)
{
	(void)number;
	came = came + 1;
}

void rotate_signal_catch(void)
{
	const struct sigaction action = {.sa_handler = note_rotate_signal};

	sigaction(SIGUSR1, &action, NULL);
}

bool rotate_signal_is_new(void)
{
	sig_atomic_t now = came;
	bool is_new = now != seen;

	seen = now;
	return is_new;
}

static _Atomic uint64_t asked_ns; /* for the end; 0: not yet */

/* timeout(1) sends each signal twice: to the program and to its group. */
static void end_at_once(int number)
{
	if (time_monotonic_ns() - asked_ns < ONE_SIGNAL_NS)
		return;
	signal(number, SIG_DFL);
	raise(number);
}

bool rotate_signal_asks_for_end(void)
{
	const struct sigaction action = {.sa_handler = end_at_once};

	if (!asked_ns && stop_signal_came()) {
		asked_ns = time_monotonic_ns();
		sigaction(SIGINT, &action, NULL);
		sigaction(SIGTERM, &action, NULL);
	}
	return asked_ns;
}
