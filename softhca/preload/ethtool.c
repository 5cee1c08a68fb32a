// SPDX-License-Identifier: Apache-2.0
/*
 * Answers SIOCETHTOOL for emulated netdevs: driver name and the statistics that programs read from an mlx5 netdev.
 * All other requests go to the netdev's own driver.
 */
#include "ethtool.h"

#include "../device/injection.h"
#include "../uverbs/user_memory.h"
#include "root.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <net/if.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct statistic {
	const char *name;
	size_t offset;
	unsigned int bits; /* width in the device; narrower counters wrap */
} statistics[] = {
	{"rx_packets_phy", offsetof(struct device_counters, rx_packets), 64},
	{"tx_packets_phy", offsetof(struct device_counters, tx_packets), 64},
	{"rx_bytes_phy", offsetof(struct device_counters, rx_bytes), 64},
	{"tx_bytes_phy", offsetof(struct device_counters, tx_bytes), 64},
	{"rx_discards_phy", offsetof(struct device_counters, discards), 64},
	{"rx_out_of_buffer", offsetof(struct device_counters, out_of_buffer), 32},
};
#define N_STATISTICS (sizeof(statistics) / sizeof(statistics[0]))

/* The structures below end in an array, which lies behind the head in the program's memory. */
static int ethtool_write_both(uint64_t user, const void *head, size_t head_bytes, const void *array, size_t array_bytes)
{
	int r = user_memory_write(user, head, head_bytes);

	return r ? r : user_memory_write(user + head_bytes, array, array_bytes);
}

static int ethtool_driver_info(uint64_t user, const struct device *d)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO, .n_stats = N_STATISTICS};
	uint64_t v = d->config.profile->fw_ver;

	strcpy(info.driver, "mlx5_core");
	snprintf(info.fw_version, sizeof(info.fw_version), "%hu.%hu.%04hu", (unsigned short)(v >> 32),
	         (unsigned short)(v >> 16), (unsigned short)v);
	snprintf(info.bus_info, sizeof(info.bus_info), "0000:fe:%02x.0", d->index);
	return user_memory_write(user, &info, sizeof(info));
}

static int ethtool_string_set_info(uint64_t user)
{
	struct ethtool_sset_info info;
	uint32_t length = N_STATISTICS;
	int r = user_memory_read(&info, user, sizeof(info));

	if (r)
		return r;
	if (!(info.sset_mask & 1ull << ETH_SS_STATS))
		return -EOPNOTSUPP;
	info.sset_mask = 1ull << ETH_SS_STATS;
	return ethtool_write_both(user, &info, sizeof(info), &length, sizeof(length));
}

static int ethtool_strings(uint64_t user)
{
	char names[N_STATISTICS][ETH_GSTRING_LEN] = {};
	struct ethtool_gstrings g;
	int r = user_memory_read(&g, user, sizeof(g));

	if (r)
		return r;
	if (g.string_set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	g.len = N_STATISTICS;
	for (size_t i = 0; i < N_STATISTICS; i++)
		strcpy(names[i], statistics[i].name);
	return ethtool_write_both(user, &g, sizeof(g), names, sizeof(names));
}

static int ethtool_values(uint64_t user, struct device *d)
{
	struct ethtool_stats s = {.cmd = ETHTOOL_GSTATS, .n_stats = N_STATISTICS};
	uint64_t data[N_STATISTICS];
	struct device_counters c;

	/* mlx5_core leaves a counter as it was if the firmware does not answer. */
	injection_command(d);
	device_read_counters(d, &c);
	for (size_t i = 0; i < N_STATISTICS; i++) {
		memcpy(&data[i], (const uint8_t *)&c + statistics[i].offset, 8);
		if (statistics[i].bits == 32)
			data[i] = (uint32_t)data[i];
	}
	return ethtool_write_both(user, &s, sizeof(s), data, sizeof(data));
}

static struct device *ethtool_find(struct root *root, const struct ifreq *ifr)
{
	for (unsigned int i = 0; i < root->n_devices; i++)
		if (!strncmp(ifr->ifr_name, root->devices[i].config.netdev, IFNAMSIZ))
			return &root->devices[i];
	return NULL;
}

bool ethtool_ours(void *arg, int *result)
{
	struct device *d;
	struct ifreq ifr;
	uint64_t user;
	uint32_t command;

	if (!root_is_owner() || user_memory_read(&ifr, (uintptr_t)arg, sizeof(ifr)))
		return false; /* the kernel will answer with EFAULT */
	d = ethtool_find(root_get(), &ifr);
	user = (uintptr_t)ifr.ifr_data;
	if (!d || user_memory_read(&command, user, sizeof(command)))
		return false;
	switch (command) {
	case ETHTOOL_GDRVINFO:
		*result = ethtool_driver_info(user, d);
		return true;
	case ETHTOOL_GSSET_INFO:
		*result = ethtool_string_set_info(user);
		return *result != -EOPNOTSUPP;
	case ETHTOOL_GSTRINGS:
		*result = ethtool_strings(user);
		return *result != -EOPNOTSUPP;
	case ETHTOOL_GSTATS:
		*result = ethtool_values(user, d);
		return true;
	default:
		return false; /* features, rings, links: the netdev's driver answers */
	}
}
