// SPDX-License-Identifier: Apache-2.0
/*
 * The user and the capabilities of the process, and how much memory it may lock.
 *
 * Capabilities belong to threads: call priv_keep() and priv_drop() from the main thread before it starts other
 * threads, which inherit what is left. A dropped capability cannot come back, so anything that needs more (for
 * instance, to change the group of the control socket) has to be done before, or has to ask priv_keep() to keep its
 * capability.
 */
#ifndef DAEMON_PRIV_PRIV_H
#define DAEMON_PRIV_PRIV_H

#include "lib/base/failure.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The user that root switches to. */
struct priv_user {
	const char *name;
	uid_t uid;
	gid_t gid;
};

/** user refers to name afterwards. Failure: EX_CONFIG with the command that creates the user. */
int priv_find_user(struct priv_user *user, const char *name, struct failure *failure);

/**
 * Call it in a child process that is the user, and wait for its end. The child has no other threads, so the caller must
 * have none. -errno: this process cannot become that user.
 */
int priv_call_as(const struct priv_user *user, void call(void *context), void *context);

/* Capabilities (CAP_NET_RAW, … of <linux/capability.h>) as a mask. */
#define PRIV_BIT(capability) (UINT64_C(1) << (capability))

/**
 * Switch to user and its groups (NULL: keep the user). Drop all capabilities but these, as far as the process has
 * them, from the permitted, effective and bounding sets (the bounding set only with CAP_SETPCAP; no_new_privs is set
 * in any case), and all from the inheritable and ambient sets. Then check the result. report gets a line for the log.
 * On error nothing was dropped, or -EPERM: some could not be.
 */
int priv_keep(const struct priv_user *user, uint64_t capabilities, char *report, size_t report_bytes,
              struct failure *failure);

/** Drop these capabilities from every set of this thread; no effect on those that it does not have. 0 or -errno. */
int priv_drop(uint64_t capabilities);

/* Commands that give the service the capabilities which backend "xdp" and the drop of backend "packet" need. */
#define PRIV_XDP_COMMANDS                                                                         \
	"install -D -m 644 -t /etc/systemd/system/ibvcapd.service.d /usr/share/ibvcapd/xdp.conf " \
	"&& systemctl daemon-reload && systemctl restart ibvcapd"

/**
 * Is the capability in the effective set of this thread? If not: -EPERM and EX_NOPERM. The text names the capability,
 * and the commands that grant it. who is the part that needs it ('backend "xdp"'), purpose what it does with it ("to
 * load its program").
 */
int priv_require(int capability, const char *who, const char *purpose, struct failure *failure);

/** "CAP_NET_RAW, CAP_BPF": those of the mask that this thread has. Returns buffer. */
const char *priv_list(uint64_t capabilities, char *buffer, size_t bytes);

/** Is the capability in the effective set of this thread? */
bool priv_has(int capability);
/** Did this process have it, before priv_keep() or priv_drop()? */
bool priv_gave_up(int capability);

/**
 * May this process lock `bytes` of memory (the sum of all that it will register)? Raises the soft limit if the
 * hard limit allows it. 0, or -ENOMEM and EX_NOPERM with the ways to allow it.
 */
int priv_memlock_allows(uint64_t bytes, struct failure *failure);

#endif
