// SPDX-License-Identifier: Apache-2.0
/* RDMA devices: their ports and network interfaces, their place on the PCI bus, and the processes that use them. */
#include "tools/doctor/read.h"

#include "lib/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * PCI Express Base Specification, 7.5: the list of capabilities, and in Device Control Enable_Relaxed_Ordering and
 * Max_Read_Request_Size.
 */
#define PCI_FIRST_CAPABILITY 0x34
#define PCI_EXPRESS          0x10
#define PCI_EXPRESS_CONTROL  8
#define PCI_RELAXED_ORDERING (1 << 4)

/* ---- ports ----------------------------------------------------------------------------------------- */

/* A GID names its network interface. A port without GIDs, whose interface was never up, is found by its PCI device. */
static void find_port_netdev(const char *device, const char *directory, struct doctor_port *port)
{
	struct files_list list;

	files_list(&list, "%s/gid_attrs/ndevs", directory);
	while (files_next(&list))
		if (!*port->netdev) /* an unused GID cannot be read */
			files_read_line(port->netdev, sizeof(port->netdev), "%s", list.path);
	files_list(&list, "%s/device/net", device);
	while (files_next(&list))
		if (!*port->netdev)
			files_copy_name(port->netdev, IFNAMSIZ, list.name);
}

static void read_port(const char *device, const struct files_list *at, struct doctor_port *port)
{
	port->number = (unsigned int)strtoul(at->name, NULL, 10);
	files_read_line(port->state, sizeof(port->state), "%s/state", at->path);
	files_read_line(port->link_layer, sizeof(port->link_layer), "%s/link_layer", at->path);
	files_read_line(port->rate, sizeof(port->rate), "%s/rate", at->path);
	find_port_netdev(device, at->path, port);
}

/* ---- PCI ------------------------------------------------------------------------------------------- */

/* Only root can read more than the first 64 bytes, and the capability lies behind them. */
static void read_pcie_control(const char *directory, struct doctor_pci *pci)
{
	uint8_t config[256] = {0};
	char path[PATH_MAX];
	ssize_t n = 0;
	int fd;

	files_join(path, "%s/config", directory);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, config, sizeof(config));
		close(fd);
	}
	if (n < (ssize_t)sizeof(config))
		return;
	/* A damaged list can form a loop, so its length is bounded. */
	for (unsigned int at = config[PCI_FIRST_CAPABILITY], i = 0; at && at < sizeof(config) - 9 && i < 64;
	     at = config[at + 1], i++) {
		if (config[at] != PCI_EXPRESS)
			continue;
		pci->read_request_bytes = 128u << (config[at + PCI_EXPRESS_CONTROL + 1] >> 4 & 7);
		pci->has_ordering = !files_exist("%s/physfn", directory); /* of a virtual function the bit is 0 */
		pci->relaxed_ordering = config[at + PCI_EXPRESS_CONTROL] & PCI_RELAXED_ORDERING;
		return;
	}
}

static void read_pci(const char *root, const char *device, struct doctor_pci *pci)
{
	char directory[PATH_MAX], line[DOCTOR_NAME_BYTES];
	struct files_list irqs;
	cpu_set_t cpus;

	files_join(directory, "%s/sys/class/infiniband/%s/device", root, device);
	files_read_link_name(directory, pci->address, sizeof(pci->address));
	files_read_line(line, sizeof(line), "%s/numa_node", directory);
	pci->node = *line ? (int)strtol(line, NULL, 10) : -1;
	pci->width = (unsigned int)files_read_number(directory, "current_link_width");
	pci->width_max = (unsigned int)files_read_number(directory, "max_link_width");
	files_read_line(pci->speed, sizeof(pci->speed), "%s/current_link_speed", directory);
	files_read_line(pci->speed_max, sizeof(pci->speed_max), "%s/max_link_speed", directory);
	read_pcie_control(directory, pci);
	files_read_line(pci->iommu, sizeof(pci->iommu), "%s/iommu_group/type", directory);
	files_list(&irqs, "%s/msi_irqs", directory);
	while (files_next(&irqs)) {
		files_read_cpus(&cpus, "%s/proc/irq/%s/effective_affinity_list", root, irqs.name);
		if (CPU_COUNT(&cpus) == 0)
			files_read_cpus(&cpus, "%s/proc/irq/%s/smp_affinity_list", root, irqs.name);
		CPU_OR(&pci->irq_cpus, &pci->irq_cpus, &cpus);
		pci->n_irqs++;
	}
}

/* ---- devices --------------------------------------------------------------------------------------- */

static void find_uverbs(const char *root, struct doctor_device *device)
{
	char ibdev[DOCTOR_NAME_BYTES], number[DOCTOR_NAME_BYTES];
	unsigned int major_number, minor_number;
	struct files_list list;

	files_list(&list, "%s/sys/class/infiniband_verbs", root);
	while (files_next(&list)) {
		files_read_line(ibdev, sizeof(ibdev), "%s/ibdev", list.path);
		if (strcmp(ibdev, device->name) != 0)
			continue;
		files_copy_name(device->uverbs, sizeof(device->uverbs), list.name);
		files_read_line(number, sizeof(number), "%s/dev", list.path);
		if (sscanf(number, "%u:%u", &major_number, &minor_number) == 2)
			device->number = makedev(major_number, minor_number);
	}
}

static void read_device(const char *root, const struct files_list *at, struct doctor_device *device)
{
	struct files_list ports;
	char path[PATH_MAX];
	int fd;

	files_copy_name(device->name, sizeof(device->name), at->name);
	find_uverbs(root, device);
	/* Opening the node alone makes no verbs context, so it disturbs no program: see doctor_probe_queues(). */
	files_join(path, "%s/dev/infiniband/%s", root, device->uverbs);
	fd = *device->uverbs ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0)
		close(fd);
	else
		device->open_error = *device->uverbs ? errno : ENOENT;
	files_list(&ports, "%s/ports", at->path);
	while (files_next(&ports))
		if (device->n_ports < DOCTOR_PORTS_MAX)
			read_port(at->path, &ports, &device->ports[device->n_ports++]);
	read_pci(root, device->name, &device->pci);
}

/* ---- processes that have devices open -------------------------------------------------------------- */

static void add_device_user(struct doctor_device *device, const struct files_list *process)
{
	struct doctor_user *user = &device->users[device->n_users];
	pid_t pid = (pid_t)strtol(process->name, NULL, 10);

	if (device->n_users == DOCTOR_USERS_MAX || (device->n_users && user[-1].pid == pid))
		return;
	device->n_users++;
	user->pid = pid;
	files_read_line(user->name, sizeof(user->name), "%s/comm", process->path);
}

/* Devices are compared by number, because any file can have the same name. */
static void read_open_files(const struct files_list *process, struct doctor_facts *facts)
{
	struct files_list files;
	struct statx status;

	files_list(&files, "%s/fd", process->path);
	while (files_next(&files)) {
		/* Without DONT_SYNC a file system in user space could keep the doctor waiting. */
		if (statx(AT_FDCWD, files.path, AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0 ||
		    !S_ISCHR(status.stx_mode))
			continue;
		for (unsigned int i = 0; i < facts->n_devices; i++)
			if (facts->devices[i].number == makedev(status.stx_rdev_major, status.stx_rdev_minor) &&
			    *facts->devices[i].uverbs)
				add_device_user(&facts->devices[i], process);
	}
}

void read_devices(const char *root, struct doctor_facts *facts)
{
	struct files_list list;

	files_list(&list, "%s/sys/class/infiniband", root);
	while (files_next(&list))
		if (facts->n_devices < DOCTOR_DEVICES_MAX)
			read_device(root, &list, &facts->devices[facts->n_devices++]);
	if (!facts->n_devices)
		return;
	files_list(&list, "%s/proc", root);
	while (files_next(&list))
		if (!list.name[strspn(list.name, "0123456789")])
			read_open_files(&list, facts);
}
