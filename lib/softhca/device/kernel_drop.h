// SPDX-License-Identifier: Apache-2.0
/*
 * What a flow takes is gone from the kernel's stack on that netdev (verbs-rules.md "Flow rules").
 * The wire hears a copy of what the kernel gets; so frames that a rule traps are dropped behind
 * the wire and before the stack, by a rule of the kernel's packet filter for each.
 */
#ifndef SOFTHCA_DEVICE_KERNEL_DROP_H
#define SOFTHCA_DEVICE_KERNEL_DROP_H

#include "flow.h"

#include <pthread.h>

enum kernel_drop_mode {
	KERNEL_DROP_AUTO,    /* where the process may: CAP_NET_ADMIN; a line on stderr if that is not why */
	KERNEL_DROP_REQUIRE, /* or the flow is refused */
	KERNEL_DROP_OFF,
};

struct nft;

/* Has a lock of its own, taken after the device's if both are. */
struct kernel_drop {
	pthread_mutex_t lock;
	enum kernel_drop_mode mode;
	const char *netdev;
	bool warned;
	struct nft *nft; /* there from the first rule on */
};

#define KERNEL_DROP_MAX 2 /* one per IP version where the rule does not say which */

/* The kernel's rules for one of ours; all zeros: none. */
struct kernel_dropped {
	uint64_t handles[KERNEL_DROP_MAX];
};

void kernel_drop_init(struct kernel_drop *k, enum kernel_drop_mode mode, const char *netdev);
/* All rules are gone with it; add() starts anew. */
void kernel_drop_close(struct kernel_drop *k);

/* In a forked child: the rules are the parent's, and are not to outlive it. */
void kernel_drop_forked(struct kernel_drop *k);

/* 0, or with KERNEL_DROP_REQUIRE what the kernel said: -EPERM. Waits for the kernel. */
int kernel_drop_add(struct kernel_drop *k, const struct flow_rule *rule, struct kernel_dropped *d);
void kernel_drop_remove(struct kernel_drop *k, const struct kernel_dropped *d);

#endif
