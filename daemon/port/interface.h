// SPDX-License-Identifier: Apache-2.0
/*
 * A network interface: the kernel's view of it, the device behind it, and the fit of the device's clock. All streams
 * and channels on the interface share it. Control thread only.
 */
#ifndef DAEMON_PORT_INTERFACE_H
#define DAEMON_PORT_INTERFACE_H

#include "daemon/backend/backend.h"
#include "daemon/clock/clock.h"
#include "daemon/control/control.h"
#include "daemon/net/net.h"
#include "lib/ibvcap/counters.h"

#include <net/if.h>

struct interface {
	TAILQ_ENTRY(interface) link; /* the daemon's */
	char name[IFNAMSIZ];
	const struct backend_ops *ops;
	struct backend *backend; /* NULL: not open */
	struct backend_capabilities capabilities;
	struct net_interface net;
	bool link_up;
	bool has_clock; /* line is valid */
	struct clock_fit fit;
	struct clock_line line;
	struct control_interface port; /* as control sees it */
	bool in_control;
	sd_event_source *notices;
	struct interface_tx *tx; /* NULL: it has no channel */
	uint32_t n_users;        /* streams, channels */
};

/** Look the interface up; does not open the device. -ENODEV: the failure lists the interfaces that exist. */
int interface_init(struct interface *interface, const char *name, const char *backend, struct failure *failure);

/** Open the device behind it, and read its clock for the first time if it has one. */
int interface_open(struct interface *interface, struct failure *failure);
/** Any state. */
void interface_close(struct interface *interface);

/** Look at the link again, and log a change. */
void interface_watch_link(struct interface *interface);

/** Read the clock again and renew line. False: the device has no clock, or it cannot be read. */
bool interface_renew_clock(struct interface *interface);

/** For control_interface.read; context is the interface. */
int interface_read_counters(void *context, uint64_t counters[INTERFACE_COUNTER_N]);

#endif
