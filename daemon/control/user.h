// SPDX-License-Identifier: Apache-2.0
/*
 * One object for each payer. All that its clients cost others is charged to it:
 *
 *   sessions      connections, at most max_clients_per_user
 *   messages      a second, at most max_messages_per_s_per_user; a connection counts as one
 *   wake budget   CPU time for which threads that wake clients of all users work for this one
 *   call budget   CPU time of the user's own threads
 *   shares        places and lease blocks at one stream or channel, at most max_…_per_user of its configuration
 *   stall budget  in a share: nanoseconds for which lossless consumers may keep the queue of a stream waiting
 *
 * rights.h decides who the payer is. A share belongs to the payer of the right that the client uses at the stream or
 * channel. All else is charged to the payer of the connection, rights_payer(), so the clients of a user in two groups
 * may have two payers. A client keeps its payers when a reload changes the lists.
 *
 * The object outlives the clients until all budgets are repaid: neither many connections nor reconnecting buys more. No
 * count refuses root, and no wake-up of root's clients is charged: root could change the configuration as well. Control
 * thread only, but for what says otherwise.
 *
 * Each user has threads of its own for all that a client can make slow (doc/control.md): one reads, answers and closes
 * the connections, one makes, seals and frees senders' memory.
 */
#ifndef DAEMON_CONTROL_USER_H
#define DAEMON_CONTROL_USER_H

#include "daemon/base/background.h"
#include "daemon/control/cpu_budget.h"
#include "daemon/control/rights.h"
#include "daemon/ring/rx_ring.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* Events in windows of one second; all zero to begin with. */
struct rate {
	uint64_t window_start_us;
	uint32_t n;
};

/** Count one event. True: more than limit in this window. */
bool rate_exceeds(struct rate *rate, uint64_t now_us, uint32_t limit);

/* Users' threads leave the CPU to the workers and to the control thread. */
#define USER_NICE 10

/* Limit of refused connections that a user's thread has yet to close. Further ones are closed without it. */
#define USER_REFUSED_MAX 32

enum user_thread_use {
	USER_SOCKETS,
	USER_MEMORY, /* of senders: a step takes time in proportion to the bytes */
	USER_THREAD_N
};

struct user {
	LIST_ENTRY(user) link;
	struct users *users;
	struct payer payer;
	_Atomic uint32_t n_references; /* sessions, used shares, and entries of notifiers */
	uint32_t n_sessions;
	uint32_t n_refused; /* refused connections that are not closed yet */
	struct rate messages;
	struct cpu_budget wakes;
	_Atomic bool is_woken_late; /* since users_find_late(): notifiers say so */
	uint64_t n_late;            /* how often users_find_late() returned it */
	struct cpu_budget calls;
	struct background *threads[USER_THREAD_N]; /* NULL: not needed yet; see user_thread() */
	bool is_stuck;                             /* users_find_stuck() has returned it, and it hangs still */
	LIST_HEAD(, user_share) shares;
};

/* A thread is stuck when its job takes longer than its allowance by this time. */
#define USERS_STUCK_US UINT64_C(5000000)

/* Clients can make jobs of users' threads hang. The ending daemon waits for the jobs' allowances and this time. */
#define USERS_PATIENCE_US UINT64_C(3000000)

enum user_slot {
	USER_PLACES, /* consumers or senders, those on their way out included */
	USER_LEASE_BLOCKS,
	USER_SLOT_N
};

/* Quotas that the clients of a payer use at one stream or channel. */
struct user_share {
	LIST_ENTRY(user_share) link;
	struct user *user;
	const void *endpoint;
	uint32_t used[USER_SLOT_N];
	/* See rx_ring.h. The stream's worker writes this while it has a consumer of the user. */
	struct stall_budget stall;
};

struct users {
	LIST_HEAD(, user) list;
	sd_event *event;     /* outlives the users; for their threads */
	uint32_t n_sessions; /* sum over all users */
};

/** The payer's object, made if there is none. NULL: out of memory. */
struct user *user_at(struct users *users, const struct payer *payer);

/** The same, and count one session of this payer until user_leave(). */
struct user *user_enter(struct users *users, const struct payer *payer);

/** The session's socket is closed. is_refused: after user_refuse(). */
void user_leave(struct user *user, bool is_refused);

/** The session is refused: it does not count any more, but its socket is to be closed. */
void user_refuse(struct user *user);

/** The user's thread cannot be given another socket to close: it is stuck, and has many, or has very many. */
bool user_is_swamped(const struct user *user);

/** Keep the object for a thread that charges it, until user_unref(). NULL: no effect. user_unref(): any thread. */
void user_ref(struct user *user);
void user_unref(struct user *user);

/** The user's share at that endpoint, made if there is none. NULL: out of memory. */
struct user_share *user_share_at(struct user *user, const void *endpoint);

/** Would `amount` more exceed the limit? Never for root. */
bool user_share_exceeds(const struct user_share *share, enum user_slot slot, uint32_t amount, uint32_t limit);

/** The share is not moved or freed while something is charged to it. */
void user_share_charge(struct user_share *share, enum user_slot slot, uint32_t amount);
void user_share_discharge(struct user_share *share, enum user_slot slot, uint32_t amount);

/** The user's thread for that, started if there is none. NULL: it cannot be started. */
struct background *user_thread(struct user *user, enum user_thread_use use);

/* How a message names a payer. */
struct payer_text {
	char who[80];     /* to be followed by a verb in the singular */
	char remedy[128]; /* of a shared payer, to follow "ask the administrator to raise it"; else empty */
};

/** uid: the user of the client that the message is for. */
struct payer_text payer_describe(const struct payer *payer, uid_t uid);

/** Free users and shares to which nothing is charged any more. */
void users_forget(struct users *users, uint64_t now_us);

/** The endpoint ends; its worker has ended, and nothing is charged to its shares. */
void users_forget_endpoint(struct users *users, const void *endpoint);

/** A user whose clients were woken late since the last call that returned it; NULL: there is none. */
struct user *users_find_late(struct users *users);

/** A user whose thread is stuck, each once as long as it is; NULL: there is none. */
const struct user *users_find_stuck(struct users *users);

/** Wait until all threads have done their jobs. False: one of them hangs in a job (USERS_PATIENCE_US), and goes on. */
bool users_drain(struct users *users);

/** No session, endpoint, notifier or thread uses them any more. */
void users_deinit(struct users *users);

#endif
