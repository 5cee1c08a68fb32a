// SPDX-License-Identifier: Apache-2.0
/*
 * The files a device driver would make: /sys/class/infiniband, /sys/class/infiniband_verbs,
 * /sys/class/net/IF/device and /dev/infiniband. They exist nowhere; a path leads to a node, and
 * a node to its content, made when asked.
 */
#ifndef SOFTHCA_PRELOAD_SYSFS_H
#define SOFTHCA_PRELOAD_SYSFS_H

#include "root.h"

#include <limits.h>
#include <sys/stat.h>

#define UVERBS_MAJOR       231 /* IB_UVERBS_MAJOR, minors from 192 */
#define UVERBS_FIRST_MINOR 192

enum node_kind {
	NODE_NONE,    /* not our territory */
	NODE_MISSING, /* ours, and nothing is there: ENOENT */
	NODE_DIR,
	NODE_FILE,
	NODE_CDEV,
};

struct node {
	enum node_kind kind;
	const struct sysfs_entry *entry; /* NULL for the roots */
	int dir;                         /* enum sysfs_dir, of a NODE_DIR */
	struct device *device;
	unsigned int index; /* of the GID, in directories that count */
	bool is_link;       /* lstat() and readlink() see a symbolic link */
	char path[256];
};

/* Resolve an absolute path; ".", ".." and "//" are taken textually. */
void sysfs_find(const char *path, struct node *node);

/* The content of a file, or negative errno (-EINVAL: what the kernel gives for an empty GID). */
int sysfs_content(const struct node *node, char *buf, size_t size);

/* The n-th entry of a directory: its name, or false at the end. */
bool sysfs_list(const struct node *dir, unsigned int n, char *name, size_t size, unsigned char *d_type);

/* Where a link points, or -EINVAL. */
int sysfs_link_target(const struct node *node, char *buf, size_t size);

void sysfs_stat(const struct node *node, bool follow, struct stat *st);

#endif
