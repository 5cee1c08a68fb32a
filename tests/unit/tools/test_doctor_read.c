// SPDX-License-Identifier: Apache-2.0
/* Facts that the doctor reads from a tree of files made as sysfs and /proc, and from the output of systemctl. */
#include "tests/support/own_ioctl.h"
#include "tools/doctor/read.h"
#include "tools/groups/joined_groups.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <libgen.h>
#include <linux/ethtool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* A device node that every machine has, and its number. */
#define NODE        "/dev/full"
#define NODE_NUMBER "1:7\n"

static char root[] = "/tmp/test_doctor.XXXXXX";
static struct doctor_facts facts;

static void make_parents(const char *path, char whole[512])
{
	snprintf(whole, 512, "%s%s", root, path);
	for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
}

static void put_bytes(const char *path, const void *bytes, size_t n)
{
	char whole[512];
	FILE *file;

	make_parents(path, whole);
	file = fopen(whole, "w");
	cr_assert_not_null(file, "%s", whole);
	cr_assert_eq(fwrite(bytes, 1, n, file), n);
	fclose(file);
}

static void put(const char *path, const char *text)
{
	put_bytes(path, text, strlen(text));
}

static void put_link(const char *path, const char *target)
{
	char whole[512];

	make_parents(path, whole);
	cr_assert_eq(symlink(target, whole), 0, "%s", whole);
}

static void put_device(void)
{
	put("/sys/class/infiniband/mlx5_3/ports/1/gid_attrs/ndevs/0", "");
	put("/sys/class/infiniband/mlx5_3/ports/1/gid_attrs/ndevs/2", "eth7\n");
	put("/sys/class/infiniband/mlx5_3/ports/1/state", "4: ACTIVE\n");
	put("/sys/class/infiniband/mlx5_3/ports/1/link_layer", "Ethernet\n");
	put("/sys/class/infiniband_verbs/uverbs5/ibdev", "mlx5_3\n");
	put("/sys/class/infiniband_verbs/uverbs5/dev", NODE_NUMBER);
	put("/dev/infiniband/uverbs5", "");
}

static void put_pci(void)
{
	uint8_t config[256] = {
		[0x34] = 0x40, [0x40] = 0x05, [0x41] = 0x60, [0x60] = 0x10, [0x61] = 0, [0x68] = 0x10, [0x69] = 0x29};

	put_link("/sys/class/infiniband/mlx5_3/device", "../../../bus/pci/devices/0000:3b:00.0");
	put("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x15b3\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/current_link_width", "8\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/max_link_width", "16\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/current_link_speed", "8.0 GT/s PCIe\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/max_link_speed", "16.0 GT/s PCIe\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/iommu_group/type", "DMA-FQ\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/msi_irqs/41", "msix\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/msi_irqs/42", "msix\n");
	put("/proc/irq/41/effective_affinity_list", "1\n");
	put("/proc/irq/42/effective_affinity_list", "\n");
	put("/proc/irq/42/smp_affinity_list", "3-4,6\n");
	put_bytes("/sys/bus/pci/devices/0000:3b:00.0/config", config, sizeof(config));
}

static void put_interface(void)
{
	put("/sys/class/net/eth7/device/physfn/vendor", "0x15b3\n");
	put("/proc/sys/net/ipv4/conf/all/rp_filter", "2\n");
	put("/proc/sys/net/ipv4/conf/eth7/rp_filter", "1\n");
}

static void put_memory_and_cpus(void)
{
	int32_t limit_us = 20;

	put("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/nr_hugepages", "4\n");
	put("/sys/devices/system/node/node1/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
	put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages", "16\n");
	put("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages", "0\n");
	put("/sys/devices/system/node/node1/cpulist", "4-7\n");
	put("/sys/devices/system/cpu/online", "0-7\n");
	put("/sys/devices/system/cpu/isolated", "5,7\n");
	put("/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor", "schedutil\n");
	put("/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "performance\n");
	put("/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "powersave\n"); /* no CPU */
	put("/sys/devices/system/cpu/cpu2/cpuidle/state1/latency", "2\n");
	put("/sys/devices/system/cpu/cpu2/cpuidle/state1/name", "C1\n");
	put("/sys/devices/system/cpu/cpu2/cpuidle/state2/latency", "90\n");
	put("/sys/devices/system/cpu/cpu2/cpuidle/state2/name", "C6\n");
	put("/sys/devices/system/cpu/cpu2/cpuidle/state3/latency", "500\n");
	put("/sys/devices/system/cpu/cpu2/cpuidle/state3/disable", "1\n");
	put_bytes("/dev/cpu_dma_latency", &limit_us, sizeof(limit_us));
}

static void put_daemon_of(unsigned int uid, const char *pid, const char *command_line, size_t bytes)
{
	char path[64], text[128];

	snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	put(path, "ibvcapd\n");
	snprintf(path, sizeof(path), "/proc/%s/cmdline", pid);
	put_bytes(path, command_line, bytes);
	snprintf(path, sizeof(path), "/proc/%s/status", pid);
	snprintf(text, sizeof(text), "Name:\tibvcapd\nUid:\t%u\t0\t0\t0\nCapEff:\t0000000000006000\n", uid);
	put(path, text);
	snprintf(path, sizeof(path), "/proc/%s/limits", pid);
	put(path, "Limit  Soft Limit\nMax locked memory         8388608              8388608              bytes\n");
}

static void put_daemon(const char *pid, const char *command_line, size_t bytes)
{
	put_daemon_of(999, pid, command_line, bytes);
}

static void put_processes(void)
{
	static const char line[] = "ibvcapd\0--config\0/etc/x.conf";

	put("/proc/1/comm", "systemd\n");
	put_daemon("421", line, sizeof(line));
	put("/proc/421/cgroup", "0::/system.slice/ibvcapd.service\n");
	put("/proc/421/net/igmp", "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n"
	                          "1\tlo        :     1      V3\n"
	                          "\t\t\t\t010000E0     1 0:00000000\t\t0\n"
	                          "4\teth7      :     2      V2\n"
	                          "\t\t\t\t030201EF     1 0:00000000\t\t0\n"
	                          "\t\t\t\t010000E0     1 0:00000000\t\t0\n");
	put("/proc/421/net/igmp6", "4    eth7            ff050000000000000000000000000102     1 00000004 0\n");
	put_link("/proc/421/fd/7", NODE);
	put_link("/proc/421/fd/9", NODE);
	put_link("/proc/421/fd/8", "/dev/null");
	put_link("/proc/600/fd/3", NODE);
	put("/proc/600/comm", "ib\033[2J\377bw\n");
	put_link("/proc/601/fd/3", "../../../dev/infiniband/uverbs5"); /* a file */
	put("/proc/601/comm", "forger\n");
}

/* A segment of a ring: a file that is called as the kernel calls the memfd, 8 KiB long. */
static void put_segment(const char *name, struct stat *status)
{
	static const char bytes[8192];
	char path[256], whole[512];

	snprintf(path, sizeof(path), "/memfd:%s (deleted)", name);
	put_bytes(path, bytes, sizeof(bytes));
	snprintf(whole, sizeof(whole), "%s%s", root, path);
	cr_assert_eq(stat(whole, status), 0);
}

static void put_open_segment(const char *pid, const char *name)
{
	char path[64], target[256];

	snprintf(path, sizeof(path), "/proc/%s/fd/5", pid);
	snprintf(target, sizeof(target), "%s/memfd:%s (deleted)", root, name);
	put_link(path, target);
}

/*
 * The daemon, 421, holds one segment. Process 700 maps this one and one of a ring that has ended. Process 701 has only
 * a descriptor, and 702 has only a memfd of another program.
 */
static void put_holders(void)
{
	struct stat ring, other;
	char maps[1024];

	put_segment("ibvcap-ring", &ring);
	put_segment("elses", &other);
	put_open_segment("421", "ibvcap-ring");
	snprintf(maps, sizeof(maps),
	         "7f0000000000-7f0000200000 r--s 00000000 00:01 77    /memfd:ibvcap-payload (deleted)\n"
	         "7f0000400000-7f0000600000 r--s 00200000 00:01 77    /memfd:ibvcap-payload (deleted)\n"
	         "7f0000800000-7f0000801000 r--s 00000000 %02x:%02x %lu    /memfd:ibvcap-ring (deleted)\n"
	         "7f0000900000-7f0000a00000 r--s 00000000 00:01 78    /memfd:elses (deleted)\n",
	         major(ring.st_dev), minor(ring.st_dev), (unsigned long)ring.st_ino);
	put("/proc/700/maps", maps);
	put_open_segment("700", "ibvcap-ring");
	put("/proc/700/comm", "reader\n");
	put("/proc/700/status", "Name:\treader\nUid:\t0\t0\t0\t0\n");
	put_open_segment("701", "ibvcap-ring");
	put("/proc/701/status", "Name:\tindexer\nUid:\t4000000001\t0\t0\t0\n");
	put("/proc/701/comm", "indexer\n");
	put_open_segment("702", "elses");
}

static void put_limits(void)
{
	put("/run/systemd/container", "systemd-nspawn\n");
	put("/sys/fs/cgroup/system.slice/ibvcapd.service/pids.max", "64\n");
	put("/sys/fs/cgroup/system.slice/ibvcapd.service/memory.max", "max\n");
	put("/sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
	put("/sys/fs/cgroup/hugetlb.2MB.max", "4194304\n");
}

static void make_tree(void)
{
	memset(&facts, 0, sizeof(facts));
	cr_assert_not_null(mkdtemp(root));
	put_device();
	put_pci();
	put_interface();
	put_memory_and_cpus();
	put_processes();
	put_holders();
	put_limits();
	put("/proc/meminfo", "MemTotal:       24576000 kB\nMemFree:          123456 kB\n");
	facts.config_file = "/etc/ibvcapd.conf";
	facts.process.kind = DOCTOR_DAEMON;
	facts.process.pid = 421;
	doctor_read(root, &facts);
}

static void remove_tree(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", root);
	cr_assert_eq(system(command), 0);
}

TestSuite(machine, .init = make_tree, .fini = remove_tree);

Test(machine, devices_and_their_ports)
{
	const struct doctor_device *device = &facts.devices[0];
	const struct doctor_port *port = &device->ports[0];

	cr_assert_eq(facts.n_devices, 1);
	cr_assert_str_eq(device->name, "mlx5_3");
	cr_assert_str_eq(device->uverbs, "uverbs5");
	cr_assert_eq(device->open_error, 0);
	cr_assert_eq(device->n_ports, 1);
	cr_assert_eq(port->number, 1);
	cr_assert_str_eq(port->state, "4: ACTIVE");
	cr_assert_str_eq(port->netdev, "eth7");
	cr_assert(facts.mellanox_pci);
}

Test(machine, a_devices_place_on_the_bus)
{
	const struct doctor_pci *pci = &facts.devices[0].pci;

	cr_expect_str_eq(pci->address, "0000:3b:00.0");
	cr_expect_eq(pci->node, 1);
	cr_expect_eq(pci->width, 8);
	cr_expect_eq(pci->width_max, 16);
	cr_expect_str_eq(pci->speed, "8.0 GT/s PCIe");
	cr_expect_str_eq(pci->speed_max, "16.0 GT/s PCIe");
	cr_expect_eq(pci->read_request_bytes, 512);
	cr_expect(pci->has_ordering && pci->relaxed_ordering);
	cr_expect_str_eq(pci->iommu, "DMA-FQ");
	cr_expect_eq(pci->n_irqs, 2);
	cr_expect_eq(CPU_COUNT(&pci->irq_cpus), 4);
	cr_expect(CPU_ISSET(1, &pci->irq_cpus) && CPU_ISSET(3, &pci->irq_cpus) && CPU_ISSET(4, &pci->irq_cpus) &&
	          CPU_ISSET(6, &pci->irq_cpus));
}

Test(machine, who_has_a_device_open_is_named_once)
{
	const struct doctor_device *device = &facts.devices[0];
	bool daemon_first = device->users[0].pid == 421;

	cr_assert_eq(device->n_users, 2);
	cr_expect_eq(device->users[!daemon_first].pid, 421);
	cr_expect_str_eq(device->users[!daemon_first].name, "ibvcapd");
	cr_expect_eq(device->users[daemon_first].pid, 600);
	cr_expect_str_eq(device->users[daemon_first].name, "ib?[2J?bw", "as a terminal may show it");
}

static const struct doctor_holder *find_holder(pid_t pid)
{
	for (unsigned int i = 0; i < facts.n_holders; i++)
		if (facts.holders[i].pid == pid)
			return &facts.holders[i];
	return NULL;
}

Test(machine, a_process_that_maps_ring_memory_holds_each_segment_once)
{
	const struct doctor_holder *reader = find_holder(700);

	cr_assert_not_null(reader);
	cr_expect_str_eq(reader->name, "reader");
	cr_expect_str_eq(reader->user, "root");
	cr_expect_eq(reader->bytes, (4 << 20) + 8192);
	cr_expect_eq(reader->ended_bytes, 4 << 20, "what no daemon holds");
}

Test(machine, a_descriptor_of_ring_memory_is_enough_to_hold_it)
{
	const struct doctor_holder *reader = find_holder(701);

	cr_assert_eq(facts.n_holders, 2);
	cr_assert_not_null(reader);
	cr_expect_str_eq(reader->user, "4000000001");
	cr_expect_eq(reader->bytes, 8192);
	cr_expect_eq(reader->ended_bytes, 0);
	cr_expect_null(find_holder(421), "a daemon is not judged");
	cr_expect(facts.sees_all_processes && facts.knows_ended_rings);
}

/* Its first thread has ended, so /proc/704 shows neither mappings nor descriptors. */
Test(machine, descriptors_and_mappings_of_a_thread_are_its_process_s)
{
	put("/proc/704/comm", "threads\n");
	put("/proc/704/maps", "");
	put("/proc/704/task/704/maps", "");
	put("/proc/704/task/705/maps",
	    "7f0000000000-7f0000200000 r--s 00000000 00:01 77    /memfd:ibvcap-payload (deleted)\n");
	put_open_segment("704/task/705", "ibvcap-ring");
	memset(&facts, 0, sizeof(facts));
	doctor_read(root, &facts);
	cr_assert_eq(facts.n_holders, 3);
	cr_assert_not_null(find_holder(704));
	cr_expect_eq(find_holder(704)->bytes, (2 << 20) + 8192);
}

static void remove_file(const char *path)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	cr_assert_eq(unlink(whole), 0, "%s", whole);
}

/* Read the changed tree; what all processes hold of rings that have ended. */
static uint64_t read_ended_bytes(void)
{
	uint64_t bytes = 0;

	memset(&facts, 0, sizeof(facts));
	doctor_read(root, &facts);
	for (unsigned int i = 0; i < facts.n_holders; i++)
		bytes += facts.holders[i].ended_bytes;
	return bytes;
}

/* Root can read every file, but no link to itself: it stands for what the kernel refuses to other users. */
Test(machine, rings_have_not_ended_because_a_daemon_cannot_be_read)
{
	put_link("/proc/703/maps", "maps");
	cr_expect_eq(read_ended_bytes(), 4 << 20, "no daemon");
	cr_expect(facts.knows_ended_rings && !facts.sees_all_processes);
	put_link("/proc/421/maps", "maps");
	cr_expect_eq(read_ended_bytes(), 0);
	cr_expect_not(facts.knows_ended_rings);
	cr_expect_eq(find_holder(700)->bytes, (4 << 20) + 8192);
	remove_file("/proc/421/maps");
	put("/proc/422/comm", "ibvcapd\n");
	put("/proc/422/status", "Name:\tibvcapd\nUid:\t999\t0\t0\t0\n");
	put_link("/proc/422/fd", "fd");
	cr_expect_eq(read_ended_bytes(), 0);
	remove_file("/proc/422/fd");
	cr_expect_eq(read_ended_bytes(), 4 << 20, "a daemon that has just ended holds nothing");
	remove_file("/proc/1/comm");
	cr_expect_eq(read_ended_bytes(), 0, "hidepid");
	cr_expect_not(facts.knows_ended_rings || facts.sees_all_processes);
}

Test(machine, all_rings_have_ended_where_no_daemon_runs)
{
	remove_file("/proc/421/comm");
	remove_file("/proc/421/fd/5");
	cr_expect_eq(read_ended_bytes(), (4 << 20) + 2 * 8192);
}

Test(machine, many_readers_leave_room_for_the_daemon)
{
	char pid[8];

	remove_file("/proc/700/maps");
	for (unsigned int i = 100; i < 100 + DOCTOR_HOLDERS_MAX; i++) {
		snprintf(pid, sizeof(pid), "%u", i);
		put_open_segment(pid, "ibvcap-ring");
	}
	cr_expect_eq(read_ended_bytes(), 0);
	cr_expect_eq(facts.n_holders, DOCTOR_HOLDERS_MAX);
	cr_expect(facts.knows_ended_rings);
}

Test(machine, rings_have_not_ended_because_there_are_too_many_segments)
{
	char whole[512];
	FILE *maps;

	make_parents("/proc/703/maps", whole);
	maps = fopen(whole, "w");
	cr_assert_not_null(maps);
	for (unsigned int i = 0; i < 20000; i++)
		fprintf(maps, "7f0000000000-7f0000001000 r--s 00000000 00:01 %u    /memfd:ibvcap-ring (deleted)\n",
		        1000 + i);
	fclose(maps);
	cr_expect_eq(read_ended_bytes(), 0);
	cr_expect(facts.sees_all_processes && !facts.knows_ended_rings);
}

/* Nobody but the daemon of a ring can map its memory writable. */
Test(machine, the_rings_of_a_daemon_of_any_user_are_in_use_and_it_is_listed)
{
	static const char line[] = "ibvcapd";
	char map[160];
	struct stat ring;

	put_segment("ibvcap-ring-of-user", &ring);
	put_daemon_of(4000000001, "423", line, sizeof(line));
	snprintf(map, sizeof(map),
	         "7f0000000000-7f0000002000 rw-s 00000000 %02x:%02x %lu    /memfd:ibvcap-ring (deleted)\n",
	         major(ring.st_dev), minor(ring.st_dev), (unsigned long)ring.st_ino);
	put("/proc/423/maps", map);
	put_open_segment("423", "ibvcap-ring-of-user");
	put_open_segment("704", "ibvcap-ring-of-user");
	cr_expect_eq(read_ended_bytes(), 4 << 20, "that of 700");
	cr_assert_not_null(find_holder(704));
	cr_expect_eq(find_holder(704)->ended_bytes, 0);
	cr_assert_not_null(find_holder(423));
	cr_expect_eq(find_holder(423)->ended_bytes, 0);
}

Test(machine, a_process_that_calls_itself_ibvcapd_hides_neither_itself_nor_others)
{
	static const char line[] = "ibvcapd";
	struct stat ring;

	put_segment("ibvcap-ring-of-user", &ring);
	put_daemon_of(4000000001, "423", line, sizeof(line));
	put("/proc/423/maps", "7f0000000000-7f0000200000 r--s 00000000 00:01 77    /memfd:ibvcap-payload (deleted)\n");
	put_open_segment("423", "ibvcap-ring-of-user");
	put_open_segment("704", "ibvcap-ring-of-user");
	read_ended_bytes();
	cr_assert_not_null(find_holder(423));
	cr_expect_str_eq(find_holder(423)->name, "ibvcapd");
	cr_expect_eq(find_holder(423)->ended_bytes, (2 << 20) + 8192);
	cr_expect_eq(find_holder(704)->ended_bytes, 8192);
}

static struct joined_group groups[8];
static unsigned int n_groups;

static void note_group(const struct joined_group *group, void *context)
{
	(void)context;
	groups[n_groups++] = *group;
}

Test(machine, groups_that_are_joined)
{
	struct in6_addr address;

	cr_assert(joined_groups_for_each(root, 421, note_group, NULL));
	cr_assert_eq(n_groups, 4);
	cr_expect_str_eq(groups[0].interface, "lo");
	cr_expect_str_eq(groups[1].interface, "eth7");
	inet_pton(AF_INET, "239.1.2.3", &address);
	cr_expect_arr_eq(groups[1].address, &address, 4);
	cr_expect_eq(groups[3].family, AF_INET6);
	inet_pton(AF_INET6, "ff05::102", &address);
	cr_expect_arr_eq(groups[3].address, &address, 16);
}

Test(machine, interfaces)
{
	const struct doctor_interface *interface = &facts.interfaces[0];

	cr_assert_eq(facts.n_interfaces, 1);
	cr_expect_eq(interface->rp_filter, 2);
	cr_expect(interface->is_virtual_function);
	cr_expect_eq(interface->igmp_version, 2);
}

Test(machine, hugepages_by_size_and_node)
{
	cr_assert_eq(facts.n_pools, 2);
	cr_assert_eq(facts.pools[0].page_kib, 2048);
	cr_assert_eq(facts.pools[0].node, 0);
	cr_assert_eq(facts.pools[0].total_pages, 16);
	cr_assert_eq(facts.pools[1].page_kib, 1048576);
	cr_assert_eq(facts.pools[1].node, 1);
	cr_assert_eq(facts.pools[1].free_pages, 1);
	cr_assert_eq(facts.memory_kib, 24576000);
}

Test(machine, cpus_as_they_are_awake_and_asleep)
{
	const struct doctor_cpus *cpus = &facts.cpus;

	cr_expect_eq(CPU_COUNT(&cpus->online), 8);
	cr_expect(CPU_COUNT(&cpus->isolated) == 2 && CPU_ISSET(5, &cpus->isolated) && CPU_ISSET(7, &cpus->isolated));
	cr_expect(CPU_COUNT(&cpus->nodes[1]) == 4 && CPU_ISSET(4, &cpus->nodes[1]));
	cr_expect(cpus->has_governor);
	cr_expect_str_eq(cpus->governor, "schedutil");
	cr_expect(CPU_COUNT(&cpus->governed) == 1 && CPU_ISSET(2, &cpus->governed));
	cr_expect(cpus->has_idle);
	cr_expect_str_eq(cpus->idle_state, "C6");
	cr_expect_eq(cpus->idle_exit_us, 90);
	cr_expect(cpus->has_latency_limit);
	cr_expect_eq(cpus->latency_limit_us, 20);
}

Test(machine, the_daemons_powers_count_where_it_runs)
{
	cr_expect_eq(facts.process.kind, DOCTOR_DAEMON);
	cr_expect_eq(facts.process.pid, 421);
	cr_expect_not(facts.process.has_config);
	cr_expect_eq(facts.process.effective_capabilities, 0x6000);
	cr_expect_eq(facts.process.memlock_bytes, 8388608);
}

Test(machine, a_daemon_has_the_configuration_that_its_command_line_names)
{
	static const char short_line[] = "ibvcapd\0-c\0/etc/y.conf", long_line[] = "ibvcapd\0--config=/etc/z.conf",
			  no_line[] = "ibvcapd";
	static const char *const files[] = {"/etc/x.conf", "/etc/y.conf", "/etc/z.conf", "/etc/ibvcapd.conf"};

	put_daemon("300", short_line, sizeof(short_line));
	put_daemon("700", long_line, sizeof(long_line));
	put_daemon("800", no_line, sizeof(no_line));
	for (unsigned int i = 0; i < 4; i++) {
		for (unsigned int j = 0; j < 4; j++) {
			memset(&facts, 0, sizeof(facts));
			facts.config_file = files[i];
			facts.process.kind = DOCTOR_DAEMON;
			facts.process.pid = ((pid_t[]){421, 300, 700, 800})[j];
			doctor_read(root, &facts);
			cr_expect_eq(facts.process.has_config, i == j);
		}
	}
}

/* ---- which process is the daemon --------------------------------------------------------------------- */

/* A process of that user, called so, listens at the path; it ends with this one. */
static pid_t listen_as(const char *path, uid_t uid, const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t pid, parent = getpid();
	int ready[2];
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

		snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
		unlink(path);
		if (prctl(PR_SET_NAME, name) < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		    (uid != geteuid() && setresuid(uid, uid, uid) < 0) || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
		    getppid() != parent || listen(fd, 8) < 0 || write(ready[1], "", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1, "it does not listen");
	close(ready[0]);
	return pid;
}

static void find_daemon_at(const char *path)
{
	struct config config = {0};

	snprintf(config.socket_path, sizeof(config.socket_path), "%s", path);
	memset(&facts, 0, sizeof(facts));
	facts.config = &config;
	doctor_find_daemon(&facts);
	facts.config = NULL;
}

Test(machine, the_daemon_is_the_process_that_listens_at_the_control_socket)
{
	char path[512];
	pid_t pid;

	make_parents("/control.sock", path);
	find_daemon_at(path);
	cr_expect_eq(facts.control.error, ENOENT);
	cr_expect_eq(facts.process.kind, DOCTOR_SELF, "whichever process is called ibvcapd");
	pid = listen_as(path, geteuid(), "ibvcapd");
	find_daemon_at(path);
	cr_expect_eq(facts.process.kind, DOCTOR_DAEMON);
	cr_expect_eq(facts.process.pid, pid);
	cr_expect_lt(facts.network, DOCTOR_NETWORK_ENTERED);
	pid = listen_as(path, geteuid(), "systemd");
	find_daemon_at(path);
	cr_expect_eq(facts.control.pid, pid);
	cr_expect_eq(facts.process.kind, DOCTOR_SELF, "the socket unit's");
}

/* systemd has a copy of the daemon's listening socket, and connections to it succeed when the daemon has ended. */
Test(machine, the_socket_of_a_daemon_that_has_ended_is_no_daemon)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[512];
	pid_t pid;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	make_parents("/control.sock", path);
	cr_assert_lt(strlen(path), sizeof(address.sun_path));
	strcpy(address.sun_path, path);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	pid = fork();
	if (pid == 0)
		_exit(listen(fd, 8) < 0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	find_daemon_at(path);
	cr_expect_eq(facts.control.error, ESRCH);
	cr_expect_eq(facts.control.pid, 0);
	cr_expect_eq(facts.process.kind, DOCTOR_SELF);
	close(fd);
}

Test(machine, a_process_of_any_user_that_listens_where_anybody_can_is_no_daemon)
{
	char path[512], directory[512];
	pid_t pid;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	make_parents("/control.sock", path);
	pid = listen_as(path, 4000000001, "ibvcapd");
	find_daemon_at(path);
	cr_expect_eq(facts.control.pid, pid);
	cr_expect_eq(facts.control.uid, 4000000001);
	cr_expect_eq(facts.process.kind, DOCTOR_DAEMON, "only root could make the socket there");
	strcpy(directory, path);
	cr_assert_eq(chmod(dirname(directory), 01777), 0);
	find_daemon_at(path);
	cr_expect_eq(facts.process.kind, DOCTOR_SELF);
}

/* ---- limits ------------------------------------------------------------------------------------------ */

Test(machine, the_strictest_limit_on_the_way_up_counts)
{
	const struct doctor_limits *limits = &facts.limits;

	cr_expect_str_eq(limits->container, "systemd-nspawn");
	cr_expect_str_eq(limits->cgroup, "/system.slice/ibvcapd.service");
	cr_expect_eq(limits->at[DOCTOR_PROCESSES], 64);
	cr_expect_eq(limits->at[DOCTOR_MEMORY], 1 << 30);
	cr_expect_eq(limits->at[DOCTOR_HUGE_2M], 4 << 20);
	cr_expect_eq(limits->at[DOCTOR_HUGE_1G], UINT64_MAX);
}

Test(machine, what_the_kernel_has_for_xdp)
{
}

Test(no_machine, an_empty_one_reads_as_nothing)
{
	doctor_read("/nonexistent", &facts);
	cr_assert_eq(facts.n_devices + facts.n_pools + facts.n_interfaces, 0);
	cr_assert_not(facts.mellanox_pci || facts.cpus.has_governor || facts.cpus.has_idle);
	cr_assert_eq(facts.process.kind, DOCTOR_SELF);
	cr_assert_eq(facts.process.pid, getpid());
	cr_assert_eq(facts.limits.at[DOCTOR_MEMORY], UINT64_MAX);
}

Test(no_machine, a_service_that_does_not_run_will_not_be_in_the_cgroup_of_who_asks)
{
	cr_assert_not_null(mkdtemp(root));
	put("/proc/self/cgroup", "0::/user.slice\n");
	put("/sys/fs/cgroup/user.slice/pids.max", "3\n");
	put("/sys/fs/cgroup/system.slice/pids.max", "7\n");
	doctor_read(root, &facts);
	cr_expect_eq(facts.limits.at[DOCTOR_PROCESSES], 3);
	facts.process.kind = DOCTOR_SERVICE;
	doctor_read(root, &facts);
	cr_expect_eq(facts.limits.at[DOCTOR_PROCESSES], 7);
	remove_tree();
}

/* A capability list whose links form a loop must not keep the doctor. */
Test(no_machine, a_pci_device_that_lies_ends_the_search)
{
	uint8_t config[256] = {[0x34] = 0x40, [0x40] = 0x05, [0x41] = 0x40};

	cr_assert_not_null(mkdtemp(root));
	put_device();
	put_link("/sys/class/infiniband/mlx5_3/device", "../../../bus/pci/devices/0000:3b:00.0");
	put_bytes("/sys/bus/pci/devices/0000:3b:00.0/config", config, sizeof(config));
	doctor_read(root, &facts);
	cr_expect_eq(facts.devices[0].pci.read_request_bytes, 0);
	cr_expect_eq(facts.devices[0].pci.node, -1);
	remove_tree();
}

/* ---- what the kernel answers ------------------------------------------------------------------------- */

Test(kernel, is_asked_for_what_files_do_not_say)
{
	facts.n_interfaces = 2;
	strcpy(facts.interfaces[0].name, "lo");
	strcpy(facts.interfaces[1].name, "no-such-netdev");
	doctor_ask(&facts);
	/* The kernel says so of lo, and it cannot be switched off. */
	cr_expect(facts.interfaces[0].loopback);
	cr_expect(facts.interfaces[0].exists && facts.interfaces[0].mtu >= 1500);
	cr_expect_not(facts.interfaces[1].exists);
	cr_expect_not(facts.interfaces[1].loopback || facts.interfaces[1].has_pause);
	cr_expect(facts.clock.is_known);
}

/* ---- the probe: see also tests/system ---------------------------------------------------------------- */

Test(probe, what_the_backend_says_is_kept)
{
	struct doctor_device *device = &facts.devices[0];

	facts.n_devices = 1;
	device->n_ports = 1;
	strcpy(device->ports[0].link_layer, "Ethernet");
	strcpy(device->ports[0].netdev, "no-such-netdev");
	doctor_probe_queues(&facts);
	if (geteuid() != 0) {
		cr_expect_eq(device->probe.result, DOCTOR_PROBE_DENIED);
		return;
	}
	cr_expect_eq(device->probe.result, DOCTOR_PROBE_FAILED);
	cr_expect_not_null(strstr(device->probe.reason, "no-such-netdev"), "%s", device->probe.reason);
}

Test(probe, a_device_that_somebody_has_open_or_that_cannot_be_is_left_alone)
{
	facts.n_devices = 2;
	facts.devices[0].n_users = 1;
	facts.devices[1].open_error = EACCES;
	for (unsigned int i = 0; i < 2; i++) {
		facts.devices[i].n_ports = 1;
		strcpy(facts.devices[i].ports[0].link_layer, "Ethernet");
		strcpy(facts.devices[i].ports[0].netdev, "no-such-netdev");
	}
	doctor_probe_queues(&facts);
	cr_expect_eq(facts.devices[0].probe.result, DOCTOR_PROBE_IN_USE);
	cr_expect_eq(facts.devices[1].probe.result, DOCTOR_NOT_PROBED);
}

/* ---- the keeper of the clock ----------------------------------------------------------------------- */

Test(keeper, chrony_says_how_far_the_clock_is_behind)
{
	char followed[] = "C0A80001,192.168.0.1,3,1795973852.72,0.000012500,0.1,0.2,0.142,0.018,0.611,0.000020000,"
			  "0.000030000,64.2,Normal\n";
	char lost[] = "00000000,,0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,1.0,0.0,Not synchronised\n";
	char other[] = "506 Cannot talk to daemon\n";
	struct doctor_keeper keeper = {0};

	cr_assert(parse_chrony(followed, &keeper));
	cr_expect_str_eq(keeper.program, "chrony");
	cr_expect_str_eq(keeper.reference, "192.168.0.1");
	cr_expect(keeper.has_reference && keeper.stratum == 3);
	cr_expect_eq(keeper.ahead_ns, -12500);
	cr_expect_eq(keeper.bound_ns, 12500 + 30000 + 10000, "%llu", (unsigned long long)keeper.bound_ns);
	cr_assert(parse_chrony(lost, &keeper));
	cr_expect(!keeper.has_reference);
	cr_expect(!parse_chrony(other, &keeper));
}

Test(keeper, what_is_no_number_of_nanoseconds_is_no_answer)
{
	static const char *const behind[] = {"nan", "inf", "1e300", "-1e12"};
	struct doctor_keeper keeper = {0};
	char line[128];

	for (size_t i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
		snprintf(line, sizeof(line), "C0,10.0.0.1,3,1.0,%s,0,0,0,0,0,0.1,0.1,64,Normal\n", behind[i]);
		cr_expect(!parse_chrony(line, &keeper), "%s", behind[i]);
	}
	cr_expect(!keeper.program);
	cr_assert(parse_timesync("Server: a\nStratum: 2\nRoot distance: 1ms\nOffset: -1month 2d 1s\n", &keeper));
	cr_expect_eq(keeper.ahead_ns, (2629800 + 2 * 86400 + 1) * INT64_C(1000000000));
}

Test(keeper, timesyncd_says_it_in_its_own_units)
{
	static const char followed[] = "       Server: 10.0.0.7 (ntp.example)\nPoll interval: 34min 8s (min: 32s)\n"
				       "      Stratum: 2\nRoot distance: 21.5ms (max: 5s)\n       Offset: +1min 2.5s\n";
	struct doctor_keeper keeper = {0};

	cr_assert(parse_timesync(followed, &keeper));
	cr_expect_str_eq(keeper.reference, "10.0.0.7 (ntp.example)");
	cr_expect(keeper.has_reference && keeper.stratum == 2);
	cr_expect_eq(keeper.ahead_ns, -62500000000);
	cr_expect_eq(keeper.bound_ns, 62521500000);
	cr_assert(parse_timesync("       Server: n/a (ntp.example)\n Packet count: 0\n", &keeper));
	cr_expect(!keeper.has_reference);
	cr_assert(parse_timesync("Server: x\nRoot distance: 9us\nOffset: -7us\n", &keeper));
	cr_expect_eq(keeper.ahead_ns, 7000);
	cr_expect_eq(keeper.bound_ns, 16000);
	cr_expect(!parse_timesync("Failed to query server\n", &keeper));
}

/* ---- the output of systemctl ----------------------------------------------------------------------- */

Test(service, as_a_user_it_has_what_is_ambient_within_its_bounds)
{
	struct doctor_process process = {.effective_capabilities = 1, .memlock_bytes = 1};

	parse_service("LoadState=loaded\nUser=ibvcap\nLimitMEMLOCK=infinity\n"
	              "CapabilityBoundingSet=cap_net_raw cap_ipc_lock\nAmbientCapabilities=cap_net_raw cap_sys_nice\n",
	              &process);
	cr_expect_eq(process.kind, DOCTOR_SERVICE);
	cr_expect_eq(process.effective_capabilities, 0x2000);
	cr_expect_eq(process.memlock_bytes, UINT64_MAX);
}

Test(service, as_root_it_has_all_within_its_bounds)
{
	struct doctor_process process = {0};

	parse_service("LimitMEMLOCK=65536\nCapabilityBoundingSet=cap_net_raw cap_ipc_lock\nUser=\nLoadState=loaded\n",
	              &process);
	cr_expect_eq(process.effective_capabilities, 0x6000);
	cr_expect_eq(process.memlock_bytes, 65536);
}

Test(service, what_is_not_installed_or_runs_already_is_not_asked_about)
{
	struct doctor_process process = {.memlock_bytes = 7};

	parse_service("LoadState=not-found\nLimitMEMLOCK=infinity\n", &process);
	parse_service("", &process);
	cr_expect_eq(process.kind, DOCTOR_SELF);
	process.kind = DOCTOR_DAEMON;
	parse_service("LoadState=loaded\nLimitMEMLOCK=infinity\n", &process);
	cr_expect_eq(process.memlock_bytes, 7);
}

/* ---- drivers -------------------------------------------------------------------------------------- */

static int clock_of_driver = -1; /* -1: the kernel answers */

/* In place of the C library's: a driver says which precision clock it has. */
static int answer_ioctl(int fd, unsigned long request, struct ifreq *argument)
{
	struct ethtool_ts_info *info = asked_ts_info(request, argument);

	if (!info || clock_of_driver < 0)
		return real_ioctl(fd, request, argument);
	info->phc_index = clock_of_driver;
	return 0;
}

Test(machine, the_driver_says_which_precision_clock_it_has)
{
	struct doctor_interface interface = {.name = "eth7"};

	ask_interface(&interface);
	cr_expect_str_empty(interface.ptp);
	clock_of_driver = 912;
	ask_interface(&interface);
	cr_expect_str_eq(interface.ptp, "ptp912");
}
