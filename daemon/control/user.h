// SPDX-License-Identifier: Apache-2.0
/*
 * One object for each user who connects, on which everything is charged that the user's clients cost others:
 *
 *   sessions      connections, at most max_clients_per_user
 *   messages      a second, at most max_messages_per_s_per_user; a connection counts as one
 *   shares        places and lease blocks at one stream or channel, at most max_…_per_user of its configuration
 *   stall budget  nanoseconds for which lossless consumers may keep the queue of a stream waiting
 *   wake budget   CPU time of the threads that wake clients
 *
 * Each client of a user is charged on the same object, and the object outlives the clients until all budgets are
 * repaid: neither many connections nor reconnecting buys a user more. root's clients are charged too, but no count
 * refuses them: root could change the configuration as well. Control thread only, but for what says otherwise.
 */
#ifndef DAEMON_CONTROL_USER_H
#define DAEMON_CONTROL_USER_H

#include "daemon/control/rights.h"
#include "daemon/ring/rx_ring.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/*
 * The wake budget. A wake-up call takes a few microseconds of CPU time, but a client can make its own wake-up take
 * milliseconds, and clients of other users wait meanwhile: by having thousands of epoll instances watch its end of the
 * socket, for example. So each wake-up is charged with its CPU time beyond WAKE_FREE_NS, and only the passing of time
 * repays the charge, 1 ns in WAKE_REPAY ns. A user whose debt exceeds WAKE_BUDGET_NS and the largest charge in it has
 * its next client that is due to be woken disconnected instead. So other users wait for one user WAKE_BUDGET_NS and one
 * wake-up more, once, then 1/WAKE_REPAY of the time.
 *
 * Honest clients do not come near it: their wake-ups take less than WAKE_FREE_NS. But an interrupt or the hypervisor
 * may take the CPU during a wake-up, which then looks expensive. The largest charge does not count, so that one long
 * pause of the machine disconnects nobody; short ones come to a fraction of the time that the wake-ups take, which is
 * less than 1/WAKE_REPAY of all time.
 */
#define WAKE_FREE_NS   UINT64_C(100000)
#define WAKE_BUDGET_NS UINT64_C(40000000)
#define WAKE_REPAY     UINT64_C(50)

/* Events in windows of one second; all zero to begin with. */
struct rate {
	uint64_t window_start_us;
	uint32_t n;
};

/** Count one event. True: more than limit in this window. */
bool rate_exceeds(struct rate *rate, uint64_t now_us, uint32_t limit);

/* The account that a client's right comes from: its uid. */
struct user_key {
	uid_t uid;
};

/** The only place that decides on which account a client is charged. */
struct user_key user_key_of(const struct peer *peer);

struct user {
	LIST_ENTRY(user) link;
	struct user_key key;
	_Atomic uint32_t n_references; /* sessions, used shares, and entries of notifiers */
	uint32_t n_sessions;
	struct rate messages;
	_Atomic uint64_t wakes_repaid_ns;  /* CLOCK_MONOTONIC: when the debt of the wake budget will be repaid */
	_Atomic uint64_t wakes_largest_ns; /* the largest charge in that debt */
	LIST_HEAD(, user_share) shares;
};

enum user_slot {
	USER_PLACES, /* consumers or senders, those on their way out included */
	USER_LEASE_BLOCKS,
	USER_SLOT_N
};

/* What a user has at one stream or channel. */
struct user_share {
	LIST_ENTRY(user_share) link;
	struct user *user;
	const void *endpoint;
	uint32_t used[USER_SLOT_N];
	/*
	 * The stall budget. While the user's lossless consumers keep the queue waiting, the time is added to a debt;
	 * beyond lossless_deadline_ms they become lossy. Each ns of it is repaid by RX_RING_REPAY ns in which none of
	 * them keeps the queue waiting. So one user stops the queue for the deadline once, then for 1/(1 +
	 * RX_RING_REPAY) of the time. The stream's worker writes this while it has a consumer of the user.
	 */
	struct stall_budget stall;
};

struct users {
	LIST_HEAD(, user) list;
};

/** The user's object, made if there is none; a session is charged on it until user_leave(). NULL: out of memory. */
struct user *user_enter(struct users *users, struct user_key key);
/** NULL: no effect. */
void user_leave(struct user *user);

/** Keep the object for a thread that charges it, until user_unref(). NULL: no effect. user_unref(): any thread. */
void user_ref(struct user *user);
void user_unref(struct user *user);

/** What the user has at that endpoint, made if there is none. NULL: out of memory. */
struct user_share *user_share_at(struct user *user, const void *endpoint);

/** Would so much more exceed the limit? Never for root. */
bool user_share_exceeds(const struct user_share *share, enum user_slot slot, uint32_t amount, uint32_t limit);

/** The share stays where it is while something is charged on it. */
void user_share_charge(struct user_share *share, enum user_slot slot, uint32_t amount);
void user_share_discharge(struct user_share *share, enum user_slot slot, uint32_t amount);

/** Charge one wake-up that took so much CPU time. now_ns: CLOCK_MONOTONIC. Any thread. */
void user_charge_wake(struct user *user, uint64_t cpu_ns, uint64_t now_ns);

/** Is the user's debt beyond the wake budget? NULL: no. Any thread. */
bool user_is_over_wake_budget(const struct user *user, uint64_t now_ns);

/** Free users and shares on which nothing is charged any more. */
void users_forget(struct users *users, uint64_t now_us);

/** The endpoint ends; its worker has ended, and nothing is charged on its shares. */
void users_forget_endpoint(struct users *users, const void *endpoint);

/** No session, endpoint or notifier uses them any more. */
void users_deinit(struct users *users);

#endif
