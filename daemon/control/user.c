// SPDX-License-Identifier: Apache-2.0
/* Per-user accounting: what each user's clients take, and which debts are not repaid yet. */
#include "daemon/control/user.h"

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

struct user_key user_key_of(const struct peer *peer)
{
	return (struct user_key){.uid = peer->uid};
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

struct user *user_enter(struct users *users, struct user_key key)
{
	struct user *user;

	LIST_FOREACH (user, &users->list, link)
		if (user->key.uid == key.uid)
			break;
	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user)
			return NULL;
		user->key = key;
		LIST_INIT(&user->shares);
		LIST_INSERT_HEAD(&users->list, user, link);
	}
	user->n_sessions++;
	user_ref(user);
	return user;
}

void user_leave(struct user *user)
{
	if (!user)
		return;
	user->n_sessions--;
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
	return share->user->key.uid != 0 && (uint64_t)share->used[slot] + amount > limit;
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
	return now_ns < share->stall.settled_ns || now_ns - share->stall.settled_ns < share->stall.owed_ns;
}

static void free_share(struct user_share *share)
{
	LIST_REMOVE(share, link);
	free(share);
}

/* ---- the wake budget ------------------------------------------------------------------------------- */

/*
 * The debt is kept as the moment at which it will be repaid: debt = (that moment - now) / WAKE_REPAY. Several notifiers
 * may charge a user at once. They may then disagree on the largest charge by one wake-up, which does no harm.
 */
void user_charge_wake(struct user *user, uint64_t cpu_ns, uint64_t now_ns)
{
	uint64_t charged_ns = cpu_ns > WAKE_FREE_NS ? cpu_ns - WAKE_FREE_NS : 0;
	uint64_t before_ns, after_ns;

	if (!user || charged_ns == 0)
		return;
	before_ns = atomic_load_explicit(&user->wakes_repaid_ns, memory_order_relaxed);
	if (before_ns <= now_ns || charged_ns > atomic_load_explicit(&user->wakes_largest_ns, memory_order_relaxed))
		atomic_store_explicit(&user->wakes_largest_ns, charged_ns, memory_order_relaxed);
	do
		after_ns = (before_ns > now_ns ? before_ns : now_ns) + charged_ns * WAKE_REPAY;
	while (!atomic_compare_exchange_weak_explicit(&user->wakes_repaid_ns, &before_ns, after_ns,
	                                              memory_order_relaxed, memory_order_relaxed));
}

bool user_is_over_wake_budget(const struct user *user, uint64_t now_ns)
{
	uint64_t repaid_ns = user ? atomic_load_explicit(&user->wakes_repaid_ns, memory_order_relaxed) : 0;

	return repaid_ns > now_ns &&
	       (repaid_ns - now_ns) / WAKE_REPAY >
	               WAKE_BUDGET_NS + atomic_load_explicit(&user->wakes_largest_ns, memory_order_relaxed);
}

/* ---- forgetting ------------------------------------------------------------------------------------ */

static void free_user(struct user *user)
{
	while (!LIST_EMPTY(&user->shares))
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): LIST_REMOVE() has unlinked the last one */
		free_share(LIST_FIRST(&user->shares));
	LIST_REMOVE(user, link);
	free(user);
}

static bool is_user_in_use(const struct user *user, uint64_t now_us)
{
	return atomic_load_explicit(&user->n_references, memory_order_acquire) > 0 || !LIST_EMPTY(&user->shares) ||
	       now_us - user->messages.window_start_us < WINDOW_US ||
	       atomic_load_explicit(&user->wakes_repaid_ns, memory_order_relaxed) > now_us * 1000;
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
		if (!is_user_in_use(user, now_us))
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
