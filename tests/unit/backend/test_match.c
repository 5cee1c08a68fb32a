// SPDX-License-Identifier: Apache-2.0
/* Which RDMA device is behind an interface, on sysfs trees as kernels show them. */
#include "daemon/backend/verbs/verbs.h"
#include "daemon/net/stacking.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/ibvcap-match-XXXXXX";
static char device_paths[4][PATH_MAX];
static const char *devices[4];

static void set_up(void)
{
	cr_assert_not_null(mkdtemp(root));
	for (int i = 0; i < 4; i++)
		devices[i] = device_paths[i];
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status, (void)type, (void)ftw;
	return remove(path);
}

static void tear_down(void)
{
	nftw(root, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* A file, or a directory where text is NULL, with everything above it. */
static void put(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(const char *text, const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	int length = snprintf(path, sizeof(path), "%s/", root);

	va_start(arguments, format);
	vsnprintf(path + length, sizeof(path) - (size_t)length, format, arguments);
	va_end(arguments);
	for (char *slash = path + length; (slash = strchr(slash, '/')); *slash++ = '/') {
		*slash = '\0';
		cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
	}
	if (!text) {
		cr_assert(mkdir(path, 0755) == 0 || errno == EEXIST);
		return;
	}
	FILE *file = fopen(path, "w");
	cr_assert_not_null(file);
	fprintf(file, "%s\n", text);
	fclose(file);
}

static void put_device(int i, const char *name, int n_ports)
{
	snprintf(device_paths[i], PATH_MAX, "%s/class/infiniband/%s", root, name);
	for (int port = 1; port <= n_ports; port++)
		put(NULL, "class/infiniband/%s/ports/%d/gid_attrs/ndevs", name, port);
}

static void put_netdev(const char *name, const char *parent, const char *dev_port)
{
	put("02:11:22:33:44:55", "class/net/%s/address", name);
	if (parent)
		put(NULL, "class/net/%s/device/infiniband/%s", name, parent);
	if (dev_port)
		put(dev_port, "class/net/%s/dev_port", name);
}

static struct verbs_match match(const char *interface, int n_devices)
{
	struct verbs_sysfs sysfs = {.root = root, .devices = devices, .n_devices = n_devices};
	struct verbs_match found = {.device = -1};

	cr_assert_eq(verbs_match(&sysfs, interface, &found), 0);
	return found;
}

static int match_error(const char *interface, int n_devices)
{
	struct verbs_sysfs sysfs = {.root = root, .devices = devices, .n_devices = n_devices};
	struct verbs_match found;

	return verbs_match(&sysfs, interface, &found);
}

TestSuite(match, .init = set_up, .fini = tear_down);

Test(match, parent_device_whatever_it_is_called)
{
	put_device(0, "mlx5_0", 1);
	put_device(1, "telescope", 1);
	put_netdev("enp65s0f1np1", "telescope", "0");

	struct verbs_match found = match("enp65s0f1np1", 2);
	cr_assert_eq(found.device, 1);
	cr_assert_eq(found.port, 1);
}

Test(match, a_name_that_is_only_a_prefix_is_another_device)
{
	put_device(0, "mlx5_1", 1);
	put_device(1, "mlx5_10", 1);
	put_netdev("eth10", "mlx5_10", "0");

	cr_assert_eq(match("eth10", 2).device, 1);
	cr_assert_eq(match_error("eth1", 2), -ENODEV);
	cr_assert_eq(match_error("eth100", 2), -ENODEV);
}

Test(match, dev_port_is_the_port_of_a_two_port_device)
{
	put_device(0, "mlx4_0", 2);
	put_netdev("eth4", "mlx4_0", "0");
	put_netdev("eth5", "mlx4_0", "1");

	cr_assert_eq(match("eth4", 1).port, 1);
	cr_assert_eq(match("eth5", 1).port, 2);
}

Test(match, representor_is_not_its_uplink)
{
	put_device(0, "mlx5_0", 2);
	put_netdev("p0", "mlx5_0", "0");
	put_netdev("pf0vf0", "mlx5_0", "0");
	put("p0", "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0");
	put("pf0vf0", "class/infiniband/mlx5_0/ports/2/gid_attrs/ndevs/0");

	cr_assert_eq(match("p0", 1).port, 1);
	cr_assert_eq(match("pf0vf0", 1).port, 2);
}

Test(match, netdev_in_the_gid_table_without_a_parent_device)
{
	put_device(0, "mlx5_0", 1);
	put_device(1, "mlx5_bond_0", 1);
	put_netdev("bond0", NULL, NULL);
	put("eth0", "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0");
	put("eth1", "class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0");
	put("bond0", "class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/3");

	cr_assert_eq(match("bond0", 2).device, 1);
	cr_assert_eq(match_error("bond", 2), -ENODEV);
	cr_assert_eq(match_error("bond00", 2), -ENODEV);
}

Test(match, nothing_matches_no_devices)
{
	put_netdev("eth0", NULL, NULL);
	cr_assert_eq(match_error("eth0", 0), -ENODEV);
}

Test(match, the_uplink_in_switchdev_mode_is_the_last_port)
{
	put_device(0, "mlx5_0", 4);
	put("0", "class/infiniband/mlx5_0/hw_counters/out_of_buffer");
	put_netdev("p0", "mlx5_0", "0");
	put("p0", "class/net/p0/phys_port_name");
	put_netdev("eth3", "mlx5_0", "0");
	put("pf0vf1", "class/net/eth3/phys_port_name");

	cr_assert_eq(match("p0", 1).port, 4);
	cr_assert_eq(match_error("eth3", 1), -ENODEV);
}

/* ---- stacked interfaces ---------------------------------------------------------------------------- */

/* An interface with a PCI function; with NULL for device without an RDMA device. */
static void put_port(const char *interface, const char *pci, const char *driver, const char *device)
{
	char target[PATH_MAX], path[PATH_MAX];

	put(NULL, "devices/%s", pci);
	if (device)
		put(NULL, "devices/%s/infiniband/%s", pci, device);
	put("02:11:22:33:44:55", "class/net/%s/address", interface);
	snprintf(target, sizeof(target), "../../../devices/%s", pci);
	snprintf(path, sizeof(path), "%.1000s/class/net/%s/device", root, interface);
	cr_assert_eq(symlink(target, path), 0);
	snprintf(target, sizeof(target), "../../bus/pci/drivers/%s", driver);
	snprintf(path, sizeof(path), "%.1000s/devices/%s/driver", root, pci);
	cr_assert_eq(symlink(target, path), 0);
}

static int check_stacking(const char *interface, const char *says)
{
	struct verbs_sysfs sysfs = {.root = root};
	struct failure failure = {0};
	int r = verbs_check_stacking(&sysfs, interface, &failure);

	cr_assert_eq(strstr(failure.text, says) != NULL, true, "%s", failure.text);
	return r;
}

Test(match, a_vlan_is_refused_and_its_lower_interface_named)
{
	put_netdev("eth0", "mlx5_0", "0");
	put("DEVTYPE=vlan\nINTERFACE=eth0.5", "class/net/eth0.5/uevent");
	put(NULL, "class/net/eth0.5/lower_eth0");

	cr_assert_eq(check_stacking("eth0.5", "set interface = \"eth0\", and vlan"), -EINVAL);
	cr_assert_eq(check_stacking("eth0", ""), 0);
}

Test(match, bridges_macvlans_and_what_the_kernel_does_not_name_are_refused)
{
	put("DEVTYPE=bridge", "class/net/br0/uevent");
	put(NULL, "class/net/br0/lower_eth0");
	put(NULL, "class/net/team0/lower_eth7");

	cr_assert_eq(check_stacking("br0", "br0 (bridge) is stacked on eth0"), -EINVAL);
	cr_assert_eq(check_stacking("team0", "team0 is stacked on eth7"), -EINVAL);
}

static void put_bond(const char *first, const char *second)
{
	put("DEVTYPE=bond", "class/net/bond0/uevent");
	put(NULL, "class/net/bond0/lower_%s", first);
	put(NULL, "class/net/bond0/lower_%s", second);
}

Test(match, a_bond_of_ports_with_a_device_each_is_refused)
{
	put_port("eth0", "0000:3b:00.0", "mlx5_core", "mlx5_0");
	put_port("eth1", "0000:3b:00.1", "mlx5_core", "mlx5_1");
	put_bond("eth0", "eth1");

	cr_assert_eq(check_stacking("bond0", "2 of 2 have an RDMA device"), -EINVAL);
}

Test(match, a_bond_over_two_cards_of_which_one_has_a_device_is_refused)
{
	put_port("eth0", "0000:3b:00.0", "mlx5_core", "mlx5_0");
	put_port("eno1", "0000:05:00.0", "igb", NULL);
	put_bond("eth0", "eno1");

	cr_assert_eq(check_stacking("bond0", "1 of 2 have an RDMA device"), -EINVAL);
}

Test(match, a_bond_with_one_device_for_both_ports_is_served)
{
	put_device(0, "mlx5_bond_0", 1);
	put("bond0", "class/infiniband/mlx5_bond_0/ports/1/gid_attrs/ndevs/0");
	put_port("eth0", "0000:3b:00.0", "mlx5_core", "mlx5_bond_0");
	put_port("eth1", "0000:3b:00.1", "mlx5_core", NULL);
	put_bond("eth0", "eth1");

	cr_assert_eq(check_stacking("bond0", ""), VERBS_STACKING_LAG);
	cr_assert_eq(match("bond0", 1).device, 0);
}

/* Both functions passed to a virtual machine, or a card in two PCI slots (socket-direct). */
Test(match, a_bond_with_one_device_for_ports_in_different_slots_is_served)
{
	put_port("eth0", "0000:06:00.0", "mlx5_core", "mlx5_bond_0");
	put_port("eth1", "0000:07:00.0", "mlx5_core", NULL);
	put_bond("eth0", "eth1");

	cr_assert_eq(check_stacking("bond0", ""), VERBS_STACKING_LAG);
}

Test(match, a_port_whose_gids_are_those_of_a_vlan_on_its_bond_is_found)
{
	put_device(0, "mlx5_0", 1);
	put_netdev("eth0", "mlx5_0", "0");
	put(NULL, "class/net/bond0/lower_eth0");
	put(NULL, "class/net/bond0.5/lower_bond0");
	put("bond0.5", "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0");

	cr_assert_eq(match("eth0", 1).device, 0);
}

Test(match, interfaces_that_are_stacked_in_a_circle_end)
{
	put(NULL, "class/net/a/lower_b");
	put(NULL, "class/net/b/lower_a");

	cr_assert_not(net_is_stacked_on(root, "a", "eth0"));
}

/* ---- the device's node ----------------------------------------------------------------------------- */

static int check_node(const char *interface, const char *nodes, const char *says)
{
	struct verbs_sysfs sysfs = {.root = root};
	struct failure failure = {0};
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s/%s", root, nodes);
	r = verbs_check_node(&sysfs, path, interface, &failure);
	cr_assert_eq(strstr(failure.text, says) != NULL, true, "%s", failure.text);
	return r;
}

Test(match, the_node_of_the_interfaces_own_device_is_checked)
{
	put(NULL, "class/infiniband_verbs/uverbs0");
	put(NULL, "class/net/eth0/device/infiniband_verbs/uverbs0");
	put(NULL, "class/net/eth1/device/infiniband_verbs/uverbs1");
	put("", "class/net/bond0/address");
	put("", "dev/uverbs0");

	cr_assert_eq(check_node("eth0", "dev", ""), 0);
	cr_assert_eq(check_node("bond0", "dev", ""), 0);
	cr_assert_eq(check_node("eth1", "dev", "dev/uverbs1 is not here: give it to the container"), -ENODEV);
	cr_assert_eq(check_node("eth1", "dev/uverbs0", "cannot reach its node"), -ENOTDIR);
}

/* ---- counters of a port --------------------------------------------------------------------------- */

static void expect_counter(const char *below)
{
	char path[PATH_MAX], wanted[PATH_MAX] = "";

	if (below)
		snprintf(wanted, sizeof(wanted), "%.1000s/class/infiniband/mlx5_0/%s", root, below);
	cr_assert_eq(verbs_find_counter(devices[0], 1, "out_of_buffer", path, sizeof(path)), below != NULL);
	cr_assert_str_eq(path, wanted);
}

Test(match, counter_of_a_port_in_legacy_mode)
{
	put_device(0, "mlx5_0", 2);
	expect_counter(NULL);
	put("3", "class/infiniband/mlx5_0/ports/2/hw_counters/out_of_buffer");
	expect_counter(NULL);
	put("3", "class/infiniband/mlx5_0/ports/1/hw_counters/out_of_buffer");
	expect_counter("ports/1/hw_counters/out_of_buffer");
}

Test(match, counter_of_the_device_in_switchdev_mode_where_that_of_the_port_stays_0)
{
	put_device(0, "mlx5_0", 1);
	put("3", "class/infiniband/mlx5_0/hw_counters/out_of_buffer");
	expect_counter("hw_counters/out_of_buffer");
	put("0", "class/infiniband/mlx5_0/ports/1/hw_counters/out_of_buffer");
	expect_counter("hw_counters/out_of_buffer");
}

Test(match, description_names_every_port_and_its_netdev)
{
	struct verbs_sysfs sysfs = {.root = root, .devices = devices, .n_devices = 3};
	char text[256];

	put_device(0, "mlx5_0", 1);
	put("enp1s0f0np0", "class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0");
	put_device(1, "mlx4_0", 2); /* RoCE off */
	put("0", "class/infiniband/mlx4_0/device/net/eth4/dev_port");
	put("1", "class/infiniband/mlx4_0/device/net/eth5/dev_port");
	put_device(2, "siw0", 1);

	cr_assert_str_eq(
		verbs_describe_devices(&sysfs, text, sizeof(text)),
		"mlx5_0 port 1 (enp1s0f0np0), mlx4_0 port 1 (eth4), mlx4_0 port 2 (eth5), siw0 port 1 (no netdev)");
}

Test(match, description_stops_at_the_end_of_the_buffer)
{
	struct verbs_sysfs sysfs = {.root = root, .devices = devices, .n_devices = 2};
	char text[24];

	put_device(0, "mlx5_0", 1);
	put_device(1, "mlx5_1", 1);
	verbs_describe_devices(&sysfs, text, sizeof(text));
	cr_assert_str_eq(text, "mlx5_0 port 1 (no netde");
}
