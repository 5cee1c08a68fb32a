// SPDX-License-Identifier: Apache-2.0
/* Resolves paths, lists directories and describes files by the table of the emulated tree. */
#include "sysfs.h"

#include "sysfs_content.h"
#include "sysfs_entries.h"
#include "udmabuf.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

static const struct {
	const char *path;
	enum sysfs_dir dir;
} roots[] = {
	{"/sys/class/infiniband_verbs", DIR_CLASS_VERBS},
	{"/sys/class/infiniband", DIR_CLASS_IB},
	{"/dev/infiniband", DIR_DEV_IB},
	{"/sys/class/misc/rdma_cm", DIR_RDMA_CM},
	{"/sys/bus/pci/devices", DIR_BUS_PCI},
	{PCI_ROOT, DIR_PCI_ROOT},
};

/* The names that an entry stands for: a prefix and one of `n` numbers from `first` on. */
struct sysfs_names {
	const char *prefix;
	unsigned int first, n;
};

static struct sysfs_names sysfs_names(const struct sysfs_entry *e, const struct device *d)
{
	struct sysfs_names names = {.prefix = "uverbs", .n = 1};

	if (!strcmp(e->name, NAME_GID))
		return (struct sysfs_names){.prefix = "", .n = device_n_gids(d)};
	if (!strcmp(e->name, NAME_ATTRIBUTE))
		return (struct sysfs_names){.n = n_netdev_attributes};
	if (!strcmp(e->name, NAME_COUNTER))
		return (struct sysfs_names){.n = N_HW_COUNTERS};
	if (!strcmp(e->name, NAME_PCI))
		return (struct sysfs_names){.n = root_get()->n_devices};
	if (d) /* a directory below a device has only that device's name */
		names.first = d->index;
	else if (e->name[0] == '@')
		names.n = root_n_rdma(root_get());
	return names;
}

static bool sysfs_is_there(const struct sysfs_entry *e, const struct device *d)
{
	if (e->is_rdma && d && d->index >= root_n_rdma(root_get()))
		return false;
	return !e->eswitch || !d || e->eswitch >> d->config.eswitch & 1;
}

/* The entry's i-th name. `d` is the device above it, or NULL. */
static void sysfs_name(const struct sysfs_entry *e, const struct device *d, const struct sysfs_names *names,
                       unsigned int i, char *name, size_t size)
{
	if (e->name[0] != '@')
		snprintf(name, size, "%s", e->name);
	else if (!strcmp(e->name, NAME_NETDEV))
		snprintf(name, size, "%s", d->config.netdev);
	else if (!strcmp(e->name, NAME_IBDEV))
		snprintf(name, size, "%s", root_get()->devices[names->first + i].name);
	else if (!strcmp(e->name, NAME_PCI))
		snprintf(name, size, PCI_NAME, i);
	else if (!strcmp(e->name, NAME_ATTRIBUTE))
		snprintf(name, size, "%s", netdev_attributes[i]);
	else if (!strcmp(e->name, NAME_COUNTER))
		snprintf(name, size, "%s", hw_counters[i].name);
	else
		snprintf(name, size, "%s%u", names->prefix, names->first + i);
}

/* Does `name` fit the entry? Sets the node's device or index if the name says it. */
static bool sysfs_name_fits(const struct sysfs_entry *e, const char *name, struct node *node)
{
	const struct sysfs_names names = sysfs_names(e, node->device);
	char candidate[NAME_MAX];

	for (unsigned int i = 0; i < names.n; i++) {
		sysfs_name(e, node->device, &names, i, candidate, sizeof(candidate));
		if (strcmp(candidate, name))
			continue;
		if (!strcmp(e->name, NAME_GID) || !strcmp(e->name, NAME_COUNTER) || !strcmp(e->name, NAME_ATTRIBUTE))
			node->index = i;
		else if (e->name[0] == '@')
			node->device = &root_get()->devices[node->device ? node->device->index : i];
		return true;
	}
	return false;
}

static bool sysfs_descend(struct node *node, const char *name)
{
	for (size_t i = 0; i < sysfs_n_entries; i++) {
		const struct sysfs_entry *e = &sysfs_entries[i];

		if ((int)e->parent != node->dir || !sysfs_is_there(e, node->device) || !sysfs_name_fits(e, name, node))
			continue;
		node->entry = e;
		node->dir = (int)e->dir;
		node->is_link = e->is_link;
		node->kind = e->dir ? NODE_DIR : e->is_cdev ? NODE_CDEV : NODE_FILE;
		return true;
	}
	return false;
}

static void sysfs_walk(struct node *node, char *rest)
{
	char *save = NULL;

	node->kind = NODE_DIR;
	for (char *name = strtok_r(rest, "/", &save); name; name = strtok_r(NULL, "/", &save))
		if (node->kind != NODE_DIR || !sysfs_descend(node, name)) {
			node->kind = node->dir == DIR_BUS_PCI && !node->entry ? NODE_NONE : NODE_MISSING;
			return;
		}
}

/* Takes "//", "/./" and "/../" out of an absolute path. False if the result does not fit. */
static bool sysfs_normalise(const char *path, char *out, size_t size)
{
	size_t n = 0;

	while (*path) {
		size_t len;

		path += strspn(path, "/");
		len = strcspn(path, "/");
		if (!len || (len == 1 && path[0] == '.')) {
			path += len;
			continue;
		}
		if (len == 2 && path[0] == '.' && path[1] == '.') {
			while (n && out[--n] != '/')
				;
			path += len;
			continue;
		}
		if (n + len + 2 > size)
			return false;
		out[n++] = '/';
		memcpy(out + n, path, len);
		n += len;
		path += len;
	}
	out[n] = 0;
	return true;
}

/* For "/sys/class/net/IF/device…" of an emulated netdev: sets the device and returns what follows "device". */
static char *sysfs_net_device(struct node *node, char *path)
{
	static const char *const prefixes[] = {"/sys/class/net/", "/sys/devices/virtual/net/"};
	struct root *root = root_get();
	char *name = NULL;

	for (unsigned int i = 0; i < 2 && !name; i++)
		if (!strncmp(path, prefixes[i], strlen(prefixes[i])))
			name = path + strlen(prefixes[i]);
	for (unsigned int i = 0; name && i < root->n_devices; i++) {
		size_t len = strlen(root->devices[i].config.netdev);

		if (strncmp(name, root->devices[i].config.netdev, len) || strncmp(name + len, "/device", 7))
			continue;
		name += len + 7;
		if (*name && *name != '/')
			return NULL;
		node->device = &root->devices[i];
		return name;
	}
	return NULL;
}

/* udev puts a link to the device node at "/dev/char/231:N". */
static bool sysfs_dev_char(struct node *node, const char *path)
{
	unsigned int major, minor;
	int end = 0;

	if (sscanf(path, "/dev/char/%u:%u%n", &major, &minor, &end) != 2 || path[end] || major != UVERBS_MAJOR ||
	    minor < UVERBS_FIRST_MINOR || minor - UVERBS_FIRST_MINOR >= root_n_rdma(root_get()))
		return false;
	node->kind = NODE_CDEV;
	node->device = &root_get()->devices[minor - UVERBS_FIRST_MINOR];
	return true;
}

void sysfs_find(const char *path, struct node *node)
{
	char copy[sizeof(node->path)], *rest;

	memset(node, 0, sizeof(*node));
	/* Most paths of a program are not emulated: leave as early as possible. */
	if (path[0] != '/' ||
	    (strncmp(path, "/sys/", 5) && strncmp(path, "/dev/", 5) && path[1] != '/' && path[1] != '.'))
		return;
	if (!root_get()->n_devices || !sysfs_normalise(path, node->path, sizeof(node->path)))
		return;
	memcpy(copy, node->path, sizeof(copy));
	for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
		size_t len = strlen(roots[i].path);

		if (strncmp(copy, roots[i].path, len) || (copy[len] && copy[len] != '/'))
			continue;
		root_check_netdevs();
		node->dir = (int)roots[i].dir;
		sysfs_walk(node, copy + len);
		return;
	}
	rest = sysfs_net_device(node, copy);
	if (rest) {
		bool itself = !*rest;

		node->dir = DIR_PCI;
		sysfs_walk(node, rest);
		node->is_link |= itself;
		return;
	}
	if (!sysfs_dev_char(node, copy) && !strcmp(copy, UDMABUF_PATH) && udmabuf_is_missing())
		node->kind = NODE_UDMABUF;
}

int sysfs_content(const struct node *node, char *buf, size_t size)
{
	const struct sysfs_entry *e = node->entry;

	return e->text ? snprintf(buf, size, "%s", e->text) : e->content(node->device, node->index, buf, size);
}

bool sysfs_list(const struct node *dir, unsigned int n, char *name, size_t size, unsigned char *d_type)
{
	for (size_t i = 0; i < sysfs_n_entries; i++) {
		const struct sysfs_entry *e = &sysfs_entries[i];
		struct sysfs_names names;

		if ((int)e->parent != dir->dir || !sysfs_is_there(e, dir->device))
			continue;
		names = sysfs_names(e, dir->device);
		if (n >= names.n) {
			n -= names.n;
			continue;
		}
		*d_type = e->is_link ? DT_LNK : e->dir ? DT_DIR : e->is_cdev ? DT_CHR : DT_REG;
		sysfs_name(e, dir->device, &names, n, name, size);
		return true;
	}
	return false;
}

bool sysfs_is_merged(const struct node *dir)
{
	return dir->dir == DIR_BUS_PCI;
}

/* The path of the target of a link. */
static int sysfs_place(const struct node *node, char *buf, size_t size)
{
	const struct device *d = node->device;

	switch (node->dir) {
	case DIR_IBDEV:
		return snprintf(buf, size, PCI_ROOT "/" PCI_NAME "/infiniband/%s", d->index, d->name);
	case DIR_UVERBS:
		return snprintf(buf, size, PCI_ROOT "/" PCI_NAME "/infiniband_verbs/uverbs%u", d->index, d->index);
	case DIR_PCI_DRIVER:
		return snprintf(buf, size, "/sys/bus/pci/drivers/mlx5_core");
	case DIR_PCI_SUBSYSTEM:
		return snprintf(buf, size, "/sys/bus/pci");
	default:
		return snprintf(buf, size, PCI_ROOT "/" PCI_NAME, d->index);
	}
}

/* The deepest link in the path says where it really is. */
void sysfs_canonical(const struct node *node, char *buf, size_t size)
{
	struct node above = *node;
	char *end = above.path + strlen(above.path);

	snprintf(buf, size, "%s", node->path);
	while (end > above.path) {
		struct node link;

		*end = 0;
		sysfs_find(above.path, &link);
		if (link.is_link) {
			int n = sysfs_place(&link, buf, size);

			snprintf(buf + n, size - (size_t)n, "%s", node->path + (end - above.path));
			return;
		}
		while (end > above.path && *--end != '/')
			;
	}
}

int sysfs_link_target(const struct node *node, char *buf, size_t size)
{
	char place[sizeof(node->path)];

	if (!node->is_link)
		return -EINVAL;
	sysfs_place(node, place, sizeof(place));
	switch (node->dir) {
	case DIR_PCI:
		if (!node->entry) /* from where the netdev is, /sys/devices/virtual/net/IF */
			return snprintf(buf, size, "../../../%s", place + strlen("/sys/devices/"));
		if (node->entry->parent != DIR_BUS_PCI)
			return snprintf(buf, size, "../../../" PCI_NAME, node->device->index);
		/* fall through */
	case DIR_PCI_DRIVER:
	case DIR_PCI_SUBSYSTEM:
		return snprintf(buf, size, "../../../%s", place + strlen("/sys/"));
	default:
		return snprintf(buf, size, "../../%s", place + strlen("/sys/"));
	}
}

void sysfs_stat(const struct node *node, bool follow, struct stat *st)
{
	static const mode_t modes[] = {
		[NODE_DIR] = S_IFDIR | 0755,
		[NODE_FILE] = S_IFREG | 0444,
		[NODE_CDEV] = S_IFCHR | 0666,
		[NODE_UDMABUF] = S_IFCHR | 0666,
	};

	memset(st, 0, sizeof(*st));
	st->st_mode = node->is_link && !follow ? S_IFLNK | 0777 : modes[node->kind];
	st->st_nlink = 1;
	st->st_blksize = 4096;
	st->st_size = node->kind == NODE_FILE ? 4096 : 0;
	st->st_dev = makedev(0, 0xfe);
	st->st_ino = 1;
	for (const char *p = node->path; *p; p++) /* any number that is the same for the same path */
		st->st_ino = st->st_ino * 31 + (unsigned char)*p;
	st->st_ino &= 0x7fffffff;
	if (node->kind == NODE_CDEV)
		st->st_rdev = node->device ? makedev(UVERBS_MAJOR, UVERBS_FIRST_MINOR + node->device->index)
		                           : makedev(CM_MAJOR, CM_MINOR);
}
