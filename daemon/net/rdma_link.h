// SPDX-License-Identifier: Apache-2.0
/* The parsing of RDMA netlink's answers, for rdma_link.c and its test. */
#ifndef DAEMON_NET_RDMA_LINK_H
#define DAEMON_NET_RDMA_LINK_H

#include <libmnl/libmnl.h>
#include <stdbool.h>
#include <stdint.h>

/** The index of the device if the message is about a device of that name. */
bool rdma_link_read_device(const struct nlmsghdr *message, const char *name, uint32_t *index);
/** The number of the port if the message is about a port that has this interface. */
bool rdma_link_read_port(const struct nlmsghdr *message, unsigned interface_index, uint32_t *port);

#endif
