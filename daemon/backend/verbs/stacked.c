// SPDX-License-Identifier: Apache-2.0
/*
 * Interfaces that are stacked on others: VLANs, bonds, bridges, macvlans. The GID table of a lower interface's device
 * names them too, but the device gives a raw queue the frames as they come in at its port: with the tag of the VLAN,
 * for the MAC of the lower interface, and of one port of a bond. So they are refused, and the text names the lower
 * interfaces. The exception is a bond of which mlx5 has made one device for all ports (RoCE LAG: mlx5_bond_0).
 */
#include "daemon/backend/verbs/verbs.h"
#include "daemon/net/stacking.h"

#include <errno.h>
#include <string.h>

int verbs_check_stacking(const struct verbs_sysfs *sysfs, const char *interface, struct failure *failure)
{
	struct net_stacking stacking;
	const char *kind = stacking.kind;

	net_stacking_read(sysfs->root, interface, &stacking);
	if (stacking.n_lower == 0)
		return 0;
	if (strcmp(kind, "vlan") == 0)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "interface %s is a VLAN of %s: the device receives its frames with their tag: set "
		                   "interface = \"%s\", and vlan to the number of the VLAN in each flow",
		                   interface, stacking.names, stacking.names);
	if (strcmp(kind, "bond") != 0)
		return failure_set(failure, EX_CONFIG, EINVAL,
		                   "interface %s%s%s%s is stacked on %s: the device receives what comes in at a port: "
		                   "set interface to one of these",
		                   interface, *kind ? " (" : "", kind, *kind ? ")" : "", stacking.names);
	if (net_stacking_is_lag(&stacking))
		return VERBS_STACKING_LAG;
	return failure_set(failure, EX_UNAVAILABLE, EINVAL,
	                   "interface %s is a bond of %s without a device for all of them (%u of %u have an RDMA "
	                   "device): a queue receives what comes in at one port: configure a stream for each port, "
	                   "with its interface",
	                   interface, stacking.names, stacking.n_with_device, stacking.n_lower);
}
