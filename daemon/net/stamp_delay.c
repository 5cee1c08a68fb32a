// SPDX-License-Identifier: Apache-2.0
/* By how much an interface's settings let the kernel's timestamps be late. */
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"
#include "lib/base/files.h"

/* Drivers of Intel's cards have modes that adapt to the traffic, and show them as numbers up to this one. */
#define MODE_MAX 4

bool net_has_rx_usecs(const char *interface)
{
	struct ethtool_coalesce coalesce = {.cmd = ETHTOOL_GCOALESCE};

	return ethtool_ask(interface, &coalesce) == 0 && coalesce.rx_coalesce_usecs > 0;
}

/*
 * The card holds its interrupt back for rx-usecs. The kernel puts packets together (GRO), and stamps the result, for
 * gro_flush_timeout; with napi_defer_hard_irqs it also looks for packets only so often, in place of an interrupt.
 */
uint64_t net_stamp_delay_ns(const char *interface)
{
	struct ethtool_coalesce coalesce = {.cmd = ETHTOOL_GCOALESCE};
	uint64_t flush_ns, n_deferred;
	char directory[PATH_MAX];

	if (!net_is_in_sysfs(interface))
		return UINT64_MAX;
	files_join(directory, "/sys/class/net/%s", interface);
	flush_ns = files_read_limit(directory, "gro_flush_timeout");
	n_deferred = files_read_limit(directory, "napi_defer_hard_irqs");
	if (ethtool_ask(interface, &coalesce) < 0 || coalesce.use_adaptive_rx_coalesce ||
	    (coalesce.rx_coalesce_usecs > 0 && coalesce.rx_coalesce_usecs <= MODE_MAX) || flush_ns == UINT64_MAX ||
	    n_deferred == UINT64_MAX)
		return UINT64_MAX;
	return coalesce.rx_coalesce_usecs * UINT64_C(1000) + flush_ns * (n_deferred ? 2 : 1);
}
