// SPDX-License-Identifier: Apache-2.0
/* Asks an interface's driver for its name, its card, its counters and the packets that it stamps (SIOCETHTOOL). */
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"
#include "lib/base/files.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif
#include <errno.h>
#include <fnmatch.h>
#include <linux/net_tstamp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Intel's and AMD's manuals, CPUID: bit 31 of ECX of leaf 1 is 0 on every CPU; hypervisors set it for their guests. */
static bool is_virtual_machine(void)
{
#if defined(__x86_64__) || defined(__i386__)
	unsigned eax, ebx, ecx, edx;

	return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx >> 31;
#else
	return true;
#endif
}

/* The directories of buses are the same in all network namespaces, unlike those of interfaces. */
bool net_is_whole_card(const char *sysfs, const char *bus_info)
{
	return files_exist("%s/bus/pci/devices/%s", sysfs, bus_info) &&
	       !files_exist("%s/bus/pci/devices/%s/physfn", sysfs, bus_info);
}

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
	driver->is_part = driver->has_device && (is_virtual_machine() || !net_is_whole_card("/sys", info.bus_info));
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

bool net_reports_sends(const char *interface)
{
	struct ethtool_ts_info info = {.cmd = ETHTOOL_GET_TS_INFO, .phc_index = -1};
	const uint32_t needed = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;

	return ethtool_ask(interface, &info) == 0 && (info.so_timestamping & needed) == needed;
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

/* The names of the set ETH_SS_…: names->len of them, at least one. To be freed. */
static int ethtool_read_names(const char *interface, uint32_t set, struct ethtool_gstrings **names)
{
	struct ethtool_gstrings *read;
	uint32_t n = 0;
	int r = ethtool_count_names(interface, set, &n);

	if (r < 0)
		return r;
	read = calloc(1, sizeof(*read) + (size_t)(n + STATISTICS_SPARE) * ETH_GSTRING_LEN);
	if (!read)
		return -ENOMEM;
	read->cmd = ETHTOOL_GSTRINGS;
	read->string_set = set;
	read->len = n;
	r = ethtool_ask(interface, read);
	if (r == 0 && read->len != n)
		r = -EAGAIN;
	if (r < 0)
		free(read);
	else
		*names = read;
	return r;
}

static char *ethtool_name(struct ethtool_gstrings *names, uint32_t index)
{
	return (char *)names->data + (size_t)index * ETH_GSTRING_LEN;
}

/* fnmatch() of names that begin otherwise takes most of the time: mlx5 has some 1000. */
static bool pattern_begins_as(const char *pattern, const char *name)
{
	while (*pattern && *pattern == *name) {
		pattern++;
		name++;
	}
	return *pattern == *name || strchr("*?[\\", *pattern);
}

static bool ethtool_name_matches(struct ethtool_gstrings *names, uint32_t index, const char *const patterns[])
{
	char name[ETH_GSTRING_LEN + 1] = ""; /* the longest names end without a 0 */

	memcpy(name, ethtool_name(names, index), ETH_GSTRING_LEN);
	for (; *patterns; patterns++)
		if (pattern_begins_as(*patterns, name) && fnmatch(*patterns, name, 0) == 0)
			return true;
	return false;
}

/* Empties all other names; returns how many are left. */
static uint32_t ethtool_keep_matches(struct ethtool_gstrings *names, const char *const patterns[])
{
	uint32_t n_kept = 0;

	for (uint32_t i = 0; i < names->len; i++)
		if (ethtool_name_matches(names, i, patterns))
			n_kept++;
		else
			*ethtool_name(names, i) = '\0';
	return n_kept;
}

/* Adds up the values of the names that are not empty. */
static int ethtool_add_values(const char *interface, struct ethtool_gstrings *names, uint64_t *sum)
{
	struct ethtool_stats *values =
		calloc(1, sizeof(*values) + (size_t)(names->len + STATISTICS_SPARE) * sizeof(uint64_t));
	int r;

	if (!values)
		return -ENOMEM;
	values->cmd = ETHTOOL_GSTATS;
	values->n_stats = names->len;
	r = ethtool_ask(interface, values);
	/* The driver changed its statistics since their names were read, so these may be of others. */
	if (r == 0 && values->n_stats != names->len)
		r = -EAGAIN;
	for (uint32_t i = 0; r == 0 && i < names->len; i++)
		*sum += *ethtool_name(names, i) ? values->data[i] : 0;
	free(values);
	return r;
}

int net_sum_statistics(const char *interface, const char *const patterns[], uint64_t *sum)
{
	struct ethtool_gstrings *names = NULL;
	uint64_t added = 0;
	int r = ethtool_read_names(interface, ETH_SS_STATS, &names);

	if (r < 0)
		return r;
	r = ethtool_keep_matches(names, patterns) ? ethtool_add_values(interface, names, &added) : -ENOTSUP;
	free(names);
	if (r == 0)
		*sum = added;
	return r;
}

int net_port_discards(const char *interface, uint64_t *discards)
{
	static const char *const patterns[] = {"rx_discards_phy", NULL};

	return net_sum_statistics(interface, patterns, discards);
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
	const char *const patterns[] = {name, NULL};
	struct ethtool_gstrings *names = NULL;
	bool is_on = false;

	if (ethtool_read_names(interface, ETH_SS_FEATURES, &names) < 0)
		return false;
	for (uint32_t i = 0; i < names->len && !is_on; i++)
		is_on = ethtool_name_matches(names, i, patterns) && ethtool_feature_is_on(interface, i, names->len);
	free(names);
	return is_on;
}
