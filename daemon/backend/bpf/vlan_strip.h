// SPDX-License-Identifier: Apache-2.0
/*
 * A driver with rx-vlan-offload (igb, vmxnet3, …) takes the VLAN tag out of a frame before an XDP program sees it: no
 * flow with a VLAN would match. Needs CAP_NET_ADMIN. Control thread.
 */
#ifndef DAEMON_BACKEND_BPF_VLAN_STRIP_H
#define DAEMON_BACKEND_BPF_VLAN_STRIP_H

#include <stdbool.h>

/** Leave the tags in the frames; true: this changed the interface. The log says so, or why it cannot be done. */
bool vlan_strip_stop(unsigned int ifindex);
/** Undo it. If that cannot be done any more, the log says which command does it. */
void vlan_strip_resume(unsigned int ifindex);

#endif
