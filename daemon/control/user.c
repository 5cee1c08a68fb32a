// SPDX-License-Identifier: Apache-2.0
/* Counts what the clients of each payer take, and the debts of each payer until they are repaid. */
#include "daemon/control/user.h"

#include "daemon/control/id_name.h"
#include "lib/base/time.h"

#include <stdio.h>
#include <stdlib.h>

#define WINDOW_US    UINT64_C(1000000)
#define USER_SLOW_US UINT64_C(100000) /* longer than any call on an honest client's socket takes */

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

void user_ref(struct user *user)
{
	if (user)
		atomic_fetch_add_explicit(&user->n_references, 1, memory_order_relaxed);
}

/* Release: what this thread charged is seen by the control thread before it frees the user. */
void user_unref(struct user *user)
{
	if (user)
		atomic_fetch_sub_explicit(&user->n_references, 1, memory_order_release);
}

struct user *user_at(struct users *users, const struct payer *payer)
{
	struct user *user;

	LIST_FOREACH (user, &users->list, link)
		if (payer_is_same(&user->payer, payer))
			return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->users = users;
	user->payer = *payer;
	LIST_INIT(&user->shares);
	LIST_INSERT_HEAD(&users->list, user, link);
	return user;
}

struct user *user_enter(struct users *users, const struct payer *payer)
{
	struct user *user = user_at(users, payer);

	if (!user)
		return NULL;
	user->n_sessions++;
	users->n_sessions++;
	user_ref(user);
	return user;
}

void user_refuse(struct user *user)
{
	user->n_sessions--;
	user->users->n_sessions--;
	user->n_refused++;
}

void user_leave(struct user *user, bool is_refused)
{
	if (is_refused) {
		user->n_refused--;
	} else {
		user->n_sessions--;
		user->users->n_sessions--;
	}
	user_unref(user);
}

/* ---- shares ---------------------------------------------------------------------------------------- */

struct user_share *user_share_at(struct user *user, const void *endpoint)
{
	struct user_share *share;

	LIST_FOREACH (share, &user->shares, link)
		if (share->endpoint == endpoint)
			return share;
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->user = user;
	share->endpoint = endpoint;
	LIST_INSERT_HEAD(&user->shares, share, link);
	return share;
}

bool user_share_exceeds(const struct user_share *share, enum user_slot slot, uint32_t amount, uint32_t limit)
{
	return !payer_is_root(&share->user->payer) && (uint64_t)share->used[slot] + amount > limit;
}

void user_share_charge(struct user_share *share, enum user_slot slot, uint32_t amount)
{
	share->used[slot] += amount;
	if (slot == USER_PLACES && amount)
		user_ref(share->user);
}

void user_share_discharge(struct user_share *share, enum user_slot slot, uint32_t amount)
{
	share->used[slot] -= amount;
	if (slot == USER_PLACES && amount)
		user_unref(share->user);
}

static bool is_share_in_use(const struct user_share *share, uint64_t now_ns)
{
	if (share->used[USER_PLACES] || share->used[USER_LEASE_BLOCKS])
		return true;
	return now_ns < share->stall.updated_ns || now_ns - share->stall.updated_ns < share->stall.owed_ns;
}

static void free_share(struct user_share *share)
{
	LIST_REMOVE(share, link);
	free(share);
}

/* ---- the thread ------------------------------------------------------------------------------------ */

struct background *user_thread(struct user *user, enum user_thread_use use)
{
	static const char *const names[] = {[USER_SOCKETS] = "user-sockets", [USER_MEMORY] = "user-memory"};

	if (!user->threads[use])
		background_new(&user->threads[use], user->users->event, names[use],
		               payer_is_root(&user->payer) ? 0 : USER_NICE);
	return user->threads[use];
}

bool user_is_swamped(const struct user *user)
{
	if (user->n_refused < USER_REFUSED_MAX)
		return false;
	return user->n_refused >= USER_REFUSED_MAX * 32 ||
	       background_overdue_us(user->threads[USER_SOCKETS]) > USER_SLOW_US;
}

struct user *users_find_late(struct users *users)
{
	struct user *user;

	LIST_FOREACH (user, &users->list, link)
		if (atomic_exchange_explicit(&user->is_woken_late, false, memory_order_relaxed)) {
			user->n_late++;
			return user;
		}
	return NULL;
}

const struct user *users_find_stuck(struct users *users)
{
	struct user *user;

	LIST_FOREACH (user, &users->list, link) {
		bool was_stuck = user->is_stuck;

		user->is_stuck = false;
		for (unsigned use = 0; use < USER_THREAD_N; use++)
			user->is_stuck |=
				user->threads[use] && background_overdue_us(user->threads[use]) > USERS_STUCK_US;
		if (user->is_stuck && !was_stuck)
			return user;
	}
	return NULL;
}

bool users_drain(struct users *users)
{
	uint64_t end_ns = time_monotonic_ns() + USERS_PATIENCE_US * 1000, now_ns;
	struct user *user;
	bool is_done = true;

	LIST_FOREACH (user, &users->list, link)
		for (unsigned use = 0; use < USER_THREAD_N; use++) {
			now_ns = time_monotonic_ns();
			is_done &= background_drain(user->threads[use], now_ns < end_ns ? (end_ns - now_ns) / 1000 : 0);
		}
	return is_done;
}

/* ---- texts ----------------------------------------------------------------------------------------- */

struct payer_text payer_describe(const struct payer *payer, uid_t uid)
{
	struct payer_text text = {0};

	if (payer->kind == PAYER_USER)
		snprintf(text.who, sizeof(text.who), "user %s", id_of_user(payer->id).text);
	else if (payer->kind == PAYER_GROUP)
		snprintf(text.who, sizeof(text.who), "group %s (one account)", id_of_group(payer->id).text);
	else
		snprintf(text.who, sizeof(text.who), "everybody whom no list names (one account)");
	if (payer->kind != PAYER_USER)
		snprintf(text.remedy, sizeof(text.remedy),
		         ", or to give user %s an account of its own (ACCOUNTS in ibvcapd.conf(5)),",
		         id_of_user(uid).text);
	return text;
}

/* ---- forgetting ------------------------------------------------------------------------------------ */

static void free_user(struct user *user)
{
	while (!LIST_EMPTY(&user->shares))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): LIST_REMOVE() has unlinked the last one */
		free_share(LIST_FIRST(&user->shares));
	LIST_REMOVE(user, link);
	for (unsigned use = 0; use < USER_THREAD_N; use++)
		background_free(user->threads[use]);
	free(user);
}

void users_forget(struct users *users, uint64_t now_us)
{
	struct user *user, *next;
	struct user_share *share, *next_share;

	for (user = LIST_FIRST(&users->list); user; user = next) {
		next = LIST_NEXT(user, link);
		for (share = LIST_FIRST(&user->shares); share; share = next_share) {
			next_share = LIST_NEXT(share, link);
			if (!is_share_in_use(share, now_us * 1000))
				free_share(share);
		}
		if (atomic_load_explicit(&user->n_references, memory_order_acquire) == 0 && LIST_EMPTY(&user->shares) &&
		    now_us - user->messages.window_start_us >= WINDOW_US &&
		    !cpu_budget_has_debt(&user->wakes, now_us * 1000) &&
		    !cpu_budget_has_debt(&user->calls, now_us * 1000))
			free_user(user);
	}
}

void users_forget_endpoint(struct users *users, const void *endpoint)
{
	struct user *user;
	struct user_share *share;

	LIST_FOREACH (user, &users->list, link) {
		LIST_FOREACH (share, &user->shares, link)
			if (share->endpoint == endpoint)
				break;
		if (share)
			free_share(share);
	}
}

void users_deinit(struct users *users)
{
	while (!LIST_EMPTY(&users->list))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): LIST_REMOVE() has unlinked the last one */
		free_user(LIST_FIRST(&users->list));
}
