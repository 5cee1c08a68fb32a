// SPDX-License-Identifier: Apache-2.0
/*
 * Packets that were dropped between the wire and the flow rules: by the card, the driver or the kernel, at an interface
 * and at those that it is stacked on. They were sent to the interface, but no stream can count them, and whose they
 * were is not known. One thread at a time.
 */
#ifndef DAEMON_NET_LINK_LOSSES_H
#define DAEMON_NET_LINK_LOSSES_H

#include <stdbool.h>
#include <stdint.h>

enum link_loss {
	LINK_LOSS_CARD,    /* the card had no free buffer */
	LINK_LOSS_DAMAGED, /* frames with a bad checksum, or of a length that the card does not take */
	LINK_LOSS_BACKLOG, /* the kernel's queue of a CPU was full (net.core.netdev_max_backlog) */
	LINK_LOSS_KERNEL,  /* the driver or the kernel dropped them for another reason, as the MTU */
	LINK_LOSS_PEER,    /* the other end of a veth could not deliver them */
	LINK_LOSS_N
};

struct link_losses;

/**
 * Begin to count at an interface: packets that were dropped before are not counted. NULL: out of memory. The sockets of
 * the result take no packet. While they are open, the kernel counts no frame as dropped only because nobody wants it.
 */
struct link_losses *link_losses_new(const char *interface);
/** NULL: no effect. */
void link_losses_free(struct link_losses *losses);

/** Count what was dropped until now. Blocks until the kernel answers. 0; -errno: nothing was added. */
int link_losses_read(struct link_losses *losses);

/** Packets of a kind, as of the last reading. They only grow. */
uint64_t link_losses_of(const struct link_losses *losses, enum link_loss kind);

/** Does the driver of each interface below count all packets that its card drops? */
bool link_losses_are_complete(const struct link_losses *losses);

/* ---- the sums alone, without an interface ---------------------------------------------------------- */

/* One reading of an interface's statistics. */
struct link_statistics {
	uint64_t dropped; /* by the driver or the kernel, the backlog included */
	uint64_t card;
	uint64_t damaged;
	uint64_t peer; /* what the other end could not deliver, dropped by this end or on the way */
};

/* The drops of all backlogs of the machine, which the kernel does not count for an interface. */
struct link_backlog {
	uint64_t seen;   /* at the last reading */
	uint64_t fresh;  /* of the last reading: not found at an interface yet */
	uint64_t recent; /* of the reading before */
};

/** The backlogs' drops, in the order: read an interface, then the backlogs. */
void link_backlog_read(struct link_backlog *backlog, uint64_t dropped);
/** How many of the packets that an interface has dropped since the last reading were dropped by a backlog. */
uint64_t link_backlog_take(struct link_backlog *backlog, uint64_t dropped);

#endif
