// SPDX-License-Identifier: Apache-2.0
/* What the wakes of each user's clients cost the notifier. Inside of it only, under its mutex. */
#ifndef DAEMON_CONTROL_WAKE_COST_H
#define DAEMON_CONTROL_WAKE_COST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct wake_user {
	uid_t uid;
	uint32_t n_entries; /* of the notifier that are its; without any, its place may be given away */
	uint64_t cost_ns;
	uint64_t settled_ns; /* up to when it has leaked; CLOCK_MONOTONIC */
};

/* They outlive their entries: to leave and come again is no way around the cost. */
struct wake_users {
	struct wake_user *list;
	uint32_t max;
};

/** With more places than entries. -ENOMEM. */
int wake_users_init(struct wake_users *users, uint32_t max_entries);
void wake_users_deinit(struct wake_users *users);

/** For one more entry. */
struct wake_user *wake_users_take(struct wake_users *users, uid_t uid);

/** One wake took that long. now_ns: CLOCK_MONOTONIC. */
void wake_cost_add(struct wake_user *user, uint64_t wake_ns, uint64_t now_ns);

/** Is it to be woken by the second thread? */
bool wake_cost_is_high(const struct wake_user *user, uint64_t now_ns);

#endif
