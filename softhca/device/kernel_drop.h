// SPDX-License-Identifier: Apache-2.0
/*
 * A frame that a flow takes does not reach the kernel's stack on that netdev (verbs-rules.md "Flow rules"). The wire
 * gets a copy of each frame that the kernel gets. So for each flow rule that traps, a rule of the kernel's packet
 * filter drops the frames behind the wire and before the stack.
 */
#ifndef SOFTHCA_DEVICE_KERNEL_DROP_H
#define SOFTHCA_DEVICE_KERNEL_DROP_H

#include "flow.h"

#include <pthread.h>

enum kernel_drop_mode {
	KERNEL_DROP_AUTO,    /* if the process has CAP_NET_ADMIN; any other failure prints a line on stderr */
	KERNEL_DROP_REQUIRE, /* a flow whose frames cannot be dropped is refused */
	KERNEL_DROP_OFF,
};

struct nft;

/* Has a lock of its own. A thread that takes both takes the device's first. */
struct kernel_drop {
	pthread_mutex_t lock;
	enum kernel_drop_mode mode;
	const char *netdev;
	bool warned;
	struct nft *nft; /* NULL before the first rule */
};

#define KERNEL_DROP_MAX 2 /* one for each IP version if the rule does not name one */

/* The packet filter's rules for one flow; 0: none. */
struct kernel_dropped {
	uint64_t handles[KERNEL_DROP_MAX];
};

void kernel_drop_init(struct kernel_drop *k, enum kernel_drop_mode mode, const char *netdev);
/* Removes all rules; add() starts anew. */
void kernel_drop_close(struct kernel_drop *k);

/* In a forked child: lets go of the rules, which are the parent's and must end with it. */
void kernel_drop_forked(struct kernel_drop *k);

/* 0, or with KERNEL_DROP_REQUIRE the kernel's error, for example -EPERM. Waits for the kernel. */
int kernel_drop_add(struct kernel_drop *k, const struct flow_rule *rule, struct kernel_dropped *d);
void kernel_drop_remove(struct kernel_drop *k, const struct kernel_dropped *d);

#endif
