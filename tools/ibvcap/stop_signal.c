// SPDX-License-Identifier: Apache-2.0
/* The handler of SIGINT and SIGTERM for the subcommands that run until they are stopped. */
#include "tools/ibvcap/stop_signal.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t came;

static void note_stop_signal(int number)
{
	(void)number;
	came = 1;
}

void stop_signal_catch(void)
{
	const struct sigaction action = {.sa_handler = note_stop_signal};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

bool stop_signal_came(void)
{
	return came;
}
