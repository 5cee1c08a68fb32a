// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIT(capability) (UINT64_C(1) << (capability))

static struct doctor_facts facts;
static struct doctor_findings findings;

/* A machine with nothing to mend. */
static void make_ready(void)
{
	struct doctor_port *port = &facts.devices[0].ports[0];

	memset(&facts, 0, sizeof(facts));
	facts.pools[0] = (struct doctor_pool){.node = 0, .page_kib = 2048, .total_pages = 8, .free_pages = 3};
	facts.n_pools = 1;
	facts.devices[0] = (struct doctor_device){.name = "mlx5_0", .uverbs = "uverbs0", .n_ports = 1};
	facts.n_devices = 1;
	*port = (struct doctor_port){.number = 1,
				     .state = "4: ACTIVE",
				     .link_layer = "Ethernet",
				     .rate = "100 Gb/sec (4X EDR)",
				     .netdev = "eth0",
				     .netdev_up = true,
				     .netdev_running = true,
				     .mtu = 9000};
	facts.process =
	    (struct doctor_process){.pid = 1, .effective_capabilities = BIT(CAP_NET_RAW) | BIT(CAP_IPC_LOCK)};
}

/* The one finding that is not ok; fails the test if there are none or several. */
static const struct doctor_finding *only_fault(void)
{
	const struct doctor_finding *fault = NULL;

	doctor_judge(&facts, &findings);
	for (unsigned int i = 0; i < findings.n; i++) {
		if (findings.entries[i].level == DOCTOR_OK)
			continue;
		cr_assert_null(fault, "also: %s: %s", findings.entries[i].subject, findings.entries[i].found);
		fault = &findings.entries[i];
	}
	cr_assert_not_null(fault);
	cr_assert(*fault->found && *fault->wanted && *fault->why && *fault->fix);
	cr_assert_eq(doctor_worst(&findings), fault->level);
	return fault;
}

static void expect(enum doctor_level level, const char *check, const char *found, const char *fix)
{
	const struct doctor_finding *fault = only_fault();

	cr_assert_eq(fault->level, level);
	cr_assert_str_eq(fault->check, check);
	cr_assert_not_null(strstr(fault->found, found), "%s", fault->found);
	cr_assert_not_null(strstr(fault->fix, fix), "%s", fault->fix);
}

TestSuite(doctor_judge, .init = make_ready);

Test(doctor_judge, a_ready_machine_has_nothing_to_mend)
{
	doctor_judge(&facts, &findings);
	cr_assert_eq(doctor_worst(&findings), DOCTOR_OK);
	cr_assert_eq(findings.n, 6); /* device, port, interface, capabilities, memlock, hugepages */
}

Test(doctor_judge, no_device_and_no_card_is_an_error_that_points_to_softhca)
{
	facts.n_devices = 0;
	expect(DOCTOR_ERROR, "device", "no ConnectX", "softhca -i");
}

Test(doctor_judge, a_card_without_a_driver_wants_the_driver_also_after_a_reboot)
{
	facts.n_devices = 0;
	facts.mellanox_pci = true;
	expect(DOCTOR_ERROR, "device", "there is a ConnectX", "modprobe mlx5_ib");
	cr_assert(only_fault()->fix_survives_reboot);
}

Test(doctor_judge, a_device_that_cannot_be_opened_is_an_error)
{
	facts.devices[0].open_error = EACCES;
	expect(DOCTOR_ERROR, "device", "Permission denied", "chmod 0666 /dev/infiniband/uverbs0");
	facts.devices[0].open_error = ENOENT;
	expect(DOCTOR_ERROR, "device", "No such file", "modprobe ib_uverbs");
}

Test(doctor_judge, an_infiniband_port_is_a_warning)
{
	strcpy(facts.devices[0].ports[0].link_layer, "InfiniBand");
	expect(DOCTOR_WARNING, "port", "InfiniBand", "LINK_TYPE_P1=2");
}

Test(doctor_judge, a_port_that_is_down_is_told_of_once_by_its_interface)
{
	strcpy(facts.devices[0].ports[0].state, "1: DOWN");
	facts.devices[0].ports[0].netdev_running = false;
	expect(DOCTOR_WARNING, "interface", "no carrier", "ethtool eth0");
	facts.devices[0].ports[0].netdev_up = false;
	expect(DOCTOR_WARNING, "interface", "down", "ip link set eth0 up");
	cr_assert_not(only_fault()->fix_survives_reboot);
}

Test(doctor_judge, a_port_that_is_down_with_its_interface_up_is_told_of_itself)
{
	strcpy(facts.devices[0].ports[0].state, "2: INIT");
	expect(DOCTOR_WARNING, "port", "2: INIT", "rdma link show mlx5_0/1");
}

Test(doctor_judge, a_process_without_net_raw_is_a_warning_and_a_daemon_an_error)
{
	facts.process.effective_capabilities = BIT(CAP_IPC_LOCK);
	expect(DOCTOR_WARNING, "capabilities", "no CAP_NET_RAW", "ibv_launch");
	facts.process.is_daemon = true;
	expect(DOCTOR_ERROR, "capabilities", "no CAP_NET_RAW", "AmbientCapabilities=CAP_NET_RAW");
}

Test(doctor_judge, a_memlock_limit_matters_only_without_ipc_lock)
{
	facts.process.memlock_bytes = 8 << 20;
	doctor_judge(&facts, &findings);
	cr_assert_eq(doctor_worst(&findings), DOCTOR_OK);
	facts.process.effective_capabilities = BIT(CAP_NET_RAW);
	expect(DOCTOR_WARNING, "memlock", "8192 KiB", "systemctl start");
	facts.process.memlock_bytes = UINT64_MAX;
	doctor_judge(&facts, &findings);
	cr_assert_eq(doctor_worst(&findings), DOCTOR_OK);
}

Test(doctor_judge, a_daemon_that_runs_has_locked_what_it_needs)
{
	facts.process = (struct doctor_process){
		.is_daemon = true, .memlock_bytes = 8 << 20, .effective_capabilities = BIT(CAP_NET_RAW)
	};
	doctor_judge(&facts, &findings);
	cr_assert_eq(doctor_worst(&findings), DOCTOR_OK);
}

Test(doctor_judge, no_hugepages_is_an_error_and_all_in_use_a_warning)
{
	facts.pools[0].free_pages = 0;
	expect(DOCTOR_WARNING, "hugepages", "8 reserved, none free", "vm.nr_hugepages = 520");
	facts.pools[0].total_pages = 0;
	expect(DOCTOR_ERROR, "hugepages", "0 reserved", "vm.nr_hugepages = 512");
	cr_assert(only_fault()->fix_survives_reboot);
}

Test(doctor_judge, a_config_the_daemon_refuses_is_an_error_in_the_daemons_words)
{
	facts.config_file = "/etc/ibvcapd.conf";
	facts.config_status = 78;
	strcpy(facts.config_message, "/etc/ibvcapd.conf:3: unknown key");
	expect(DOCTOR_ERROR, "config", ":3: unknown key", "ibvcapd --check-config");
	facts.config_status = 0;
	doctor_judge(&facts, &findings);
	cr_assert_eq(doctor_worst(&findings), DOCTOR_OK);
}

Test(doctor_judge, more_findings_than_there_is_room_for_stay_in_bounds)
{
	facts.n_pools = DOCTOR_POOLS_MAX;
	facts.n_devices = DOCTOR_DEVICES_MAX;
	for (unsigned int i = 0; i < DOCTOR_POOLS_MAX; i++)
		facts.pools[i] = facts.pools[0];
	for (unsigned int i = 0; i < DOCTOR_DEVICES_MAX; i++) {
		facts.devices[i] = facts.devices[0];
		facts.devices[i].n_ports = DOCTOR_PORTS_MAX;
		for (unsigned int j = 0; j < DOCTOR_PORTS_MAX; j++)
			facts.devices[i].ports[j] = facts.devices[0].ports[0];
	}
	doctor_judge(&facts, &findings);
	cr_assert_lt(findings.n, DOCTOR_FINDINGS_MAX);
}

/* A machine as files: what sysfs and /proc say of one device, one daemon. */
static char root[] = "/tmp/test_doctor.XXXXXX";

static void put(const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
	file = fopen(whole, "w");
	cr_assert_not_null(file, "%s", whole);
	fputs(text, file);
	fclose(file);
}

static void make_tree(void)
{
	static const char port[] = "/sys/class/infiniband/mlx5_3/ports/1";
	char path[256];

	memset(&facts, 0, sizeof(facts));
	cr_assert_not_null(mkdtemp(root));
	for (unsigned int i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/gids/%u", port, i);
		put(path,
		    i == 1 ? "0000:0000:0000:0000:0000:0000:0000:0000\n" : "fe80:0000:0000:0000:0000:00ff:fe00:0001\n");
	}
	put("/sys/class/infiniband/mlx5_3/ports/1/gid_attrs/ndevs/2", "eth7\n");
	put("/sys/class/infiniband/mlx5_3/ports/1/gid_attrs/types/2", "RoCE v2\n");
	put("/sys/class/infiniband/mlx5_3/ports/1/state", "4: ACTIVE\n");
	put("/sys/class/infiniband/mlx5_3/ports/1/link_layer", "Ethernet\n");
	put("/sys/class/infiniband_verbs/uverbs5/ibdev", "mlx5_3\n");
	put("/sys/class/net/eth7/flags", "0x1003\n");
	put("/sys/class/net/eth7/carrier", "1\n");
	put("/sys/class/net/eth7/mtu", "4200\n");
	put("/dev/infiniband/uverbs5", "");
	put("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "4\n");
	put("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
	put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "16\n");
	put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "0\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3\n");
	put("/proc/1/comm", "systemd\n");
	put("/proc/421/comm", "ibvcapd\n");
	put("/proc/421/status", "Name:\tibvcapd\nCapEff:\t0000000000006000\n");
	put("/proc/421/limits",
	    "Limit  Soft Limit\nMax locked memory         8388608              8388608              bytes\n");
}

static void remove_tree(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

Test(doctor_read, a_machine_is_read_from_its_files, .init = make_tree, .fini = remove_tree)
{
	const struct doctor_device *device = &facts.devices[0];
	const struct doctor_port *port = &device->ports[0];

	doctor_read(root, &facts);
	cr_assert_eq(facts.n_devices, 1);
	cr_assert_str_eq(device->name, "mlx5_3");
	cr_assert_str_eq(device->uverbs, "uverbs5");
	cr_assert_eq(device->open_error, 0);
	cr_assert_eq(device->n_ports, 1);
	cr_assert_eq(port->number, 1);
	cr_assert_str_eq(port->state, "4: ACTIVE");
	cr_assert_eq(port->n_gids, 2);
	cr_assert_eq(port->gids[1].index, 2);
	cr_assert_str_eq(port->gids[1].type, "RoCE v2");
	cr_assert_str_eq(port->netdev, "eth7");
	cr_assert(port->netdev_up && port->netdev_running);
	cr_assert_eq(port->mtu, 4200);
	cr_assert(facts.mellanox_pci);
}

Test(doctor_read, hugepages_are_read_by_size_and_node, .init = make_tree, .fini = remove_tree)
{
	doctor_read(root, &facts);
	cr_assert_eq(facts.n_pools, 2);
	cr_assert_eq(facts.pools[0].page_kib, 2048);
	cr_assert_eq(facts.pools[0].node, 0);
	cr_assert_eq(facts.pools[0].total_pages, 16);
	cr_assert_eq(facts.pools[1].page_kib, 1048576);
	cr_assert_eq(facts.pools[1].node, 1);
	cr_assert_eq(facts.pools[1].free_pages, 1);
}

Test(doctor_read, the_daemons_powers_count_where_it_runs, .init = make_tree, .fini = remove_tree)
{
	doctor_read(root, &facts);
	cr_assert(facts.process.is_daemon);
	cr_assert_eq(facts.process.pid, 421);
	cr_assert_eq(facts.process.effective_capabilities, 0x6000);
	cr_assert_eq(facts.process.memlock_bytes, 8388608);
}

Test(doctor_read, an_empty_machine_reads_as_nothing)
{
	memset(&facts, 0, sizeof(facts));
	doctor_read("/nonexistent", &facts);
	cr_assert_eq(facts.n_devices + facts.n_pools, 0);
	cr_assert_not(facts.mellanox_pci || facts.process.is_daemon);
	cr_assert_eq(facts.process.pid, getpid());
}
