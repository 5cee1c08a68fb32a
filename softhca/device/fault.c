// SPDX-License-Identifier: Apache-2.0
/*
 * Page faults of the device's own work: catches SIGSEGV and SIGBUS, ends the piece of work that faulted and starts
 * the recovery. Faults of the program go on to the program's own handlers.
 */
#include "fault.h"

#include "device.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>

#define N_SIGNALS  2
#define MAX_LOSSES 4096u /* in one recovery; each is a page that was not known as lost before */

struct guard {
	sigjmp_buf env;
	const void *address;
	volatile bool faulted;
	struct guard *outer;
};

/* A signal handler gets no context of its own, so the guard is found by thread. */
static _Thread_local struct guard *volatile current_guard;
static struct sigaction programs[N_SIGNALS]; /* the handlers that the program has installed */
static sigaction_function *real_sigaction;
static atomic_flag programs_lock = ATOMIC_FLAG_INIT;
static const int signals[N_SIGNALS] = {SIGSEGV, SIGBUS};

static int fault_signal_index(int signal)
{
	return signal == SIGSEGV ? 0 : 1;
}

/* sigaction() is async-signal-safe, and our handler reads what it writes. Signals are blocked meanwhile, so that no
 * handler can wait for the thread that it interrupted. */
static void fault_lock_handlers(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	while (atomic_flag_test_and_set_explicit(&programs_lock, memory_order_acquire))
		sched_yield();
}

static void fault_unlock_handlers(const sigset_t *old)
{
	atomic_flag_clear_explicit(&programs_lock, memory_order_release);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

void fault_forked(void)
{
	/* A thread that does not exist here may hold the lock. */
	atomic_flag_clear(&programs_lock);
}

static bool fault_is_handler(const struct sigaction *a)
{
	return (a->sa_flags & SA_SIGINFO) || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

static struct sigaction fault_take_handler(int signal)
{
	struct sigaction *a = &programs[fault_signal_index(signal)], theirs;
	sigset_t old;

	fault_lock_handlers(&old);
	theirs = *a;
	if (fault_is_handler(a) && (a->sa_flags & (int)SA_RESETHAND))
		a->sa_handler = SIG_DFL, a->sa_flags = 0;
	fault_unlock_handlers(&old);
	return theirs;
}

/* The program's own fault: call the program's handler, or let the default action end the program. */
static void fault_pass_on(int signal, siginfo_t *info, void *context)
{
	struct sigaction theirs = fault_take_handler(signal);
	sigset_t old, block = theirs.sa_mask;

	if (!fault_is_handler(&theirs)) {
		/* signal(7): a fault cannot be ignored, only a signal that somebody sent. */
		if (theirs.sa_handler == SIG_IGN && info->si_code <= 0)
			return;
		/* The instruction runs again and faults again, now with the default action. */
		real_sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
		if (info->si_code <= 0)
			raise(signal);
		return;
	}
	if (!(theirs.sa_flags & SA_NODEFER))
		sigaddset(&block, signal);
	pthread_sigmask(SIG_BLOCK, &block, &old);
	if (theirs.sa_flags & SA_SIGINFO)
		theirs.sa_sigaction(signal, info, context);
	else
		theirs.sa_handler(signal);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void fault_on_signal(int signal, siginfo_t *info, void *context)
{
	struct guard *g = current_guard;
	int saved = errno;

	/* si_code above 0: the kernel reports a fault; else somebody sent the signal. */
	if (g && info->si_code > 0) {
		g->address = info->si_addr;
		g->faulted = true;
		siglongjmp(g->env, 1);
	}
	fault_pass_on(signal, info, context);
	errno = saved;
}

void fault_init(sigaction_function *real)
{
	struct sigaction ours = {.sa_sigaction = fault_on_signal, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
	struct sigaction old;
	sigset_t mask;

	real_sigaction = real;
	fault_lock_handlers(&mask);
	for (int i = 0; i < N_SIGNALS; i++)
		if (!real(signals[i], &ours, &old))
			programs[i] = old;
	fault_unlock_handlers(&mask);
}

int fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	struct sigaction *a = &programs[fault_signal_index(signal)], before, after = {};
	sigset_t mask;

	if (action)
		after = *action; /* this may fault, so it is not done under the lock */
	fault_lock_handlers(&mask);
	before = *a;
	if (action)
		*a = after;
	fault_unlock_handlers(&mask);
	if (old)
		*old = before;
	return 0;
}

static bool fault_run(void (*work)(void *), void *arg, const void **address)
{
	struct guard g = {.outer = current_guard};
	sigset_t both;

	if (!sigsetjmp(g.env, 0)) {
		current_guard = &g;
		work(arg);
	} else {
		/* If another handler came first and called ours, the signals may be blocked. */
		sigemptyset(&both);
		for (int i = 0; i < N_SIGNALS; i++)
			sigaddset(&both, signals[i]);
		pthread_sigmask(SIG_UNBLOCK, &both, NULL);
	}
	current_guard = g.outer;
	*address = g.address;
	return !g.faulted;
}

bool fault_guard(struct device *d, void (*work)(void *), void *arg)
{
	struct fault_loss l = {.device = d};

	if (fault_run(work, arg, &l.address))
		return true;
	for (unsigned int i = 0; i < MAX_LOSSES; i++) {
		bool whole = fault_run(d->recover, &l, &l.address);

		if (!l.found)
			break;
		if (whole)
			return false;
		l.found = false;
	}
	abort();
}
