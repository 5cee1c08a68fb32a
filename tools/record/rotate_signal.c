// SPDX-License-Identifier: Apache-2.0
/* Counts SIGUSR1, and gives the second signal that ends programs its effect back. */
#include "tools/record/rotate_signal.h"

#include "tools/ibvcap/stop_signal.h"

#include <signal.h>
#include <stddef.h>

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

bool rotate_signal_asks_for_end(void)
{
	static bool was_asked;

	if (!was_asked && stop_signal_came()) {
		was_asked = true;
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
	}
	return was_asked;
}
