// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that a client keeps though it has left: mapped, or by a descriptor. Its pages are there for as long as it likes,
 * so they count as its own until it lets go of them. One thread at a time.
 */
#ifndef DAEMON_CONTROL_KEPT_H
#define DAEMON_CONTROL_KEPT_H

#include "lib/ibvcap/shm.h"

#include <stdbool.h>

#define KEPT_MAX 3

struct kept {
	int fds[KEPT_MAX]; /* our own, of segments that somebody else may have too */
	unsigned n;
};

/** Watch so many segments, at most KEPT_MAX, from now on; what is not open, or for want of descriptors cannot be, is not. */
void kept_take(struct kept *kept, const struct shm *const *segments, unsigned n);

/** Does anybody else have one of them still? What nobody has is watched no more. */
bool kept_look(struct kept *kept);

void kept_drop(struct kept *kept);

#endif
