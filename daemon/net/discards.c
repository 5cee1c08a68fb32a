// SPDX-License-Identifier: Apache-2.0
/* Drops of the port before steering: mlx5 shows them as the ethtool statistic rx_discards_phy. */
#include "daemon/net/net.h"

#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATISTIC      "rx_discards_phy"
#define STATISTICS_MAX 8192 /* mlx5 has some 1000, growing with its queues */

static int ethtool(int fd, const char *interface, void *command)
{
	struct ifreq request = { .ifr_data = command };

	strncpy(request.ifr_name, interface, sizeof(request.ifr_name) - 1);
	return ioctl(fd, SIOCETHTOOL, &request) < 0 ? -errno : 0;
}

static int count_statistics(int fd, const char *interface, uint32_t *n)
{
	struct {
		struct ethtool_sset_info info;
		uint32_t length;
	} command = { .info = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = UINT64_C(1) << ETH_SS_STATS } };
	int r = ethtool(fd, interface, &command);

	if (r < 0)
		return r;
	*n = command.info.sset_mask ? command.length : 0;
	return *n == 0 || *n > STATISTICS_MAX ? -ENOTSUP : 0;
}

/* Its place among n, or -ENOTSUP. */
static int find_statistic(int fd, const char *interface, uint32_t n)
{
	struct ethtool_gstrings *strings = calloc(1, sizeof(*strings) + (size_t)n * ETH_GSTRING_LEN);
	int found = -ENOTSUP;
	int r;

	if (!strings)
		return -ENOMEM;
	strings->cmd = ETHTOOL_GSTRINGS;
	strings->string_set = ETH_SS_STATS;
	strings->len = n;
	r = ethtool(fd, interface, strings);
	for (uint32_t i = 0; r == 0 && i < n && found < 0; i++)
		if (strncmp((const char *)strings->data + (size_t)i * ETH_GSTRING_LEN, STATISTIC, ETH_GSTRING_LEN) == 0)
			found = (int)i;
	free(strings);
	return r < 0 ? r : found;
}

static int read_statistic(int fd, const char *interface, uint32_t n, uint32_t place, uint64_t *value)
{
	struct ethtool_stats *statistics = calloc(1, sizeof(*statistics) + (size_t)n * sizeof(uint64_t));
	int r;

	if (!statistics)
		return -ENOMEM;
	statistics->cmd = ETHTOOL_GSTATS;
	statistics->n_stats = n;
	r = ethtool(fd, interface, statistics);
	if (r == 0)
		*value = statistics->data[place];
	free(statistics);
	return r;
}

int net_port_discards(const char *interface, uint64_t *discards)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint32_t n = 0;
	int r;

	if (fd < 0)
		return -errno;
	r = count_statistics(fd, interface, &n);
	if (r == 0)
		r = find_statistic(fd, interface, n);
	if (r >= 0)
		r = read_statistic(fd, interface, n, (uint32_t)r, discards);
	close(fd);
	return r == -EOPNOTSUPP ? -ENOTSUP : r;
}
