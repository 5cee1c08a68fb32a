// SPDX-License-Identifier: Apache-2.0
/* Opens the device of an interface, and follows its clock. */
#include "daemon/port/interface.h"

#include "daemon/base/log.h"
#include "daemon/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CLOCK_TRIES 8

int interface_init(struct interface *interface, const char *name, const char *backend, struct failure *failure)
{
	*interface = (struct interface){.ops = backend_find(backend)};
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	if (!interface->ops)
		return failure_set(failure, EX_CONFIG, ENOTSUP, "interface %s: backend '%s' is not in this build", name,
		                   backend);
	return net_interface_read(name, &interface->net, failure);
}

/* ---- clock --------------------------------------------------------------------------------------- */

/*
 * A reading of the device's clock lies between two readings of the system clock. Of a few such brackets the narrowest
 * is the best: in the others the thread was interrupted.
 */
static int interface_read_clock_pair(struct interface *interface, struct clock_pair *best)
{
	*best = (struct clock_pair){.after_ns = UINT64_MAX};
	for (int i = 0; i < CLOCK_TRIES; i++) {
		struct clock_pair pair = {.before_ns = time_utc_ns()};
		int r = interface->ops->read_clock(interface->backend, &pair.raw);

		if (r < 0)
			return r;
		pair.after_ns = time_utc_ns();
		if (pair.after_ns >= pair.before_ns &&
		    pair.after_ns - pair.before_ns < best->after_ns - best->before_ns)
			*best = pair;
	}
	return best->after_ns == UINT64_MAX ? -EAGAIN : 0;
}

bool interface_renew_clock(struct interface *interface)
{
	struct clock_pair pair;

	if (!interface->capabilities.timestamps || !interface->capabilities.clock_hz)
		return false;
	if (interface_read_clock_pair(interface, &pair) < 0)
		return false;
	clock_fit_add(&interface->fit, &pair, &interface->line);
	interface->has_clock = true;
	return true;
}

/* ---- life ---------------------------------------------------------------------------------------- */

int interface_open(struct interface *interface, struct failure *failure)
{
	int r = interface->ops->open(interface->name, &interface->backend, failure);

	if (r < 0)
		return r;
	interface->ops->capabilities(interface->backend, &interface->capabilities);
	clock_fit_init(&interface->fit, interface->capabilities.clock_hz, interface->capabilities.clock_mask);
	interface->fit.can_step = interface->capabilities.clock_can_step;
	/* A line needs two readings, and the first packets need a line. */
	if (interface_renew_clock(interface))
		interface_renew_clock(interface);
	r = interface_init_readings(interface);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "interface %s: out of memory", interface->name);
	if (!interface->link_up)
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_LINK_DOWN, .interface = interface->name},
		            "interface %s: link is down, its streams and channels wait for it; bring it up with: "
		            "ip link set dev %s up",
		            interface->name, interface->name);
	return 0;
}

void interface_close(struct interface *interface)
{
	interface_deinit_readings(interface);
	if (interface->backend && !interface->is_abandoned)
		interface->ops->close(interface->backend);
	interface->backend = NULL;
}
