// SPDX-License-Identifier: Apache-2.0
/* Finds and reads the precision clock of an interface's card (/dev/ptp*). */
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"
#include "lib/base/files.h"
#include "lib/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/ptp_clock.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

static int precision_clock_find_in_sysfs(const char *interface)
{
	struct files_list clocks;
	int index = -1;

	if (!net_is_in_sysfs(interface))
		return -1;
	files_list(&clocks, "/sys/class/net/%s/device/ptp", interface);
	while (files_next(&clocks))
		sscanf(clocks.name, "ptp%d", &index);
	return index;
}

int net_precision_clock_open(const char *interface, char path[NET_CLOCK_PATH_BYTES])
{
	struct ethtool_ts_info info = {.cmd = ETHTOOL_GET_TS_INFO, .phc_index = -1};
	int index = ethtool_ask(interface, &info) == 0 ? info.phc_index : -1, fd;

	path[0] = '\0';
	if (index < 0)
		index = precision_clock_find_in_sysfs(interface);
	if (index < 0)
		return -ENOENT;
	snprintf(path, NET_CLOCK_PATH_BYTES, "/dev/ptp%d", index);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static uint64_t precision_clock_ns(const struct ptp_clock_time *time)
{
	return (uint64_t)time->sec * TIME_SECOND_NS + time->nsec;
}

/*
 * The driver reads the system's clock closer to its own than this process can. A reading of both at once
 * (PTP_SYS_OFFSET_PRECISE), which some cards have, would be closer still, but does not say how exact it is.
 */
int net_precision_clock_read(int fd, struct net_clock_reading *reading)
{
	struct ptp_sys_offset_extended sample = {.n_samples = 1};
	struct timespec now;

	*reading = (struct net_clock_reading){0};
	if (ioctl(fd, PTP_SYS_OFFSET_EXTENDED, &sample) == 0) {
		reading->utc_before_ns = precision_clock_ns(&sample.ts[0][0]);
		reading->ns = precision_clock_ns(&sample.ts[0][1]);
		reading->utc_after_ns = precision_clock_ns(&sample.ts[0][2]);
		return 0;
	}
	if (errno == ENODEV)
		return -ENODEV;
	/* The descriptor of a clock as a clock id: clock_getres(2), "dynamic clocks". */
	if (clock_gettime((clockid_t)(~(unsigned)fd << 3 | 3), &now) < 0)
		return -errno;
	reading->ns = (uint64_t)now.tv_sec * TIME_SECOND_NS + (uint64_t)now.tv_nsec;
	return 0;
}
