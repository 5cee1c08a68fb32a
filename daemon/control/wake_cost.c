// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/wake_cost.h"

#include "daemon/base/time.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/*
 * Of our own time, in the kernel. Of an honest client a wake takes a few microseconds, on a busy virtual machine some
 * tens. What its consumers' wakes take above that is summed up for each user, and leaks away with time.
 */
#define FREE_NS    UINT64_C(50000)
#define COSTLY_NS  UINT64_C(1000000)
#define COST_MAX   UINT64_C(10000000)
#define LEAK_SHARE 1000u /* of the time: what a user may cost the others for good */

int wake_users_init(struct wake_users *users, uint32_t max_entries)
{
	users->max = 2 * max_entries;
	users->list = calloc(users->max, sizeof(users->list[0]));
	return users->list ? 0 : -ENOMEM;
}

void wake_users_deinit(struct wake_users *users)
{
	free(users->list);
}

static uint64_t cost_now(const struct wake_user *user, uint64_t now_ns)
{
	uint64_t leaked_ns = (now_ns - user->settled_ns) / LEAK_SHARE;

	return user->cost_ns > leaked_ns ? user->cost_ns - leaked_ns : 0;
}

void wake_cost_add(struct wake_user *user, uint64_t wake_ns, uint64_t now_ns)
{
	uint64_t cost_ns = cost_now(user, now_ns);

	if (wake_ns > FREE_NS)
		cost_ns += wake_ns - FREE_NS;
	user->cost_ns = cost_ns < COST_MAX ? cost_ns : COST_MAX;
	user->settled_ns = now_ns;
}

bool wake_cost_is_high(const struct wake_user *user, uint64_t now_ns)
{
	return cost_now(user, now_ns) > COSTLY_NS;
}

/* Of those who are not here and have to be forgotten, who cost least is. */
static struct wake_user *find(struct wake_users *users, uid_t uid, uint64_t now_ns)
{
	struct wake_user *least = NULL;
	uint64_t least_ns = UINT64_MAX;

	for (uint32_t i = 0; i < users->max; i++) {
		struct wake_user *user = &users->list[i];

		if (user->uid == uid && user->settled_ns)
			return user;
		if (user->n_entries == 0 && cost_now(user, now_ns) < least_ns) {
			least = user;
			least_ns = cost_now(user, now_ns);
		}
	}
	*least = (struct wake_user){.uid = uid, .settled_ns = now_ns};
	return least;
}

struct wake_user *wake_users_take(struct wake_users *users, uid_t uid)
{
	struct wake_user *user = find(users, uid, time_monotonic_ns());

	user->n_entries++;
	return user;
}
