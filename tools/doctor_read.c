// SPDX-License-Identifier: Apache-2.0
#include "tools/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VENDOR_MELLANOX "0x15b3"

typedef void (*entry_fn)(const char *directory, const char *name, void *context);

__attribute__((format(printf, 2, 3))) static void join(char path[PATH_MAX], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path, PATH_MAX, format, arguments);
	va_end(arguments);
}

/* The kernel bounds its names as the facts do; a longer one would be cut. */
static void copy_name(char *to, size_t bytes, const char *name)
{
	size_t n = strnlen(name, bytes - 1);

	memcpy(to, name, n);
	to[n] = '\0';
}

/* The first line of a file of sysfs or /proc, "" if there is none. */
__attribute__((format(printf, 3, 4))) static void read_line(char *line, size_t bytes, const char *format, ...)
{
	char path[PATH_MAX];
	va_list arguments;
	ssize_t n = 0;
	int fd;

	va_start(arguments, format);
	vsnprintf(path, sizeof(path), format, arguments);
	va_end(arguments);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, line, bytes - 1);
		close(fd);
	}
	line[n > 0 ? n : 0] = '\0';
	line[strcspn(line, "\n")] = '\0';
}

static void for_each_entry(const char *directory, entry_fn visit, void *context)
{
	DIR *open_directory = opendir(directory);
	struct dirent *entry;

	if (!open_directory)
		return;
	while ((entry = readdir(open_directory)))
		if (entry->d_name[0] != '.')
			visit(directory, entry->d_name, context);
	closedir(open_directory);
}

static uint64_t read_number(const char *directory, const char *name)
{
	char line[DOCTOR_NAME_BYTES];

	read_line(line, sizeof(line), "%s/%s", directory, name);
	return strtoull(line, NULL, 0);
}

static void read_pool(const char *directory, const char *name, void *context)
{
	struct doctor_facts *facts = context;
	struct doctor_pool *pool = &facts->pools[facts->n_pools];
	const char *node = strstr(directory, "/node/node");
	char path[PATH_MAX];

	if (facts->n_pools == DOCTOR_POOLS_MAX || !node ||
	    sscanf(name, "hugepages-%" SCNu64 "kB", &pool->page_kib) != 1)
		return;
	join(path, "%s/%s", directory, name);
	pool->node = (unsigned int)strtoul(node + strlen("/node/node"), NULL, 10);
	pool->total_pages = read_number(path, "nr_hugepages");
	pool->free_pages = read_number(path, "free_hugepages");
	facts->n_pools++;
}

static void read_node(const char *directory, const char *name, void *context)
{
	char path[PATH_MAX];

	if (strncmp(name, "node", 4) != 0)
		return;
	join(path, "%s/%s/hugepages", directory, name);
	for_each_entry(path, read_pool, context);
}

static void read_gid(const char *directory, const char *name, void *context)
{
	static const char zero[] = "0000:0000:0000:0000:0000:0000:0000:0000";
	struct doctor_port *port = context;
	struct doctor_gid *gid = &port->gids[port->n_gids];

	if (port->n_gids == DOCTOR_GIDS_MAX)
		return;
	read_line(gid->gid, sizeof(gid->gid), "%s/%s", directory, name);
	if (!*gid->gid || strcmp(gid->gid, zero) == 0)
		return;
	gid->index = (unsigned int)strtoul(name, NULL, 10);
	read_line(gid->type, sizeof(gid->type), "%s/../gid_attrs/types/%s", directory, name);
	read_line(gid->netdev, sizeof(gid->netdev), "%s/../gid_attrs/ndevs/%s", directory, name);
	port->n_gids++;
}

static int compare_gids(const void *a, const void *b)
{
	const struct doctor_gid *left = a, *right = b;

	return (left->index > right->index) - (left->index < right->index);
}

static void take_first_name(const char *directory, const char *name, void *context)
{
	char *first = context;

	(void)directory;
	if (!*first || strcmp(name, first) < 0)
		copy_name(first, IFNAMSIZ, name);
}

/* A GID names its network interface; a port without GIDs (interface down since boot) is found by the PCI device. */
static void read_netdev(const char *root, const char *device, struct doctor_port *port)
{
	char path[PATH_MAX], line[DOCTOR_NAME_BYTES];

	for (unsigned int i = 0; i < port->n_gids && !*port->netdev; i++)
		memcpy(port->netdev, port->gids[i].netdev, sizeof(port->netdev));
	join(path, "%s/sys/class/infiniband/%s/device/net", root, device);
	if (!*port->netdev)
		for_each_entry(path, take_first_name, port->netdev);
	if (!*port->netdev)
		return;
	join(path, "%s/sys/class/net/%s", root, port->netdev);
	port->netdev_up = read_number(path, "flags") & IFF_UP;
	port->netdev_running = port->netdev_up && read_number(path, "carrier") == 1;
	read_line(line, sizeof(line), "%s/mtu", path);
	port->mtu = (unsigned int)strtoul(line, NULL, 10);
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
	read_line(port->state, sizeof(port->state), "%s/%s/state", directory, name);
	read_line(port->link_layer, sizeof(port->link_layer), "%s/%s/link_layer", directory, name);
	read_line(port->rate, sizeof(port->rate), "%s/%s/rate", directory, name);
	join(path, "%s/%s/gids", directory, name);
	for_each_entry(path, read_gid, port);
	qsort(port->gids, port->n_gids, sizeof(port->gids[0]), compare_gids);
	read_netdev(at->root, at->device->name, port);
}

struct device_context {
	const char *root;
	struct doctor_facts *facts;
};

static void find_uverbs(const char *directory, const char *name, void *context)
{
	struct doctor_device *device = context;
	char ibdev[DOCTOR_NAME_BYTES];

	read_line(ibdev, sizeof(ibdev), "%s/%s/ibdev", directory, name);
	if (strcmp(ibdev, device->name) == 0)
		copy_name(device->uverbs, sizeof(device->uverbs), name);
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
	copy_name(device->name, sizeof(device->name), name);
	join(path, "%s/sys/class/infiniband_verbs", at->root);
	for_each_entry(path, find_uverbs, device);
	join(path, "%s/dev/infiniband/%s", at->root, device->uverbs);
	fd = *device->uverbs ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd >= 0)
		close(fd);
	else
		device->open_error = *device->uverbs ? errno : ENOENT;
	join(path, "%s/%s/ports", directory, name);
	for_each_entry(path, read_port, &ports);
}

static int compare_devices(const void *a, const void *b)
{
	return strcmp(((const struct doctor_device *)a)->name, ((const struct doctor_device *)b)->name);
}

static int compare_pools(const void *a, const void *b)
{
	const struct doctor_pool *left = a, *right = b;

	if (left->page_kib != right->page_kib)
		return left->page_kib < right->page_kib ? -1 : 1;
	return (left->node > right->node) - (left->node < right->node);
}

static void read_pci(const char *directory, const char *name, void *context)
{
	char vendor[DOCTOR_NAME_BYTES];

	read_line(vendor, sizeof(vendor), "%s/%s/vendor", directory, name);
	if (strcmp(vendor, VENDOR_MELLANOX) == 0)
		*(bool *)context = true;
}

static void find_daemon(const char *directory, const char *name, void *context)
{
	struct doctor_process *process = context;
	char line[DOCTOR_NAME_BYTES];

	if (process->is_daemon || name[strspn(name, "0123456789")])
		return;
	read_line(line, sizeof(line), "%s/%s/comm", directory, name);
	if (strcmp(line, "ibvcapd") != 0)
		return;
	process->pid = (pid_t)strtol(name, NULL, 10);
	process->is_daemon = true;
}

/* The text after a line's label in a file of several lines: "Max locked memory" in limits, "CapEff:" in status. */
static void read_labelled(const char *path, const char *label, char *text, size_t bytes)
{
	FILE *file = fopen(path, "re");
	char line[256];

	*text = '\0';
	while (file && !*text && fgets(line, sizeof(line), file))
		if (strncmp(line, label, strlen(label)) == 0)
			snprintf(text, bytes, "%s", line + strlen(label));
	if (file)
		fclose(file);
}

static void read_process(const char *root, struct doctor_process *process)
{
	char path[PATH_MAX], text[DOCTOR_TEXT_BYTES], who[DOCTOR_NAME_BYTES] = "self";

	join(path, "%s/proc", root);
	for_each_entry(path, find_daemon, process);
	if (process->is_daemon)
		snprintf(who, sizeof(who), "%d", (int)process->pid);
	else
		process->pid = getpid();
	join(path, "%s/proc/%s/status", root, who);
	read_labelled(path, "CapEff:", text, sizeof(text));
	process->effective_capabilities = strtoull(text, NULL, 16);
	join(path, "%s/proc/%s/limits", root, who);
	read_labelled(path, "Max locked memory", text, sizeof(text));
	process->memlock_bytes =
	    strstr(text, "unlimited") == text + strspn(text, " ") ? UINT64_MAX : strtoull(text, NULL, 10);
}

void doctor_read(const char *root, struct doctor_facts *facts)
{
	struct device_context devices = {root, facts};
	char path[PATH_MAX];

	join(path, "%s/sys/devices/system/node", root);
	for_each_entry(path, read_node, facts);
	qsort(facts->pools, facts->n_pools, sizeof(facts->pools[0]), compare_pools);
	join(path, "%s/sys/class/infiniband", root);
	for_each_entry(path, read_device, &devices);
	qsort(facts->devices, facts->n_devices, sizeof(facts->devices[0]), compare_devices);
	join(path, "%s/sys/bus/pci/devices", root);
	for_each_entry(path, read_pci, &facts->mellanox_pci);
	read_process(root, &facts->process);
}
