// SPDX-License-Identifier: Apache-2.0
/* Lets the card stamp packets, and opens its clock; says which step failed. */
#include "daemon/backend/packet/af_packet.h"

#include "daemon/base/log.h"
#include "daemon/net/net.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COMMAND "hwstamp_ctl -i %s -r 1"

static void device_time_log(const struct device_time *time)
{
	log_message(LOG_INFO, &(struct log_about){.interface = time->interface},
	            "interface %s: packets have the kernel's time of arrival, because %s", time->interface, time->why);
}

static void device_time_open_clock(struct device_time *time)
{
	char path[NET_CLOCK_PATH_BYTES];
	struct net_clock_reading reading;
	int r;

	time->clock_fd = net_precision_clock_open(time->interface, path);
	r = time->clock_fd < 0 ? time->clock_fd : net_precision_clock_read(time->clock_fd, &reading);
	if (r == 0)
		return;
	device_time_close(time);
	snprintf(time->why, sizeof(time->why), "the clock of its card %s cannot be read (%s)%s",
	         path[0] ? path : "in /dev/ptp*", strerror(-r),
	         r == -EACCES
	                 ? ": a udev rule SUBSYSTEM==\"ptp\", GROUP=\"ibvcap\", MODE=\"0640\" lets the daemon read it"
	                 : "");
	device_time_log(time);
}

static void device_time_explain_off(struct device_time *time, int switched_on)
{
	if (switched_on < 0)
		snprintf(time->why, sizeof(time->why),
		         "its card cannot be made to stamp all packets (%s): run '" COMMAND "' as root, and restart "
		         "the daemon",
		         strerror(-switched_on), time->interface);
	else
		snprintf(time->why, sizeof(time->why),
		         "its card can stamp all packets and does not: set timestamps = \"hardware\", or run "
		         "'" COMMAND "', and restart the daemon",
		         time->interface);
	device_time_log(time);
}

void device_time_open(struct device_time *time, const struct backend_open_options *options)
{
	enum net_stamping stamping = net_stamping_read(options->interface);
	int switched_on = 0;

	*time = (struct device_time){.clock_fd = -1, .why = NET_STAMPING_NONE_WHY};
	snprintf(time->interface, sizeof(time->interface), "%s", options->interface);
	if (stamping == NET_STAMPING_OFF && options->stamp_packets) {
		switched_on = net_stamping_switch_on(time->interface);
		if (switched_on == 0)
			stamping = NET_STAMPING_ALL;
	}
	if (stamping == NET_STAMPING_ALL)
		device_time_open_clock(time);
	else if (stamping == NET_STAMPING_OFF)
		device_time_explain_off(time, switched_on);
}

void device_time_close(struct device_time *time)
{
	if (time->clock_fd >= 0)
		close(time->clock_fd);
	time->clock_fd = -1;
}

void device_time_describe(const struct device_time *time, struct backend_capabilities *capabilities)
{
	capabilities->timestamps = true;
	if (!device_time_is_open(time)) {
		capabilities->clock_is_utc = true;
		snprintf(capabilities->no_device_time, sizeof(capabilities->no_device_time), "%s", time->why);
		return;
	}
	capabilities->clock_hz = TIME_SECOND_NS;
	capabilities->clock_mask = UINT64_MAX;
	capabilities->clock_can_step = true;
	capabilities->kernel_times = true;
}

int device_time_read_clock(const struct device_time *time, struct backend_clock_reading *reading)
{
	struct net_clock_reading now;
	int r;

	if (!device_time_is_open(time)) {
		*reading = (struct backend_clock_reading){.raw = time_utc_ns()};
		return 0;
	}
	r = net_precision_clock_read(time->clock_fd, &now);
	*reading = (struct backend_clock_reading){now.ns, now.utc_before_ns, now.utc_after_ns};
	return r;
}

void device_time_follow(struct device_time *time)
{
	bool is_off = device_time_is_open(time) && net_stamping_read(time->interface) == NET_STAMPING_OFF;

	if (is_off && !time->was_off)
		log_message(LOG_WARNING, &(struct log_about){.interface = time->interface},
		            "interface %s: another program has made its card stamp fewer packets, and the others have "
		            "the kernel's time of arrival: run '" COMMAND "', or let ptp4l run with hwts_filter = full",
		            time->interface, time->interface);
	time->was_off = is_off;
}
