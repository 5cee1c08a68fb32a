// SPDX-License-Identifier: Apache-2.0
/*
 * The XDP program of an interface: it sends the packets of a queue's flows to the queue's AF_XDP sockets, one for each
 * card queue (a receive queue of the interface), and leaves all other packets to the kernel. The link that attaches it
 * belongs to this process alone: the kernel takes it away when the process ends, however it ends.
 *
 * load() needs CAP_BPF and CAP_NET_ADMIN, but not if a program is kept for the interface (bpf_keep.h); the other calls
 * succeed without. One thread at a time, but for read_counts.
 * Only these calls change the program's maps, and none of them disturbs the interface but attach, detach and
 * set_card_queues.
 */
#ifndef DAEMON_BACKEND_BPF_XDP_PROGRAM_H
#define DAEMON_BACKEND_BPF_XDP_PROGRAM_H

#include "daemon/backend/bpf/flow_table.h"
#include "lib/base/failure.h"

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct xdp_program {
	char interface[IFNAMSIZ];
	struct bpf_object *object;
	struct flow_table table; /* a flow's target is a queue, or the first of a group */
	int twin_fds[2];         /* of the object */
	uint32_t twin_ids[2];    /* as the kernel has them */
	int twin;                /* the one that is attached */
	int link_fd;             /* -1: none */
	unsigned int ifindex;
	bool stopped_vlan_strip; /* of that interface */
	int sockets_fd;          /* of the object */
	int counts_fd;           /* of the object */
	uint32_t n_queues;       /* that it has room for */
	int n_cpus;
};

/**
 * Load it for queues 0 to n_queues - 1 and card queues 0 to max_card_queues - 1. It has no card queues, sockets and
 * flows yet. The interface's name is for messages.
 */
int xdp_program_load(const char *interface, uint32_t n_queues, uint32_t max_card_queues, struct xdp_program **program,
                     struct failure *failure);
/** Detaches it, and keeps it for the next load() if this process may not load another one. NULL is allowed. */
void xdp_program_free(struct xdp_program *program);
/** Is one kept for the interface? */
bool xdp_program_is_kept(const char *interface);

/**
 * Attach it in the driver's own mode. If it is attached, it leaves the other interface first. The driver leaves VLAN
 * tags in the frames from now on until it is detached, if the process has CAP_NET_ADMIN both times.
 */
int xdp_program_attach(struct xdp_program *program, unsigned int ifindex, struct failure *failure);
/** No effect if it is not attached. */
void xdp_program_detach(struct xdp_program *program);

/** False: another process has taken it from the interface, or put another program in its place. */
bool xdp_program_is_there(const struct xdp_program *program);

/**
 * Packets of card queues from n on are dropped and counted (no_socket). n is at most max_card_queues. If the program is
 * attached, it now runs on all card queues that the interface has; without this call not on those that came since. 0 or
 * -errno.
 */
int xdp_program_set_card_queues(struct xdp_program *program, uint32_t n);

/** The socket is bound to that card_queue. 0 or -errno. */
int xdp_program_set_socket(struct xdp_program *program, uint32_t queue, uint32_t card_queue, int fd);

/**
 * When a packet of a flow with has_time arrived, by CLOCK_TAI. frame: its first byte in the socket's memory, which was
 * 0 before its first packet. 0: its driver has no room for the time.
 */
static inline uint64_t xdp_program_packet_time(const uint8_t *frame)
{
	uint64_t tai_ns;

	memcpy(&tai_ns, frame - sizeof(tai_ns), sizeof(tai_ns));
	return tai_ns;
}

/** Counts of a queue number, since load(). Any thread. 0 or -errno. */
int xdp_program_read_counts(const struct xdp_program *program, uint32_t queue, struct flow_counts *counts);

#endif
