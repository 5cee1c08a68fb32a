// SPDX-License-Identifier: Apache-2.0
/*
 * The kernel counts a frame that nobody takes as dropped (rx_dropped), as if it was lost. Takers are sockets of one
 * interface whose filters refuse all frames; a frame of their EtherTypes has a taker, and is not counted.
 */
#ifndef DAEMON_NET_TAKERS_H
#define DAEMON_NET_TAKERS_H

#include <stdint.h>

#define TAKERS_MAX 64

struct takers {
	int other; /* gets the EtherTypes that have no taker; -1: could not be opened */
	unsigned n;
	uint16_t types[TAKERS_MAX];
	int fds[TAKERS_MAX]; /* -1: the kernel takes these frames itself, or the socket could not be opened */
};

/** index: of the interface; 0: it is gone, and there are no sockets. */
void takers_open(struct takers *takers, unsigned index);
void takers_close(struct takers *takers);

/** Open takers for EtherTypes that have come since the last call. Does not wait. */
void takers_learn(struct takers *takers, unsigned index);

#endif
