// SPDX-License-Identifier: Apache-2.0
/*
 * The programs of an interface for the packet backend. One shares the frames of flows out to packet sockets that are
 * one fanout group: it returns the index of a socket in the group, and 0 for frames of no flow. The other is at the tcx
 * ingress of the interface. It drops the frames of flows after the packet sockets have seen them: the kernel's network
 * stack does not handle, answer or count them. The link that attaches it belongs to this process
 * alone: the kernel takes it away when the process ends, however it ends.
 *
 * load() and attach_drop() need CAP_BPF and CAP_NET_ADMIN; the other calls need no capability. Control thread.
 */
#ifndef DAEMON_BACKEND_BPF_PACKET_PROGRAM_H
#define DAEMON_BACKEND_BPF_PACKET_PROGRAM_H

#include "daemon/flow/flow.h"
#include "lib/base/failure.h"

#include <stdbool.h>

struct packet_program;

#define PACKET_PROGRAM_SOCKETS_MAX 128

/**
 * It takes nothing yet. The name is for messages. has_ethernet: frames have Ethernet headers; without, the MAC of a
 * rule does not count, and no frame has a VLAN. Failure: -EPERM.
 */
int packet_program_load(const char *interface, bool has_ethernet, struct packet_program **program,
                        struct failure *failure);
/** The kernel gets all packets again. NULL is allowed. */
void packet_program_free(struct packet_program *program);

/** Descriptor of the program that chooses a socket, for PACKET_FANOUT_DATA. */
int packet_program_fd(const struct packet_program *program);
/** Descriptor of the filter for the socket with this index, which takes only frames that are for the index. */
int packet_program_filter_fd(const struct packet_program *program, uint32_t index);
/** Drop the frames of flows that ask for it, as far as a group has the other program. Linux 6.6; else -EOPNOTSUPP. */
int packet_program_attach_drop(struct packet_program *program, unsigned int ifindex, struct failure *failure);

/** As flow_table_set_group(). */
int packet_program_set_group(struct packet_program *program, const uint32_t *indexes, uint32_t n, bool ports);

/** The socket or group that gets a flow's frames. */
struct packet_flow_target {
	uint32_t fanout_index;
	bool is_group; /* that begins with the index */
	bool drops;    /* the kernel does not handle them */
};

/** Failures: -EEXIST, -E2BIG. */
int packet_program_add_flow(struct packet_program *program, const struct flow_rule *rule,
                            const struct packet_flow_target *target, struct failure *failure);
/** A flow that was added gets another target, and loses no frame. */
int packet_program_move_flow(struct packet_program *program, const struct flow_rule *rule,
                             const struct packet_flow_target *target);
void packet_program_remove_flow(struct packet_program *program, const struct flow_rule *rule);

#endif
