// SPDX-License-Identifier: Apache-2.0
/* Counts SIGUSR1. */
#include "tools/record/rotate_signal.h"

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
