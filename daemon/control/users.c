// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/users.h"

#include <stdlib.h>

#define WINDOW_US UINT64_C(1000000)

bool rate_exceeds(struct rate *rate, uint64_t now_us, uint32_t limit)
{
	if (now_us - rate->window_start_us >= WINDOW_US) {
		rate->window_start_us = now_us;
		rate->n = 0;
	}
	if (rate->n < UINT32_MAX)
		rate->n++;
	return rate->n > limit;
}

struct user *users_enter(struct users *users, uid_t uid)
{
	struct user *user;

	LIST_FOREACH (user, &users->list, link)
		if (user->uid == uid)
			break;
	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->uid = uid;
		LIST_INSERT_HEAD(&users->list, user, link);
	}
	user->n_sessions++;
	return user;
}

void users_leave(struct user *user)
{
	if (user)
		user->n_sessions--;
}

void users_forget(struct users *users, uint64_t now_us)
{
	struct user *user, *next;

	for (user = LIST_FIRST(&users->list); user; user = next) {
		next = LIST_NEXT(user, link);
		if (user->n_sessions > 0 || now_us - user->messages.window_start_us < WINDOW_US)
			continue;
		LIST_REMOVE(user, link);
		free(user);
	}
}

void users_deinit(struct users *users)
{
	while (!LIST_EMPTY(&users->list)) {
		struct user *user = LIST_FIRST(&users->list);

		LIST_REMOVE(user, link);
		free(user);
	}
}
