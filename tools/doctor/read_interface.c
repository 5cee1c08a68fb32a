// SPDX-License-Identifier: Apache-2.0
/* Network interfaces: what sysfs and /proc say, and what their drivers answer to ethtool requests. */
#include "tools/doctor/read.h"

#include "lib/base/time.h"
#include "daemon/net/ethtool.h"
#include "daemon/net/net.h"
#include "lib/base/files.h"
#include "tools/groups/joined_groups.h"

#include <string.h>
#include <unistd.h>

/* ---- files ----------------------------------------------------------------------------------------- */

static int read_ipv4_setting(const char *root, const char *interface, const char *name)
{
	char path[PATH_MAX];

	files_join(path, "%s/proc/sys/net/ipv4/conf/%s", root, interface);
	return (int)files_read_number(path, name);
}

static void read_netdev(const char *root, bool sysfs_is_foreign, struct doctor_interface *interface)
{
	int all = read_ipv4_setting(root, "all", "rp_filter"),
	    own = read_ipv4_setting(root, interface->name, "rp_filter");

	/* The kernel uses the larger one: Documentation/networking/ip-sysctl.rst. */
	interface->rp_filter = all > own ? all : own;
	interface->is_virtual_function =
		!sysfs_is_foreign && files_exist("%s/sys/class/net/%s/device/physfn", root, interface->name);
}

static void add_netdev(const char *root, struct doctor_facts *facts, const char *name)
{
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		if (strcmp(facts->interfaces[i].name, name) == 0)
			return;
	if (!*name || facts->n_interfaces == DOCTOR_INTERFACES_MAX)
		return;
	files_copy_name(facts->interfaces[facts->n_interfaces].name, IFNAMSIZ, name);
	read_netdev(root, facts->sysfs_is_foreign, &facts->interfaces[facts->n_interfaces++]);
}

/* ---- groups ---------------------------------------------------------------------------------------- */

static void note_igmp_version(const struct joined_group *joined, void *context)
{
	struct doctor_facts *facts = context;

	for (unsigned int i = 0; joined->igmp_version && i < facts->n_interfaces; i++)
		if (strcmp(facts->interfaces[i].name, joined->interface) == 0)
			facts->interfaces[i].igmp_version = joined->igmp_version;
}

void read_interfaces(const char *root, struct doctor_facts *facts)
{
	struct doctor_service service;

	for (unsigned int i = 0; i < facts->n_devices; i++)
		for (unsigned int j = 0; j < facts->devices[i].n_ports; j++)
			add_netdev(root, facts, facts->devices[i].ports[j].netdev);
	for (uint32_t i = 0; facts_service(facts, i, &service); i++)
		add_netdev(root, facts, service.interface);
	/* The groups of the daemon's network namespace, which may differ from that of this process. */
	(void)joined_groups_for_each(root, facts->process.kind == DOCTOR_DAEMON ? facts->process.pid : 0,
	                             note_igmp_version, facts);
}

/* ---- drivers --------------------------------------------------------------------------------------- */

static void ask_ptp(struct doctor_interface *interface)
{
	static const char directory[] = "/dev/";
	char path[NET_CLOCK_PATH_BYTES];
	struct net_clock_reading reading;
	uint64_t before_ns = time_utc_ns();
	int fd = net_precision_clock_open(interface->name, path);

	files_copy_name(interface->ptp, sizeof(interface->ptp), *path ? path + sizeof(directory) - 1 : "");
	if (fd < 0)
		return;
	interface->ptp_is_read = net_precision_clock_read(fd, &reading) == 0;
	if (!reading.utc_after_ns) {
		reading.utc_before_ns = before_ns;
		reading.utc_after_ns = time_utc_ns();
	}
	interface->ptp_offset_ns = (int64_t)(reading.ns - (reading.utc_before_ns + reading.utc_after_ns) / 2);
	close(fd);
}

void ask_interface(struct doctor_interface *interface)
{
	struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};
	struct net_interface link = {0};

	ask_ptp(interface);
	interface->stamping = net_stamping_read(interface->name);
	interface->exists = net_interface_read(interface->name, &link, NULL) == 0;
	interface->up = link.up;
	interface->running = link.up && link.running;
	interface->mtu = link.mtu;
	interface->has_pause = ethtool_ask(interface->name, &pause) == 0;
	interface->rx_pause = pause.rx_pause;
	interface->tx_pause = pause.tx_pause;
	interface->loopback = net_has_feature(interface->name, "loopback");
	backend_choice_read(interface->name, &interface->choice);
}
