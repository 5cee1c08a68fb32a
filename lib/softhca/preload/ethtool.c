// SPDX-License-Identifier: Apache-2.0
#include "ethtool.h"

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
	unsigned int bits; /* as wide as in the device: narrower ones wrap */
} statistics[] = {
	{"rx_packets_phy", offsetof(struct device_counters, rx_packets), 64},
	{"tx_packets_phy", offsetof(struct device_counters, tx_packets), 64},
	{"rx_bytes_phy", offsetof(struct device_counters, rx_bytes), 64},
	{"tx_bytes_phy", offsetof(struct device_counters, tx_bytes), 64},
	{"rx_discards_phy", offsetof(struct device_counters, discards), 64},
	{"rx_out_of_buffer", offsetof(struct device_counters, out_of_buffer), 32},
};
#define N_STATISTICS (sizeof(statistics) / sizeof(statistics[0]))

static int driver_info(struct ethtool_drvinfo *info, const struct device *d)
{
	uint64_t v = d->config.profile->fw_ver;

	memset(info, 0, sizeof(*info));
	info->cmd = ETHTOOL_GDRVINFO;
	strcpy(info->driver, "mlx5_core");
	snprintf(info->fw_version, sizeof(info->fw_version), "%hu.%hu.%04hu",
		 (unsigned short)(v >> 32), (unsigned short)(v >> 16), (unsigned short)v);
	snprintf(info->bus_info, sizeof(info->bus_info), "0000:fe:%02x.0", d->index);
	info->n_stats = N_STATISTICS;
	return 0;
}

static int string_set_info(struct ethtool_sset_info *info)
{
	uint64_t asked = info->sset_mask;

	if (!(asked & 1ull << ETH_SS_STATS))
		return -EOPNOTSUPP;
	info->sset_mask = 1ull << ETH_SS_STATS;
	info->data[0] = N_STATISTICS;
	return 0;
}

static int strings(struct ethtool_gstrings *g)
{
	if (g->string_set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	g->len = N_STATISTICS;
	for (size_t i = 0; i < N_STATISTICS; i++) {
		memset(g->data + i * ETH_GSTRING_LEN, 0, ETH_GSTRING_LEN);
		strcpy((char *)g->data + i * ETH_GSTRING_LEN, statistics[i].name);
	}
	return 0;
}

static int values(struct ethtool_stats *s, struct device *d)
{
	struct device_counters c;

	device_read_counters(d, &c);
	s->n_stats = N_STATISTICS;
	for (size_t i = 0; i < N_STATISTICS; i++) {
		memcpy(&s->data[i], (const uint8_t *)&c + statistics[i].offset, 8);
		if (statistics[i].bits == 32)
			s->data[i] = (uint32_t)s->data[i];
	}
	return 0;
}

bool ethtool_ours(void *arg, int *result)
{
	struct root *root = root_get();
	struct ifreq *ifr = arg;
	struct device *d = NULL;

	for (unsigned int i = 0; i < root->n_devices && !d; i++)
		if (!strncmp(ifr->ifr_name, root->devices[i].config.netdev, IFNAMSIZ))
			d = &root->devices[i];
	if (!d || !root_is_owner())
		return false;
	switch (*(uint32_t *)(void *)ifr->ifr_data) {
	case ETHTOOL_GDRVINFO:
		*result = driver_info((void *)ifr->ifr_data, d);
		return true;
	case ETHTOOL_GSSET_INFO:
		*result = string_set_info((void *)ifr->ifr_data);
		return *result != -EOPNOTSUPP;
	case ETHTOOL_GSTRINGS:
		*result = strings((void *)ifr->ifr_data);
		return *result != -EOPNOTSUPP;
	case ETHTOOL_GSTATS:
		*result = values((void *)ifr->ifr_data, d);
		return true;
	default:
		return false; /* features, rings, links: the netdev answers for itself */
	}
}
