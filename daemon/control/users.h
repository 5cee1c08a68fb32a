// SPDX-License-Identifier: Apache-2.0
/*
 * What each user has open and asks for, over all of its connections: nobody takes all there is. root is not
 * limited so: it could change the configuration as well. Control thread only.
 */
#ifndef DAEMON_CONTROL_USERS_H
#define DAEMON_CONTROL_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

/* Events in windows of one second; all zero to begin with. */
struct rate {
	uint64_t window_start_us;
	uint32_t n;
};

/** Count one; true: that is more than limit in this window. */
bool rate_exceeds(struct rate *rate, uint64_t now_us, uint32_t limit);

struct user {
	LIST_ENTRY(user) link;
	uid_t uid;
	uint32_t n_sessions;
	struct rate messages; /* a connection counts as one, too */
};

struct users {
	LIST_HEAD(, user) list;
};

/** The user's entry, made where there is none; a session counts in it until users_leave(). NULL: out of memory. */
struct user *users_enter(struct users *users, uid_t uid);

/** NULL is fine. The entry stays until users_forget(): who hangs up and comes again is still counted. */
void users_leave(struct user *user);

/** Drop entries of users who have no session and asked for nothing in the last second. */
void users_forget(struct users *users, uint64_t now_us);

void users_deinit(struct users *users);

#endif
