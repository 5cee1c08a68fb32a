// SPDX-License-Identifier: Apache-2.0
/*
 * A program at the tcx ingress of an interface that drops the packets of flows after packet sockets have seen them: the
 * kernel's network stack does not handle, answer or count them. The link that attaches it belongs to this process
 * alone: the kernel takes it away when the process ends, however it ends. Linux 6.6 or later.
 *
 * open() needs CAP_BPF and CAP_NET_ADMIN; the other calls need no capability. Control thread.
 */
#ifndef DAEMON_BACKEND_BPF_TCX_DROP_H
#define DAEMON_BACKEND_BPF_TCX_DROP_H

#include "daemon/base/failure.h"
#include "daemon/flow/flow.h"

#include <stdbool.h>

struct tcx_drop;

/**
 * It drops nothing yet. The name is for messages. has_ethernet: frames have Ethernet headers; without, the MAC of a
 * rule does not count, and no frame has a VLAN. Failures: -EOPNOTSUPP if the kernel has no tcx; -EPERM.
 */
int tcx_drop_open(const char *interface, unsigned int ifindex, bool has_ethernet, struct tcx_drop **drop,
                  struct failure *failure);
/** The kernel gets all packets again. NULL is allowed. */
void tcx_drop_close(struct tcx_drop *drop);

/** No two flows match the same packet. Failures: -EEXIST, -E2BIG. */
int tcx_drop_add(struct tcx_drop *drop, const struct flow_rule *rule, struct failure *failure);
void tcx_drop_remove(struct tcx_drop *drop, const struct flow_rule *rule);

#endif
