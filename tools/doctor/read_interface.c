// SPDX-License-Identifier: Apache-2.0
/* Network interfaces: what sysfs and /proc say, and what their drivers answer to ethtool requests. */
#include "tools/doctor/read.h"

#include "tools/doctor/files.h"

#include <arpa/inet.h>
#include <fcntl.h>
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

static void read_netdev(const char *root, struct doctor_interface *interface)
{
	int all = read_ipv4_setting(root, "all", "rp_filter"),
	    own = read_ipv4_setting(root, interface->name, "rp_filter");
	char path[PATH_MAX], uevent[PATH_MAX];

	files_join(path, "%s/sys/class/net/%s", root, interface->name);
	interface->exists = files_exist("%s", path);
	interface->up = files_read_number(path, "flags") & IFF_UP;
	interface->running = interface->up && files_read_number(path, "carrier") == 1;
	interface->mtu = (unsigned int)files_read_number(path, "mtu");
	interface->is_virtual_function = files_exist("%s/device/physfn", path);
	files_for_each(path, read_lower, interface);
	files_join(uevent, "%s/uevent", path);
	files_read_labelled(uevent, "DEVTYPE=", interface->kind, sizeof(interface->kind));
	interface->kind[strcspn(interface->kind, "\n")] = '\0';
	/* The kernel uses the larger one: Documentation/networking/ip-sysctl.rst. */
	interface->rp_filter = all > own ? all : own;
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
	read_netdev(root, &facts->interfaces[facts->n_interfaces++]);
}

/* ---- groups ---------------------------------------------------------------------------------------- */

static void add_joined_group(struct doctor_facts *facts, const char *interface, sa_family_t family, const void *address)
{
	struct doctor_group *group = &facts->groups[facts->n_groups];

	if (facts->n_groups == DOCTOR_GROUPS_MAX)
		return;
	facts->n_groups++;
	files_copy_name(group->interface, sizeof(group->interface), interface);
	group->group.family = family;
	memcpy(group->group.address, address, family == AF_INET ? 4 : 16);
}

static void set_igmp_version(struct doctor_facts *facts, const char *name, unsigned int version)
{
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		if (strcmp(facts->interfaces[i].name, name) == 0)
			facts->interfaces[i].igmp_version = version;
}

/* A line an interface, "2\teth0      :     1      V3", and below it one a group: its address as the kernel's integer.
 */
static void read_igmp(FILE *file, struct doctor_facts *facts)
{
	char line[256], interface[DOCTOR_NAME_BYTES] = "", name[DOCTOR_NAME_BYTES];
	unsigned int version, address;

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*u %63[^ :]%*[ :]%*u V%u", name, &version) == 2) {
			files_copy_name(interface, sizeof(interface), name);
			set_igmp_version(facts, interface, version);
		} else if (line[0] == '\t' && sscanf(line, "%x", &address) == 1) {
			add_joined_group(facts, interface, AF_INET, &address);
		}
	}
}

/* "2    eth0            ff0200000000000000000000000000fb     1 …" */
static void read_igmp6(FILE *file, struct doctor_facts *facts)
{
	char line[256], interface[DOCTOR_NAME_BYTES], digits[33];
	uint8_t address[16];

	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%*u %63s %32[0-9a-f]", interface, digits) != 2 || strlen(digits) != 32)
			continue;
		for (unsigned int i = 0; i < 16; i++)
			sscanf(digits + 2 * i, "%2hhx", &address[i]);
		add_joined_group(facts, interface, AF_INET6, address);
	}
}

/* The groups of the daemon's network namespace, which may differ from that of this process. */
static void read_joined_groups(const char *root, struct doctor_facts *facts)
{
	static const struct {
		const char *file;
		void (*read)(FILE *file, struct doctor_facts *facts);
	} kinds[] = {{"igmp", read_igmp}, {"igmp6", read_igmp6}};
	char path[PATH_MAX], pid[DOCTOR_NAME_BYTES] = "self";
	FILE *file;

	if (facts->process.kind == DOCTOR_DAEMON)
		snprintf(pid, sizeof(pid), "%d", (int)facts->process.pid);
	for (unsigned int i = 0; i < 2; i++) {
		files_join(path, "%s/proc/%s/net/%s", root, pid, kinds[i].file);
		file = fopen(path, "re");
		if (!file)
			continue;
		kinds[i].read(file, facts);
		fclose(file);
	}
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
	if (fd < 0)
		return;
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
	close(fd);
}
