// SPDX-License-Identifier: Apache-2.0
/*
 * How a receiver or a sender waits until a counter of the daemon reaches a target: it spins for a moment, then sleeps
 * on the futex word of its link, or leaves a request for a byte on its socket and returns. See "wake-up" in ring.h.
 */
#ifndef IBVCAP_WAITER_H
#define IBVCAP_WAITER_H

#include "lib/base/pause.h"
#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <ibvcap/layout.h>
#include <stdbool.h>
#include <stdint.h>

/* A spin takes about as long as a wake-up: a shorter wait ends without a system call. */
#define PAUSE_SPINS 200u
/* A killed daemon wakes nobody, so a waiting thread checks the control socket this often. */
#define PAUSE_SLICE_NS UINT64_C(100000000)

/* -EINTR and its text. */
#define PAUSE_INTERRUPTED error_set(-EINTR, "a signal came before anything else: call again")

enum wait_result {
	WAIT_TIME,    /* not yet: the deadline passed */
	WAIT_REACHED, /* the counter has reached the target */
	WAIT_END,     /* not yet, and the daemon adds no more to the counter */
};

struct waiter;

/* The counter and the end for which a receiver or a sender waits. */
struct waiter_ops {
	/** The counter, loaded after a request to be woken: seq_cst. */
	uint64_t (*load)(struct waiter *waiter);
	/** Has it reached the target? enum wait_result, without waiting; -errno: the connection has ended. */
	int (*look)(struct waiter *waiter, uint64_t target);
};

struct waiter {
	const struct waiter_ops *ops;
	const struct ibvcap_client_link *link; /* NULL: a tap, which nobody wakes */
	struct ibvcap_wake_request *wake;      /* NULL: likewise */
	int control;                           /* the kernel hangs it up when the daemon ends */
	int socket;                            /* non-blocking; bytes read are wake-ups from the daemon */
	bool uses_fd;                          /* the caller may poll the socket */
	bool fd_armed;                         /* the daemon may have been asked for a byte */
	bool daemon_gone;                      /* the counter is final */
	uint64_t checked_ns;                   /* when control was last checked for a hang-up */
};

/** Has the kernel hung the control socket up? */
bool waiter_is_hung_up(const struct waiter *waiter);

/**
 * Wait until the counter reaches the target. timeout_ms -1 = for ever, 0 = not at all. If it does not in time, and the
 * socket is in use, ask for a byte on the socket when the counter reaches byte_at. enum wait_result; -EINTR; errors of
 * look().
 */
int waiter_wait(struct waiter *waiter, uint64_t target, int timeout_ms, uint64_t byte_at);

/** Take such a request back, and read the bytes from the socket. */
void waiter_disarm(struct waiter *waiter);

#endif
