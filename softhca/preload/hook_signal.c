// SPDX-License-Identifier: Apache-2.0
/*
 * Handlers of the two signals that the device must see first. Other signals go straight to the C library.
 * fault_init() finds the handlers that the program has installed before the first device exists.
 */
#include "root.h"

#include <errno.h>
#include <signal.h>

static bool hook_signal_is_ours(int number)
{
	return (number == SIGSEGV || number == SIGBUS) && root_peek()->n_devices;
}

HOOK int sigaction(int number, const struct sigaction *action, struct sigaction *old)
{
	return hook_signal_is_ours(number) ? fault_sigaction(number, action, old)
	                                   : REAL(sigaction)(number, action, old);
}

static sighandler_t hook_signal_install(int number, sighandler_t handler, int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags}, old;

	fault_sigaction(number, &action, &old);
	return old.sa_handler;
}

HOOK sighandler_t signal(int number, sighandler_t handler)
{
	return hook_signal_is_ours(number) ? hook_signal_install(number, handler, SA_RESTART)
	                                   : REAL(signal)(number, handler);
}

/* Programs built with -std=c99 call this for signal(). */
HOOK sighandler_t __sysv_signal(int number, sighandler_t handler)
{
	return hook_signal_is_ours(number) ? hook_signal_install(number, handler, SA_ONESHOT | SA_NOMASK)
	                                   : REAL(__sysv_signal)(number, handler);
}
