// SPDX-License-Identifier: Apache-2.0
/* Asks an interface's driver for its name, its card, its counters and the packets that it stamps (SIOCETHTOOL). */
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"

#include <errno.h>
#include <linux/net_tstamp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int net_driver_read(const char *interface, struct net_driver *driver)
{
	struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
	int r = ethtool_ask(interface, &info);

	*driver = (struct net_driver){.name = ""};
	if (r < 0)
		return r;
	snprintf(driver->name, sizeof(driver->name), "%s", info.driver);
	/* "0000:3b:00.0", "vmbus_1"; drivers without a device leave it empty, or say "tap" or "N/A". */
	driver->has_device = strpbrk(info.bus_info, "0123456789") != NULL;
	return 0;
}

/* ---- stamps: SIOCGHWTSTAMP ------------------------------------------------------------------------- */

/*
 * All programs share the setting, and PTP daemons set it to the packets of PTP: only "all packets" serves everybody,
 * and nothing narrower is set here.
 */
static bool stamping_can(const char *interface)
{
	struct ethtool_ts_info info = {.cmd = ETHTOOL_GET_TS_INFO, .phc_index = -1};
	const uint32_t needed = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;

	return ethtool_ask(interface, &info) == 0 && (info.so_timestamping & needed) == needed &&
	       info.rx_filters & 1U << HWTSTAMP_FILTER_ALL;
}

enum net_stamping net_stamping_read(const char *interface)
{
	struct hwtstamp_config now = {0};

	if (ethtool_request(interface, SIOCGHWTSTAMP, &now) == 0 && now.rx_filter == HWTSTAMP_FILTER_ALL)
		return NET_STAMPING_ALL;
	return stamping_can(interface) ? NET_STAMPING_OFF : NET_STAMPING_NONE;
}

/* A driver that cannot stamp the packets asked for may choose other ones. Its answer says which. */
int net_stamping_switch_on(const char *interface)
{
	struct hwtstamp_config before = {0}, wanted;
	int r = ethtool_request(interface, SIOCGHWTSTAMP, &before);

	if (r < 0)
		return r;
	wanted = before;
	wanted.rx_filter = HWTSTAMP_FILTER_ALL;
	r = ethtool_request(interface, SIOCSHWTSTAMP, &wanted);
	if (r < 0 || wanted.rx_filter == HWTSTAMP_FILTER_ALL)
		return r;
	ethtool_request(interface, SIOCSHWTSTAMP, &before);
	return -ERANGE;
}

/* ---- statistics of ethtool -S ------------------------------------------------------------------- */

/* mlx5 has some 1000, and 50 more for each queue. */
#define STATISTICS_MAX 65536

/*
 * The kernel writes all statistics that the driver has at that moment, whatever length was asked for. With this spare
 * room a driver that got more queues between two calls does not write past the end.
 */
#define STATISTICS_SPARE 4096

/* How many names the set ETH_SS_… has; never 0. */
static int ethtool_count_names(const char *interface, uint32_t set, uint32_t *n)
{
	union {
		struct ethtool_sset_info info;
		uint32_t words[sizeof(struct ethtool_sset_info) / sizeof(uint32_t) + 1]; /* the last is the length */
	} command = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = UINT64_C(1) << set}};
	int r = ethtool_ask(interface, &command);

	if (r < 0)
		return r;
	*n = command.info.sset_mask ? command.words[sizeof(command.info) / sizeof(uint32_t)] : 0;
	if (*n == 0)
		return -ENOTSUP;
	return *n <= STATISTICS_MAX ? 0 : -E2BIG;
}

/* The index of a name among n, or -ENOTSUP. */
static int ethtool_find_name(const char *interface, uint32_t set, const char *name, uint32_t n)
{
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + (size_t)(n + STATISTICS_SPARE) * ETH_GSTRING_LEN);
	int found = -ENOTSUP;
	int r;

	if (!names)
		return -ENOMEM;
	names->cmd = ETHTOOL_GSTRINGS;
	names->string_set = set;
	names->len = n;
	r = ethtool_ask(interface, names);
	for (uint32_t i = 0; r == 0 && i < n && found < 0; i++)
		if (strncmp((const char *)names->data + (size_t)i * ETH_GSTRING_LEN, name, ETH_GSTRING_LEN) == 0)
			found = (int)i;
	free(names);
	return r < 0 ? r : found;
}

static int ethtool_read_statistic(const char *interface, uint32_t index, uint32_t n, uint64_t *value)
{
	struct ethtool_stats *values = calloc(1, sizeof(*values) + (size_t)(n + STATISTICS_SPARE) * sizeof(uint64_t));
	int r;

	if (!values)
		return -ENOMEM;
	values->cmd = ETHTOOL_GSTATS;
	values->n_stats = n;
	r = ethtool_ask(interface, values);
	/* The driver changed its statistics since their names were read, so the index may be wrong. */
	if (r == 0 && values->n_stats != n)
		r = -EAGAIN;
	if (r == 0)
		*value = values->data[index];
	free(values);
	return r;
}

int net_statistic(const char *interface, const char *name, uint64_t *value)
{
	uint32_t n = 0;
	int r = ethtool_count_names(interface, ETH_SS_STATS, &n);

	if (r == 0)
		r = ethtool_find_name(interface, ETH_SS_STATS, name, n);
	return r < 0 ? r : ethtool_read_statistic(interface, (uint32_t)r, n, value);
}

int net_port_discards(const char *interface, uint64_t *discards)
{
	return net_statistic(interface, "rx_discards_phy", discards);
}

static bool ethtool_feature_is_on(const char *interface, uint32_t index, uint32_t n)
{
	uint32_t n_blocks = (n + 31) / 32;
	struct ethtool_gfeatures *features = calloc(1, sizeof(*features) + n_blocks * sizeof(features->features[0]));
	bool is_on;

	if (!features)
		return false;
	features->cmd = ETHTOOL_GFEATURES;
	features->size = n_blocks;
	is_on = ethtool_ask(interface, features) == 0 && features->features[index / 32].active >> (index % 32) & 1;
	free(features);
	return is_on;
}

bool net_has_feature(const char *interface, const char *name)
{
	uint32_t n = 0;
	int index = ethtool_count_names(interface, ETH_SS_FEATURES, &n);

	if (index == 0)
		index = ethtool_find_name(interface, ETH_SS_FEATURES, name, n);
	return index >= 0 && ethtool_feature_is_on(interface, (uint32_t)index, n);
}
