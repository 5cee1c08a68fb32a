// SPDX-License-Identifier: Apache-2.0
/* Which RDMA device is behind an interface, on sysfs trees as kernels show them. */
#include "daemon/backend/verbs/verbs.h"

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

Test(match, gid_made_of_the_mac_where_nothing_else_is)
{
	put_device(0, "mlx5_0", 1);
	put_device(1, "mlx5_1", 1);
	put_netdev("eth7", NULL, NULL);
	put("fe80:0000:0000:0000:0011:22ff:fe33:4456", "class/infiniband/mlx5_0/ports/1/gids/0");
	put("fe80:0000:0000:0000:0011:22ff:fe33:4455", "class/infiniband/mlx5_1/ports/1/gids/0");

	cr_assert_eq(match("eth7", 2).device, 1);
}

Test(match, nothing_matches_no_devices)
{
	put_netdev("eth0", NULL, NULL);
	cr_assert_eq(match_error("eth0", 0), -ENODEV);
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
