// SPDX-License-Identifier: Apache-2.0
/* The programs of the packet backend with two sockets, one for frames of flows and one for all others. */
#ifndef TESTS_UNIT_BACKEND_STEERING_H
#define TESTS_UNIT_BACKEND_STEERING_H

#include "daemon/backend/bpf/packet_program.h"

struct steering {
	struct packet_program *program;
	int fds[2]; /* by index in the group: 0 has what no flow takes */
};

/** Or skip the test. */
void steering_open(struct steering *steering, const char *interface, bool with_perfmon);
/** A flow whose frames come to the socket of index 1, and not to the kernel. */
void steering_add(const struct steering *steering, const struct flow_rule *rule);

/** A packet socket. One that is bound to a type gets a frame after the tcx programs; one for all types, before. */
int steering_open_socket(const char *interface, uint16_t type);

/** Make two sockets a group of this type, in this order. */
void steering_join(const int fds[2], int type);

/** Take all capabilities but those of a daemon from this thread, or give them back. */
void use_capabilities_of_daemon(bool with_perfmon);
void use_all_capabilities(void);

#endif
