// SPDX-License-Identifier: Apache-2.0
/* Network interfaces: what sysfs and /proc say, and what their drivers answer to ethtool requests. */
#include "tools/doctor/read.h"

#include "tools/doctor/files.h"
#include "tools/groups/joined_groups.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- files ----------------------------------------------------------------------------------------- */

static int read_ipv4_setting(const char *root, const char *interface, const char *name)
{
	char path[PATH_MAX];

	files_join(path, "%s/proc/sys/net/ipv4/conf/%s", root, interface);
	return (int)files_read_number(path, name);
}

static void copy_entry_name(const char *directory, const char *name, void *context)
{
	(void)directory;
	files_copy_name(context, DOCTOR_NAME_BYTES, name);
}

static void read_lower(const char *directory, const char *name, void *context)
{
	static const char prefix[] = "lower_";
	struct doctor_interface *interface = context;
	size_t used = strlen(interface->lower);
	char path[PATH_MAX], driver[DOCTOR_NAME_BYTES];

	if (strncmp(name, prefix, sizeof(prefix) - 1) != 0)
		return;
	snprintf(interface->lower + used, sizeof(interface->lower) - used, "%s%s", used ? ", " : "",
	         name + sizeof(prefix) - 1);
	files_join(path, "%s/../%s/device/driver", directory, name + sizeof(prefix) - 1);
	files_read_link_name(path, driver, sizeof(driver));
	if (files_exist("%s/../%s/device/infiniband", directory, name + sizeof(prefix) - 1))
		interface->n_lower_devices++;
	else
		interface->n_lower_foreign += strcmp(driver, "mlx5_core") != 0;
}

static void read_netdev(const char *root, bool sysfs_is_foreign, struct doctor_interface *interface)
{
	int all = read_ipv4_setting(root, "all", "rp_filter"),
	    own = read_ipv4_setting(root, interface->name, "rp_filter");
	char path[PATH_MAX], uevent[PATH_MAX];

	/* The kernel uses the larger one: Documentation/networking/ip-sysctl.rst. */
	interface->rp_filter = all > own ? all : own;
	if (sysfs_is_foreign)
		return;
	files_join(path, "%s/sys/class/net/%s", root, interface->name);
	interface->is_virtual_function = files_exist("%s/device/physfn", path);
	files_for_each(path, read_lower, interface);
	files_join(uevent, "%s/uevent", path);
	files_read_labelled(uevent, "DEVTYPE=", interface->kind, sizeof(interface->kind));
	interface->kind[strcspn(interface->kind, "\n")] = '\0';
	files_join(path, "%s/sys/class/net/%s/device/ptp", root, interface->name);
	files_for_each(path, copy_entry_name, interface->ptp);
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

static void add_joined_group(const struct joined_group *joined, void *context)
{
	struct doctor_facts *facts = context;
	struct doctor_group *group = &facts->groups[facts->n_groups];

	for (unsigned int i = 0; joined->igmp_version && i < facts->n_interfaces; i++)
		if (strcmp(facts->interfaces[i].name, joined->interface) == 0)
			facts->interfaces[i].igmp_version = joined->igmp_version;
	if (facts->n_groups == DOCTOR_GROUPS_MAX)
		return;
	facts->n_groups++;
	files_copy_name(group->interface, sizeof(group->interface), joined->interface);
	group->group.family = joined->family;
	memcpy(group->group.address, joined->address, sizeof(joined->address));
}

/* The groups of the daemon's network namespace, which may differ from that of this process. */
static void read_joined_groups(const char *root, struct doctor_facts *facts)
{
	pid_t pid = facts->process.kind == DOCTOR_DAEMON ? facts->process.pid : 0;

	(void)joined_groups_for_each(root, pid, add_joined_group, facts);
}

void read_interfaces(const char *root, struct doctor_facts *facts)
{
	for (unsigned int i = 0; i < facts->n_devices; i++)
		for (unsigned int j = 0; j < facts->devices[i].n_ports; j++)
			add_netdev(root, facts, facts->devices[i].ports[j].netdev);
	for (unsigned int i = 0; facts->config && i < facts->config->n_streams; i++)
		add_netdev(root, facts, facts->config->streams[i].interface);
	for (unsigned int i = 0; facts->config && i < facts->config->n_channels; i++)
		add_netdev(root, facts, facts->config->channels[i].interface);
	read_joined_groups(root, facts);
}

/* ---- the kernel ------------------------------------------------------------------------------------- */

/* Not from sysfs, which may be of another network namespace. */
static void ask_link(int fd, struct doctor_interface *interface)
{
	struct ifreq request = {0};

	files_copy_name(request.ifr_name, sizeof(request.ifr_name), interface->name);
	interface->exists = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
	if (!interface->exists)
		return;
	interface->up = request.ifr_flags & IFF_UP;
	interface->running = interface->up && request.ifr_flags & IFF_RUNNING;
	if (ioctl(fd, SIOCGIFMTU, &request) == 0)
		interface->mtu = (unsigned int)request.ifr_mtu;
}

void ask_addresses(struct doctor_facts *facts)
{
	struct ifaddrs *all = NULL;

	if (getifaddrs(&all) < 0)
		return;
	for (const struct ifaddrs *at = all; at && facts->n_addresses < DOCTOR_ADDRESSES_MAX; at = at->ifa_next) {
		struct doctor_address *address = &facts->addresses[facts->n_addresses];

		if (!at->ifa_addr || (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
			continue;
		facts->n_addresses++;
		files_copy_name(address->interface, sizeof(address->interface), at->ifa_name);
		address->address.family = at->ifa_addr->sa_family;
		if (at->ifa_addr->sa_family == AF_INET)
			memcpy(address->address.address, &((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr, 4);
		else
			memcpy(address->address.address, &((struct sockaddr_in6 *)(void *)at->ifa_addr)->sin6_addr, 16);
	}
	freeifaddrs(all);
}

/* ---- drivers --------------------------------------------------------------------------------------- */

static bool ask_driver(int fd, const char *interface, void *command)
{
	struct ifreq request = {.ifr_data = command};

	files_copy_name(request.ifr_name, sizeof(request.ifr_name), interface);
	return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

/* The number of features that the kernel knows. */
static uint32_t count_netdev_features(int fd, const char *interface)
{
	struct ethtool_sset_info *set = calloc(1, sizeof(*set) + sizeof(uint32_t));
	uint32_t n = 0;

	if (!set)
		return 0;
	set->cmd = ETHTOOL_GSSET_INFO;
	set->sset_mask = 1ull << ETH_SS_FEATURES;
	if (ask_driver(fd, interface, set) && set->sset_mask)
		n = set->data[0];
	free(set);
	return n;
}

/* The index of the feature "loopback"; -1 if there is none. */
static int find_loopback_feature(int fd, const char *interface, uint32_t n)
{
	struct ethtool_gstrings *names = calloc(1, sizeof(*names) + (size_t)n * ETH_GSTRING_LEN);
	int found = -1;

	if (!names)
		return -1;
	*names = (struct ethtool_gstrings){.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_FEATURES, .len = n};
	if (ask_driver(fd, interface, names))
		for (uint32_t i = 0; i < n && found < 0; i++)
			if (strncmp((char *)names->data + i * ETH_GSTRING_LEN, "loopback", ETH_GSTRING_LEN) == 0)
				found = (int)i;
	free(names);
	return found;
}

static bool is_port_looped(int fd, const char *interface)
{
	uint32_t n = count_netdev_features(fd, interface), n_blocks = (n + 31) / 32;
	int at = n ? find_loopback_feature(fd, interface, n) : -1;
	struct ethtool_gfeatures *features;
	bool is_on;

	if (at < 0)
		return false;
	features = calloc(1, sizeof(*features) + n_blocks * sizeof(features->features[0]));
	if (!features)
		return false;
	features->cmd = ETHTOOL_GFEATURES;
	features->size = n_blocks;
	is_on = ask_driver(fd, interface, features) && features->features[at / 32].active >> (at % 32) & 1;
	free(features);
	return is_on;
}

static int64_t timespec_to_ns(const struct timespec *time)
{
	return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Instead of what sysfs says, which does not know the clock of a bond, nor one that several mlx5 devices share. */
static void ask_ptp_name(int fd, struct doctor_interface *interface)
{
	struct ethtool_ts_info info = {.cmd = ETHTOOL_GET_TS_INFO, .phc_index = -1};

	if (ask_driver(fd, interface->name, &info) && info.phc_index >= 0)
		snprintf(interface->ptp, sizeof(interface->ptp), "ptp%d", info.phc_index);
}

static void ask_ptp(struct doctor_interface *interface)
{
	struct timespec before, device, after;
	char path[PATH_MAX];
	int fd;

	files_join(path, "/dev/%s", interface->ptp);
	fd = *interface->ptp ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	/* The descriptor of a clock as a clock id: clock_getres(2), "dynamic clocks". */
	if (clock_gettime(CLOCK_REALTIME, &before) == 0 && clock_gettime((clockid_t)(~fd << 3 | 3), &device) == 0 &&
	    clock_gettime(CLOCK_REALTIME, &after) == 0) {
		interface->ptp_is_read = true;
		interface->ptp_offset_ns =
			timespec_to_ns(&device) - (timespec_to_ns(&before) + timespec_to_ns(&after)) / 2;
	}
	close(fd);
}

void ask_interface(struct doctor_interface *interface)
{
	struct ethtool_ringparam ring = {.cmd = ETHTOOL_GRINGPARAM};
	struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		ask_ptp_name(fd, interface);
	ask_ptp(interface);
	interface->stamping = net_stamping_read(interface->name);
	if (fd < 0)
		return;
	ask_link(fd, interface);
	if (ask_driver(fd, interface->name, &ring)) {
		interface->rx_ring = ring.rx_pending;
		interface->rx_ring_max = ring.rx_max_pending;
	}
	if (ask_driver(fd, interface->name, &pause)) {
		interface->has_pause = true;
		interface->rx_pause = pause.rx_pause;
		interface->tx_pause = pause.tx_pause;
	}
	interface->loopback = is_port_looped(fd, interface->name);
	backend_choice_read(interface->name, &interface->choice);
	close(fd);
}
