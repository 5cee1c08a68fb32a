// SPDX-License-Identifier: Apache-2.0
/* Switches an interface's rx-vlan-offload off while an XDP program is attached, and on again (SIOCETHTOOL). */
#include "daemon/backend/bpf/vlan_strip.h"

#include "daemon/base/log.h"
#include "daemon/net/ethtool.h"

#include <string.h>

/* 1: changed; 0: it was so, or the driver has no such setting; or -errno. */
static int vlan_strip_set(const char *interface, bool on)
{
	struct ethtool_value flags = {.cmd = ETHTOOL_GFLAGS};
	int r = ethtool_ask(interface, &flags);

	if (r < 0 || !(flags.data & ETH_FLAG_RXVLAN) == !on)
		return r == -EOPNOTSUPP ? 0 : r;
	flags.cmd = ETHTOOL_SFLAGS;
	flags.data ^= ETH_FLAG_RXVLAN;
	r = ethtool_ask(interface, &flags);
	return r < 0 ? r : 1;
}

bool vlan_strip_stop(unsigned int ifindex)
{
	char name[IF_NAMESIZE];
	const struct log_about about = {.interface = name};
	int r = if_indextoname(ifindex, name) ? vlan_strip_set(name, false) : 0;

	if (r > 0)
		log_message(
			LOG_INFO, &about,
			"interface %s: rx-vlan-offload is off as long as the daemon captures there, because XDP does "
			"not see the VLAN tags that it takes out of the frames",
			name);
	else if (r < 0)
		log_message(
			LOG_WARNING, &about,
			"interface %s: cannot switch rx-vlan-offload off: %s: flows with a VLAN match no packet there: "
			"try 'ethtool -K %s rxvlan off', or use backend = \"packet\"",
			name, strerror(-r), name);
	return r > 0;
}

void vlan_strip_resume(unsigned int ifindex)
{
	char name[IF_NAMESIZE];
	int r = if_indextoname(ifindex, name) ? vlan_strip_set(name, true) : 0;

	if (r < 0)
		log_message(
			LOG_NOTICE, &(struct log_about){.interface = name},
			"interface %s: rx-vlan-offload stays off: %s: 'ethtool -K %s rxvlan on' switches it on, which "
			"saves the kernel some work for frames with a VLAN",
			name, strerror(-r), name);
}
