// SPDX-License-Identifier: Apache-2.0
/*
 * Whose the process is, what it keeps of root's powers, and what it may lock in memory.
 *
 * Capabilities belong to threads: call priv_keep() and priv_drop() from the main thread before it starts
 * others, which then inherit what is left. What priv_keep() takes away is gone for good; do first what
 * needs more (chown of the control socket to a group that root is not in, say), or ask to keep it.
 */
#ifndef DAEMON_PRIV_PRIV_H
#define DAEMON_PRIV_PRIV_H

#include "daemon/base/failure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* For root to become. */
struct priv_user {
	const char *name;
	uid_t uid;
	gid_t gid;
};

/** name is kept. Fault: EX_CONFIG with the command that makes the user. */
int priv_find_user(struct priv_user *user, const char *name, struct failure *failure);

struct priv_capability {
	int capability;      /* CAP_NET_RAW, … of <sys/capability.h> */
	bool required;       /* missing: a failure. Else kept where it is there. */
	const char *purpose; /* for the message: "raw packet queues" */
};

/**
 * Become user, with its groups and no way back (NULL: stay who we are). Drop everything but these from the permitted,
 * effective and bounding sets (bounding: where CAP_SETPCAP allows it; no_new_privs is set in any case), and everything from
 * the inheritable and ambient ones. Then read it back. report gets a line for the log. On error nothing was dropped, or -EPERM says what
 * could not be. Fault: EX_NOPERM, with the commands that grant what is missing.
 */
int priv_keep(const struct priv_user *user, const struct priv_capability *capabilities, uint32_t n_capabilities,
              char *report, size_t report_bytes, struct failure *failure);

/** Drop one more from every set of this thread, when its work is done. Not having it is fine. 0 or -errno. */
int priv_drop(int capability);

/** Is it in the effective set of this thread? */
bool priv_has(int capability);

/**
 * May this process pin so many bytes (all that it will register together)? Raises the soft memlock limit
 * where the hard one allows. 0, or -ENOMEM and EX_NOPERM with what would allow it.
 */
int priv_memlock_allows(uint64_t bytes, struct failure *failure);

#endif
