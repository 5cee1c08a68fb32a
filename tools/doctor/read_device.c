// SPDX-License-Identifier: Apache-2.0
/* RDMA devices: their ports and network interfaces, their place on the PCI bus, and the processes that use them. */
#include "tools/doctor/read.h"

#include "tools/doctor/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* PCI Express Base Specification, 7.5: the list of capabilities, and Max_Read_Request_Size in Device Control. */
#define PCI_FIRST_CAPABILITY 0x34
#define PCI_EXPRESS          0x10
#define PCI_EXPRESS_CONTROL  8

struct device_context {
	const char *root;
	struct doctor_facts *facts;
};

/* ---- ports ----------------------------------------------------------------------------------------- */

static void read_gid(const char *directory, const char *name, void *context)
{
	static const char zero[] = "0000:0000:0000:0000:0000:0000:0000:0000";
	struct doctor_port *port = context;
	struct doctor_gid *gid = &port->gids[port->n_gids];

	if (port->n_gids == DOCTOR_GIDS_MAX)
		return;
	files_read_line(gid->gid, sizeof(gid->gid), "%s/%s", directory, name);
	if (!*gid->gid || strcmp(gid->gid, zero) == 0)
		return;
	gid->index = (unsigned int)strtoul(name, NULL, 10);
	files_read_line(gid->type, sizeof(gid->type), "%s/../gid_attrs/types/%s", directory, name);
	files_read_line(gid->netdev, sizeof(gid->netdev), "%s/../gid_attrs/ndevs/%s", directory, name);
	port->n_gids++;
}

static int compare_gids(const void *a, const void *b)
{
	const struct doctor_gid *left = a, *right = b;

	return (left->index > right->index) - (left->index < right->index);
}

static void keep_first_name(const char *directory, const char *name, void *context)
{
	char *first = context;

	(void)directory;
	if (!*first || strcmp(name, first) < 0)
		files_copy_name(first, IFNAMSIZ, name);
}

struct port_context {
	const char *root;
	struct doctor_device *device;
};

static void read_port(const char *directory, const char *name, void *context)
{
	struct port_context *at = context;
	struct doctor_port *port = &at->device->ports[at->device->n_ports];
	char path[PATH_MAX];

	if (at->device->n_ports == DOCTOR_PORTS_MAX)
		return;
	at->device->n_ports++;
	port->number = (unsigned int)strtoul(name, NULL, 10);
	files_read_line(port->state, sizeof(port->state), "%s/%s/state", directory, name);
	files_read_line(port->link_layer, sizeof(port->link_layer), "%s/%s/link_layer", directory, name);
	files_read_line(port->rate, sizeof(port->rate), "%s/%s/rate", directory, name);
	files_join(path, "%s/%s/gids", directory, name);
	files_for_each(path, read_gid, port);
	qsort(port->gids, port->n_gids, sizeof(port->gids[0]), compare_gids);
	/* A GID names its network interface. A port without GIDs, whose interface was never up, is found by its PCI device. */
	for (unsigned int i = 0; i < port->n_gids && !*port->netdev; i++)
		memcpy(port->netdev, port->gids[i].netdev, sizeof(port->netdev));
	files_join(path, "%s/sys/class/infiniband/%s/device/net", at->root, at->device->name);
	if (!*port->netdev)
		files_for_each(path, keep_first_name, port->netdev);
}

/* ---- PCI ------------------------------------------------------------------------------------------- */

/* Only root can read more than the first 64 bytes, and the capability lies behind them. */
static unsigned int read_pcie_request_bytes(const char *pci)
{
	uint8_t config[256] = {0};
	char path[PATH_MAX];
	ssize_t n = 0;
	int fd;

	files_join(path, "%s/config", pci);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, config, sizeof(config));
		close(fd);
	}
	if (n < (ssize_t)sizeof(config))
		return 0;
	/* A damaged list can form a loop, so its length is bounded. */
	for (unsigned int at = config[PCI_FIRST_CAPABILITY], i = 0; at && at < sizeof(config) - 9 && i < 64;
	     at = config[at + 1], i++)
		if (config[at] == PCI_EXPRESS)
			return 128u << (config[at + PCI_EXPRESS_CONTROL + 1] >> 4 & 7);
	return 0;
}

struct irq_context {
	const char *root;
	struct doctor_pci *pci;
};

static void read_irq(const char *directory, const char *name, void *context)
{
	struct irq_context *at = context;
	cpu_set_t cpus;

	(void)directory;
	files_read_cpus(&cpus, "%s/proc/irq/%s/effective_affinity_list", at->root, name);
	if (CPU_COUNT(&cpus) == 0)
		files_read_cpus(&cpus, "%s/proc/irq/%s/smp_affinity_list", at->root, name);
	CPU_OR(&at->pci->irq_cpus, &at->pci->irq_cpus, &cpus);
	at->pci->n_irqs++;
}

static void read_pci(const char *root, const char *device, struct doctor_pci *pci)
{
	struct irq_context irqs = {root, pci};
	char directory[PATH_MAX], path[PATH_MAX], line[DOCTOR_NAME_BYTES];

	files_join(directory, "%s/sys/class/infiniband/%s/device", root, device);
	files_read_link_name(directory, pci->address, sizeof(pci->address));
	files_read_line(line, sizeof(line), "%s/numa_node", directory);
	pci->node = *line ? (int)strtol(line, NULL, 10) : -1;
	pci->width = (unsigned int)files_read_number(directory, "current_link_width");
	pci->width_max = (unsigned int)files_read_number(directory, "max_link_width");
	files_read_line(pci->speed, sizeof(pci->speed), "%s/current_link_speed", directory);
	files_read_line(pci->speed_max, sizeof(pci->speed_max), "%s/max_link_speed", directory);
	pci->read_request_bytes = read_pcie_request_bytes(directory);
	files_read_line(pci->iommu, sizeof(pci->iommu), "%s/iommu_group/type", directory);
	files_join(path, "%s/msi_irqs", directory);
	files_for_each(path, read_irq, &irqs);
}

/* ---- devices --------------------------------------------------------------------------------------- */

static void find_uverbs(const char *directory, const char *name, void *context)
{
	struct doctor_device *device = context;
	char ibdev[DOCTOR_NAME_BYTES], number[DOCTOR_NAME_BYTES];
	unsigned int major_number, minor_number;

	files_read_line(ibdev, sizeof(ibdev), "%s/%s/ibdev", directory, name);
	if (strcmp(ibdev, device->name) != 0)
		return;
	files_copy_name(device->uverbs, sizeof(device->uverbs), name);
	files_read_line(number, sizeof(number), "%s/%s/dev", directory, name);
	if (sscanf(number, "%u:%u", &major_number, &minor_number) == 2)
		device->number = makedev(major_number, minor_number);
}

static void read_device(const char *directory, const char *name, void *context)
{
	struct device_context *at = context;
	struct doctor_device *device = &at->facts->devices[at->facts->n_devices];
	struct port_context ports = {at->root, device};
	char path[PATH_MAX];
	int fd;

	if (at->facts->n_devices == DOCTOR_DEVICES_MAX)
		return;
	at->facts->n_devices++;
	files_copy_name(device->name, sizeof(device->name), name);
	files_join(path, "%s/sys/class/infiniband_verbs", at->root);
	files_for_each(path, find_uverbs, device);
	/* Opening the node alone makes no verbs context, so it disturbs no program: see doctor_probe_queues(). */
	files_join(path, "%s/dev/infiniband/%s", at->root, device->uverbs);
	fd = *device->uverbs ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0)
		close(fd);
	else
		device->open_error = *device->uverbs ? errno : ENOENT;
	files_join(path, "%s/%s/ports", directory, name);
	files_for_each(path, read_port, &ports);
	read_pci(at->root, device->name, &device->pci);
}

static int compare_devices(const void *a, const void *b)
{
	return strcmp(((const struct doctor_device *)a)->name, ((const struct doctor_device *)b)->name);
}

/* ---- processes that have devices open -------------------------------------------------------------- */

static void add_device_user(struct doctor_device *device, const char *process)
{
	struct doctor_user *user = &device->users[device->n_users];
	pid_t pid = (pid_t)strtol(strrchr(process, '/') + 1, NULL, 10);

	if (device->n_users == DOCTOR_USERS_MAX || (device->n_users && user[-1].pid == pid))
		return;
	device->n_users++;
	user->pid = pid;
	files_read_line(user->name, sizeof(user->name), "%s/comm", process);
}

/* Devices are compared by number, because any file can have the same name. */
static void read_open_file(const char *directory, const char *name, void *context)
{
	struct doctor_facts *facts = context;
	char path[PATH_MAX], process[PATH_MAX];
	struct statx status;
	dev_t number;

	files_join(path, "%s/%s", directory, name);
	/* Without DONT_SYNC a file system in user space could keep the doctor waiting. */
	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC, STATX_TYPE, &status) < 0 || !S_ISCHR(status.stx_mode))
		return;
	number = makedev(status.stx_rdev_major, status.stx_rdev_minor);
	files_copy_name(process, sizeof(process), directory);
	*strrchr(process, '/') = '\0';
	for (unsigned int i = 0; i < facts->n_devices; i++)
		if (facts->devices[i].number == number && *facts->devices[i].uverbs)
			add_device_user(&facts->devices[i], process);
}

static void read_open_files(const char *directory, const char *name, void *context)
{
	char path[PATH_MAX];

	if (name[strspn(name, "0123456789")])
		return;
	files_join(path, "%s/%s/fd", directory, name);
	files_for_each(path, read_open_file, context);
}

void read_devices(const char *root, struct doctor_facts *facts)
{
	struct device_context devices = {root, facts};
	char path[PATH_MAX];

	files_join(path, "%s/sys/class/infiniband", root);
	files_for_each(path, read_device, &devices);
	qsort(facts->devices, facts->n_devices, sizeof(facts->devices[0]), compare_devices);
	files_join(path, "%s/proc", root);
	if (facts->n_devices)
		files_for_each(path, read_open_files, facts);
}
