// SPDX-License-Identifier: Apache-2.0
/*
 * The programs of an interface for the packet backend. One shares the frames of flows out to packet sockets that are
 * one fanout group: it returns the index of a socket in the group, and 0 for frames of no flow. The other is at the tcx
 * ingress of the interface. It drops the frames of flows after the packet sockets have seen them: the kernel's network
 * stack does not handle, answer or count them. The link that attaches it belongs to this process
 * alone: the kernel takes it away when the process ends, however it ends.
 *
 * load() needs CAP_BPF and CAP_NET_ADMIN, but not if a program is kept for the interface (bpf_keep.h); the other calls
 * need no capability. Control thread.
 */
#ifndef DAEMON_BACKEND_BPF_PACKET_PROGRAM_H
#define DAEMON_BACKEND_BPF_PACKET_PROGRAM_H

#include "daemon/backend/bpf/flow_table.h"
#include "lib/base/failure.h"

#include <net/if.h>
#include <stdbool.h>

#define PACKET_PROGRAM_SOCKETS_MAX 128

struct packet_program {
	char interface[IFNAMSIZ];
	struct bpf_object *object;
	struct flow_table table; /* a flow's queue is the fanout index of its socket, or of the first of its group */
	int steer_fd;            /* chooses a socket, for PACKET_FANOUT_DATA */
	int link_fd;             /* attaches packet_drop; -1: none */
	int filter_fds
		[PACKET_PROGRAM_SOCKETS_MAX]; /* by fanout index: filters of sockets, which take only its frames */
	uint32_t n_filters;
};

/**
 * It takes nothing yet. The name is for messages. has_ethernet: frames have Ethernet headers; without, the MAC of a
 * rule does not count, and no frame has a VLAN. Failure: -EPERM.
 */
int packet_program_load(const char *interface, bool has_ethernet, struct packet_program **program,
                        struct failure *failure);
/**
 * The kernel gets all packets again. The program is kept for the next load() if this process may not load another one.
 * NULL is allowed.
 */
void packet_program_free(struct packet_program *program);
/** Is one kept for the interface? */
bool packet_program_is_kept(const char *interface);

/** Drop the frames of flows that ask for it, as far as a group has the other program. Linux 6.6; else -EOPNOTSUPP. */
int packet_program_attach_drop(struct packet_program *program, unsigned int ifindex, struct failure *failure);

#endif
