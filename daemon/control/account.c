// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/account.h"

#include "daemon/control/attach.h"

#include <stdlib.h>

/* Also by one that hung up, of which the worker may not know yet. */
static bool is_used(const struct attach_point *point, const struct account *account)
{
	const struct attachment *attachment;

	LIST_FOREACH (attachment, &point->attachments, link)
		if (attachment->consumer.account == &account->ring)
			return true;
	return false;
}

static bool is_repaid(const struct account *account, uint64_t now_ns)
{
	return now_ns >= account->ring.settled_ns && now_ns - account->ring.settled_ns >= account->ring.owed_ns;
}

static void forget_repaid(struct attach_point *point, uint64_t now_ns)
{
	struct account *account, *next;

	for (account = LIST_FIRST(&point->accounts); account; account = next) {
		next = LIST_NEXT(account, link);
		if (is_used(point, account) || !is_repaid(account, now_ns))
			continue;
		LIST_REMOVE(account, link);
		free(account);
	}
}

struct ring_account *account_take(struct attach_point *point, uid_t uid, uint64_t now_ns)
{
	struct account *account;

	forget_repaid(point, now_ns);
	LIST_FOREACH (account, &point->accounts, link)
		if (account->uid == uid)
			return &account->ring;
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	account->uid = uid;
	LIST_INSERT_HEAD(&point->accounts, account, link);
	return &account->ring;
}

void account_free_all(struct attach_point *point)
{
	while (!LIST_EMPTY(&point->accounts)) {
		struct account *account = LIST_FIRST(&point->accounts);

		LIST_REMOVE(account, link);
		free(account);
	}
}
