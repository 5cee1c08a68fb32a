// SPDX-License-Identifier: Apache-2.0
/*
 * The time at which an interface's card received a packet, from packet sockets, by the card's precision clock. Another
 * program may set that clock. The card is set up when the interface is opened, because a part of that takes
 * capabilities which the daemon drops.
 */
#ifndef DAEMON_BACKEND_PACKET_DEVICE_TIME_H
#define DAEMON_BACKEND_PACKET_DEVICE_TIME_H

#include "daemon/backend/backend.h"

#include <net/if.h>

struct device_time {
	char interface[IFNAMSIZ];
	int clock_fd;                /* -1: packets have the kernel's time */
	char why[BACKEND_WHY_BYTES]; /* then: why */
	bool was_off;                /* at the last look, and the log has it: the card stamps fewer packets */
};

/** If the card stamps all packets (options->stamp_packets: it is made to), open its clock. The log says what failed. */
void device_time_open(struct device_time *time, const struct backend_open_options *options);
/** Any state after open. */
void device_time_close(struct device_time *time);

static inline bool device_time_is_open(const struct device_time *time)
{
	return time->clock_fd >= 0;
}

/** The backend's timestamps: of the card, or else the kernel's. */
void device_time_describe(const struct device_time *time, struct backend_capabilities *capabilities);
/** As read_clock of the backend. */
int device_time_read_clock(const struct device_time *time, struct backend_clock_reading *reading);
/** Log once that another program has made the card stamp fewer packets. The device's thread. */
void device_time_follow(struct device_time *time);

#endif
