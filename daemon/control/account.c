// SPDX-License-Identifier: Apache-2.0
#include "daemon/control/account.h"

#include "daemon/control/rx_endpoint.h"

#include <stdlib.h>

/* Also by one that hung up, of which the worker may not know yet. */
static bool is_used(const struct rx_endpoint *endpoint, const struct account *account)
{
	const struct rx_session *rx;

	LIST_FOREACH (rx, &endpoint->sessions, link)
		if (rx->consumer.budget == &account->ring)
			return true;
	return false;
}

static bool is_repaid(const struct account *account, uint64_t now_ns)
{
	return now_ns >= account->ring.settled_ns && now_ns - account->ring.settled_ns >= account->ring.owed_ns;
}

static void forget_repaid(struct rx_endpoint *endpoint, uint64_t now_ns)
{
	struct account *account, *next;

	for (account = LIST_FIRST(&endpoint->accounts); account; account = next) {
		next = LIST_NEXT(account, link);
		if (is_used(endpoint, account) || !is_repaid(account, now_ns))
			continue;
		LIST_REMOVE(account, link);
		free(account);
	}
}

struct stall_budget *account_take(struct rx_endpoint *endpoint, uid_t uid, uint64_t now_ns)
{
	struct account *account;

	forget_repaid(endpoint, now_ns);
	LIST_FOREACH (account, &endpoint->accounts, link)
		if (account->uid == uid)
			return &account->ring;
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	account->uid = uid;
	LIST_INSERT_HEAD(&endpoint->accounts, account, link);
	return &account->ring;
}

void account_free_all(struct rx_endpoint *endpoint)
{
	while (!LIST_EMPTY(&endpoint->accounts)) {
		struct account *account = LIST_FIRST(&endpoint->accounts);

		LIST_REMOVE(account, link);
		free(account);
	}
}
