// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the drops of an interface and of all below it: the kernel's statistics of links (IFLA_STATS64), the drivers'
 * own (driver_losses.c), the drops of the CPUs' backlogs (softnet_stat), and what the other end of a veth could not
 * deliver.
 */
#include "daemon/net/link_losses.h"

#include "daemon/net/driver_losses.h"
#include "daemon/net/net.h"
#include "daemon/net/rtnl.h"
#include "daemon/net/stacking.h"
#include "daemon/net/takers.h"
#include "lib/base/min.h"
#include "lib/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX (1 + NET_LOWERS_MAX)
#define FIND_NS     TIME_SECOND_NS /* between two looks for interfaces below, which cost more than a reading */

struct link_device {
	char name[IFNAMSIZ];
	unsigned index;
	struct takers takers;
	const struct driver_losses *driver;
	bool is_veth;
	bool is_other_away; /* the other end of a veth is in another network namespace, and cannot be read */
	bool is_complete;
	bool is_new; /* was not read yet */
	uint32_t xdp_program;
	struct link_refused refused;
	struct link_statistics last;
};

/* The drops of all backlogs of the machine, which the kernel does not count for an interface. */
struct link_backlog {
	uint64_t seen;   /* at the last reading */
	uint64_t fresh;  /* of the last reading: not found at an interface yet */
	uint64_t recent; /* of the reading before */
};

struct link_losses {
	char interface[IFNAMSIZ];
	struct mnl_socket *socket;
	struct link_refused_source refused;
	FILE *softnet; /* softnet_stat, open: to open it takes longer than to read it */
	struct link_device devices[DEVICES_MAX];
	unsigned n_devices;
	uint64_t found_ns; /* when the devices were looked for */
	struct link_backlog backlog;
	uint64_t packets[LINK_LOSS_N];
};

/* ---- backlogs -------------------------------------------------------------------------------------- */

/* The backlogs' drops, in the order: read an interface, then the backlogs. */
static void link_backlog_read(struct link_backlog *backlog, uint64_t dropped)
{
	backlog->recent = backlog->fresh;
	backlog->fresh = dropped - backlog->seen;
	backlog->seen = dropped;
}

static uint64_t backlog_take_from(uint64_t *store, uint64_t wanted)
{
	uint64_t taken = u64_min(*store, wanted);

	*store -= taken;
	return taken;
}

/* How many of the packets that an interface has dropped since the last reading were dropped by a backlog. */
static uint64_t link_backlog_take(struct link_backlog *backlog, uint64_t dropped)
{
	uint64_t taken = backlog_take_from(&backlog->recent, dropped);

	return taken + backlog_take_from(&backlog->fresh, dropped - taken);
}

/* The second column of each CPU's line. The file is the same in all network namespaces. NULL: 0. */
static uint64_t read_softnet_dropped(FILE *softnet)
{
	uint64_t sum = 0, dropped;

	if (softnet)
		rewind(softnet);
	while (softnet && fscanf(softnet, "%*x %" SCNx64 "%*[^\n]", &dropped) == 1)
		sum += dropped;
	return sum;
}

/* ---- packets that queues refused --------------------------------------------------------------------- */

void link_refused_begin(struct link_refused *refused, uint64_t counted, uint64_t n)
{
	*refused = (struct link_refused){.at_begin = n, .counted = counted, .is_exact = true};
}

/*
 * Of those between `before` and `after` it is not known how many the interface had counted. If all, it dropped fewer of
 * its own: so the result is never too large, and it is exact if there are none.
 */
uint64_t link_refused_subtract(struct link_refused *refused, uint64_t counted, uint64_t before, uint64_t after,
                               uint64_t last)
{
	uint64_t least = counted - (after - refused->at_begin);

	refused->counted = counted;
	refused->is_exact = before == after;
	return (int64_t)(least - last) > 0 ? least : last;
}

/* ---- one interface --------------------------------------------------------------------------------- */

static void device_open(struct link_device *device, const char *name)
{
	struct net_driver driver;

	*device = (struct link_device){.index = if_nametoindex(name), .is_new = true};
	snprintf(device->name, sizeof(device->name), "%s", name);
	takers_open(&device->takers, device->index);
	net_driver_read(name, &driver);
	device->driver = driver_losses_find(driver.name);
	device->is_veth = device->driver && device->driver->by_both_ends;
	/* lo has no driver, and no card that could drop packets. */
	if (device->driver)
		device->is_complete = device->driver->is_complete && !driver.is_part;
	else
		device->is_complete = strcmp(name, "lo") == 0;
}

/*
 * A veth whose NAPI has no room lets the sender's end count the packet (drivers/net/veth.c, veth_xmit()). While that
 * end cannot be read, its count stays as it was.
 */
static int device_read_peer(const struct link_device *device, const struct rtnl_link *link, struct mnl_socket *socket,
                            uint64_t *dropped)
{
	struct rtnl_link other;
	int r = rtnl_get_other_link(socket, link, &other);

	*dropped = r == 0 ? other.statistics.tx_dropped : device->last.peer;
	return r;
}

static int device_read(struct link_device *device, struct mnl_socket *socket, struct link_statistics *now)
{
	uint64_t of_driver = 0, of_card;
	struct rtnl_link link;
	int r;

	if (device->driver) /* first, for then many drivers bring the link's statistics up to date, too */
		driver_losses_read(device->name, device->driver, &of_driver);
	r = rtnl_get_link(socket, device->index, &link);
	if (r < 0)
		return r;
	of_card = link.statistics.rx_missed_errors + link.statistics.rx_over_errors + of_driver;
	if (!device->driver || !device->driver->has_twice)
		of_card += link.statistics.rx_fifo_errors;
	*now = (struct link_statistics){
		.dropped = link.statistics.rx_dropped,
		.card = of_card,
		.damaged = link.statistics.rx_crc_errors + link.statistics.rx_frame_errors +
	                   link.statistics.rx_length_errors,
		.is_down = !link.up,
		.carrier_changes = link.carrier_changes,
	};
	if (device->is_veth)
		device->is_complete = device_read_peer(device, &link, socket, &now->peer) == 0;
	device->is_other_away = device->is_veth && link.is_other_away && !device->is_complete;
	device->xdp_program = link.xdp_program;
	return 0;
}

static uint64_t read_refused(const struct link_losses *losses, bool wait)
{
	return losses->refused.read(losses->refused.context, wait);
}

/* The interface itself: the queues are on no other one. */
static int losses_read_own(const struct link_losses *losses, struct link_device *device, struct link_statistics *now)
{
	uint64_t before = device->is_new ? read_refused(losses, true) : 0;
	int r = device_read(device, losses->socket, now);

	if (r < 0)
		return r;
	if (device->is_new) {
		link_refused_begin(&device->refused, now->dropped, before);
		return 0;
	}
	if (link_refused_is_known(&device->refused, now->dropped)) {
		now->dropped = device->last.dropped;
		return 0;
	}
	before = read_refused(losses, true);
	r = device_read(device, losses->socket, now);
	if (r < 0)
		return r;
	now->dropped = link_refused_subtract(&device->refused, now->dropped, before, read_refused(losses, false),
	                                     device->last.dropped);
	return 0;
}

static int losses_read_device(const struct link_losses *losses, struct link_device *device, struct link_statistics *now)
{
	if (device == losses->devices && device->driver && device->driver->has_refused && losses->refused.read)
		return losses_read_own(losses, device, now);
	device->refused.is_exact = true;
	return device_read(device, losses->socket, now);
}

/* ---- sums ------------------------------------------------------------------------------------------ */

/* A driver that is started again may begin at 0. */
static uint64_t grown(uint64_t now, uint64_t last)
{
	return now > last ? now - last : 0;
}

static void losses_add(struct link_losses *losses, struct link_device *device, const struct link_statistics *now)
{
	const struct link_statistics *last = &device->last;
	uint64_t dropped = grown(now->dropped, last->dropped), peer = grown(now->peer, last->peer), backlog;
	bool was_down = link_was_down(last, now);

	if (!device->is_new) {
		backlog = link_backlog_take(&losses->backlog, dropped);
		losses->packets[LINK_LOSS_BACKLOG] += backlog;
		losses->packets[was_down ? LINK_LOSS_DOWN : LINK_LOSS_KERNEL] += dropped - backlog;
		losses->packets[LINK_LOSS_CARD] += grown(now->card, last->card);
		losses->packets[LINK_LOSS_DAMAGED] += grown(now->damaged, last->damaged);
		/* This end may have counted them, too. */
		losses->packets[was_down ? LINK_LOSS_DOWN : LINK_LOSS_PEER] += grown(peer, dropped);
	}
	device->last = *now;
	device->is_new = false;
}

/* ---- all interfaces -------------------------------------------------------------------------------- */

static struct link_device *find_device(struct link_losses *losses, const char *name)
{
	for (unsigned i = 0; i < losses->n_devices; i++)
		if (strcmp(losses->devices[i].name, name) == 0)
			return &losses->devices[i];
	return NULL;
}

static void losses_add_device(struct link_losses *losses, const char *name)
{
	struct link_device *device = find_device(losses, name);

	if (device && device->index == if_nametoindex(name))
		return;
	if (device)
		takers_close(&device->takers);
	else if (losses->n_devices < DEVICES_MAX)
		device = &losses->devices[losses->n_devices++];
	if (device)
		device_open(device, name);
}

/* Ports of a bond or a bridge may come; one that has gone is read no more. */
static void losses_find_devices(struct link_losses *losses)
{
	struct net_lowers lowers;

	losses->found_ns = time_monotonic_ns();
	losses_add_device(losses, losses->interface);
	net_lowers_read("/sys", losses->interface, &lowers);
	for (unsigned i = 0; i < u32_min(lowers.n, NET_LOWERS_MAX); i++)
		losses_add_device(losses, lowers.names[i]);
}

struct link_losses *link_losses_new(const char *interface, const struct link_refused_source *refused)
{
	struct link_losses *losses = calloc(1, sizeof(*losses));

	if (!losses)
		return NULL;
	snprintf(losses->interface, sizeof(losses->interface), "%s", interface);
	losses->refused = *refused;
	losses->softnet = fopen("/proc/net/softnet_stat", "re");
	losses->backlog.seen = read_softnet_dropped(losses->softnet);
	link_losses_read(losses);
	return losses;
}

void link_losses_free(struct link_losses *losses)
{
	if (!losses)
		return;
	for (unsigned i = 0; i < losses->n_devices; i++)
		takers_close(&losses->devices[i].takers);
	if (losses->socket)
		mnl_socket_close(losses->socket);
	if (losses->softnet)
		fclose(losses->softnet);
	free(losses);
}

int link_losses_read(struct link_losses *losses)
{
	struct link_statistics now[DEVICES_MAX];
	int results[DEVICES_MAX], r = losses->socket ? 0 : rtnl_open(&losses->socket, NETLINK_ROUTE);

	if (r < 0)
		return r;
	if (time_monotonic_ns() - losses->found_ns >= FIND_NS)
		losses_find_devices(losses);
	for (unsigned i = 0; i < losses->n_devices; i++) {
		takers_learn(&losses->devices[i].takers, losses->devices[i].index);
		results[i] = losses_read_device(losses, &losses->devices[i], &now[i]);
	}
	link_backlog_read(&losses->backlog, read_softnet_dropped(losses->softnet));
	for (unsigned i = 0; i < losses->n_devices; i++)
		if (results[i] == 0)
			losses_add(losses, &losses->devices[i], &now[i]);
	if (results[0] < 0)
		return results[0] == -ENODEV ? 0 : results[0]; /* none comes while the interface is gone */
	return losses->devices[0].refused.is_exact ? 0 : -EAGAIN;
}

uint64_t link_losses_of(const struct link_losses *losses, enum link_loss kind)
{
	return losses->packets[kind];
}

bool link_losses_are_complete(const struct link_losses *losses)
{
	return losses->devices[0].is_complete;
}

uint32_t link_losses_xdp_program(const struct link_losses *losses)
{
	return losses->devices[0].xdp_program;
}

bool link_losses_other_end_is_away(const struct link_losses *losses)
{
	return losses->devices[0].is_other_away;
}
