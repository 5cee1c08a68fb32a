// SPDX-License-Identifier: Apache-2.0
/*
 * The XDP program of an interface: it sends the packets of a queue's flows to the queue's AF_XDP sockets, one for each
 * card queue (a receive queue of the interface), and leaves all other packets to the kernel. The link that attaches it
 * belongs to this process alone: the kernel takes it away when the process ends, however it ends.
 *
 * load() needs CAP_BPF and CAP_NET_ADMIN; the other calls succeed without. One thread at a time, but for read_counts.
 * Only these calls change the program's maps, and none of them disturbs the interface but attach, detach and
 * set_card_queues.
 */
#ifndef DAEMON_BACKEND_BPF_XDP_PROGRAM_H
#define DAEMON_BACKEND_BPF_XDP_PROGRAM_H

#include "daemon/backend/bpf/flow_key.h"
#include "daemon/flow/flow.h"
#include "lib/base/failure.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct xdp_program;

/* Counts of a queue number, since load(). */
struct xdp_program_counts {
	uint64_t matched;
	uint64_t no_socket; /* of these, dropped because the queue had no socket on the card queue */
};

/**
 * Load it for queues 0 to n_queues - 1 and card queues 0 to max_card_queues - 1. It has no card queues, sockets and
 * flows yet. The interface's name is for messages.
 */
int xdp_program_load(const char *interface, uint32_t n_queues, uint32_t max_card_queues, struct xdp_program **program,
                     struct failure *failure);
/** Detaches it. NULL is allowed. */
void xdp_program_free(struct xdp_program *program);

/**
 * Attach it in the driver's own mode. If it is attached, it leaves the other interface first. The driver leaves VLAN
 * tags in the frames from now on until it is detached, if the process has CAP_NET_ADMIN both times.
 */
int xdp_program_attach(struct xdp_program *program, unsigned int ifindex, struct failure *failure);
/** No effect if it is not attached. */
void xdp_program_detach(struct xdp_program *program);

/**
 * Packets of card queues from n on are dropped and counted (no_socket). n is at most max_card_queues. If the program is
 * attached, it now runs on all card queues that the interface has; without this call not on those that came since. 0 or
 * -errno.
 */
int xdp_program_set_card_queues(struct xdp_program *program, uint32_t n);

/** The socket is bound to that card_queue. 0 or -errno. */
int xdp_program_set_socket(struct xdp_program *program, uint32_t queue, uint32_t card_queue, int fd);

/** As flow_table_set_group(). */
int xdp_program_set_group(struct xdp_program *program, const uint32_t *queues, uint32_t n, bool ports);

/** The target's rank is the rule's. No two flows of all queues match the same packet. Failures: -EEXIST, -E2BIG. */
int xdp_program_add_flow(struct xdp_program *program, const struct flow_target *target, const struct flow_rule *rule,
                         struct failure *failure);
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
/** Packets may still match it until membarrier(MEMBARRIER_CMD_GLOBAL) returns. */
void xdp_program_remove_flow(struct xdp_program *program, const struct flow_rule *rule);

/** Any thread. 0 or -errno. */
int xdp_program_read_counts(const struct xdp_program *program, uint32_t queue, struct xdp_program_counts *counts);

#endif
