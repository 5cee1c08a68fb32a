// SPDX-License-Identifier: Apache-2.0
/* Why a device that counts drops itself lost packets that a flow had matched: the reasons behind no_buffer. */
#ifndef STATUS_DROP_H
#define STATUS_DROP_H

/* Each has its row in counters.c: name, unit, cause and remedy. New ones are appended. */
enum backend_drop {
	BACKEND_DROP_NO_FRAME,   /* no buffer was free: some queue of the interface held them all */
	BACKEND_DROP_RING_FULL,  /* this queue's own ring was full: its worker was slow, or had no slot */
	BACKEND_DROP_NO_SOCKET,  /* the packet came by a receive queue of the card that this queue does not serve */
	BACKEND_DROP_UNBOUND,    /* the kernel took the interface from the queue */
	BACKEND_DROP_INCOMPLETE, /* fragments of datagrams of which another fragment did not come in time */
	BACKEND_DROP_REFUSED,    /* fragments that contradict each other or their IP header */
	BACKEND_DROP_MERGED,     /* the kernel had merged packets (GRO, GSO), and they could not be taken apart */
	BACKEND_N_DROPS
};

#endif
