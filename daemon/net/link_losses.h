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
	LINK_LOSS_DOWN,    /* of the two before: the interface was down between the two readings that show them */
	LINK_LOSS_N
};

struct link_losses;

/*
 * Packets that the queues of a backend refused and count themselves: the drivers with has_refused (driver_losses.h)
 * count them as dropped, too, a little later. wait: until the driver has counted all of them.
 */
struct link_refused_source {
	uint64_t (*read)(void *context, bool wait); /* NULL: there are none */
	void *context;
};

/**
 * Begin to count at an interface: packets that were dropped before are not counted. NULL: out of memory. A
 * frame that nobody takes is counted only if its EtherType is new (takers.h).
 */
struct link_losses *link_losses_new(const char *interface, const struct link_refused_source *refused);
/** NULL: no effect. */
void link_losses_free(struct link_losses *losses);

/**
 * Count what was dropped until now. Blocks until the kernel answers. 0; -EAGAIN: more may have been dropped, because
 * queues refused packets meanwhile; other -errno: nothing was added.
 */
int link_losses_read(struct link_losses *losses);

/** Packets of a kind, as of the last reading. They only grow. */
uint64_t link_losses_of(const struct link_losses *losses, enum link_loss kind);

/**
 * Does the interface's driver count all packets that it, its card or the kernel drops? Not of an interface that is
 * stacked on others (driver_losses.h).
 */
bool link_losses_are_complete(const struct link_losses *losses);

/** Not, because the interface is a veth and its other end is in another network namespace. */
bool link_losses_other_end_is_away(const struct link_losses *losses);

/** The XDP program of the interface, which may drop packets uncounted, as of the last reading. 0: none. */
uint32_t link_losses_xdp_program(const struct link_losses *losses);

/* ---- the sums alone, without an interface ---------------------------------------------------------- */

/* One reading of an interface's statistics. */
struct link_statistics {
	uint64_t dropped; /* by the driver or the kernel, the backlog included */
	uint64_t card;
	uint64_t damaged;
	uint64_t peer; /* what the other end could not deliver, dropped by this end or on the way */
	bool is_down;
	uint32_t carrier_changes;
};

/** Was the interface down at one of two readings, or, as far as its driver says, between them? */
static inline bool link_was_down(const struct link_statistics *last, const struct link_statistics *now)
{
	return last->is_down || now->is_down || last->carrier_changes != now->carrier_changes;
}

/* What an interface has dropped beside the packets that queues refused. */
struct link_refused {
	uint64_t at_begin; /* refused when the interface was read first */
	uint64_t counted;  /* by the interface, at the last reading */
	bool is_exact;     /* the last reading was */
};

/** The interface was read first. */
void link_refused_begin(struct link_refused *refused, uint64_t counted, uint64_t n);
/**
 * The interface has counted so many packets; when it was read, all of the first `before` that were refused were among
 * them, and none beyond the first `after`. Returns how many it surely dropped beside them; last: by the last reading.
 * is_exact: it is their number.
 */
uint64_t link_refused_subtract(struct link_refused *refused, uint64_t counted, uint64_t before, uint64_t after,
                               uint64_t last);
/** No reading of the queues is needed: the interface has dropped nothing since a reading that was exact. */
static inline bool link_refused_is_known(const struct link_refused *refused, uint64_t counted)
{
	return refused->is_exact && counted == refused->counted;
}

#endif
