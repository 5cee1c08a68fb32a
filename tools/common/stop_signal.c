// SPDX-License-Identifier: Apache-2.0
/* The handlers of SIGINT and SIGTERM for the subcommands that run until they are stopped, and of SIGUSR1. */
#include "tools/common/stop_signal.h"

#include "lib/base/time.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* timeout(1) sends each signal twice: to the program and to its group. */
#define ONE_SIGNAL_NS TIME_SECOND_NS

static _Atomic uint64_t came_ns; /* the first one; 0: none yet */
static _Atomic bool second_ends;

static void note_stop_signal(int number)
{
	uint64_t now_ns = time_monotonic_ns(), none = 0;

	if (atomic_compare_exchange_strong(&came_ns, &none, now_ns))
		return;
	if (!second_ends || now_ns - came_ns < ONE_SIGNAL_NS)
		return;
	signal(number, SIG_DFL);
	raise(number);
}

void stop_signal_catch(void)
{
	const struct sigaction action = {.sa_handler = note_stop_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void stop_signal_end_by_second(void)
{
	second_ends = true;
}

bool stop_signal_came(void)
{
	return came_ns != 0;
}

/* ---- the request for a new file ------------------------------------------------------------------ */

static volatile sig_atomic_t came, seen;

static void note_rotate_signal(int)
{
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
