// SPDX-License-Identifier: Apache-2.0
/*
 * The files that a device driver would make: /sys/class/infiniband, /sys/class/infiniband_verbs,
 * /sys/class/net/IF/device, PCI functions and /dev/infiniband. None of them exists: a path is resolved to a node, and a
 * node's content is made when somebody reads it.
 */
#ifndef SOFTHCA_PRELOAD_SYSFS_H
#define SOFTHCA_PRELOAD_SYSFS_H

#include "../nldev/nldev.h"
#include "root.h"

#include <limits.h>
#include <sys/stat.h>

enum node_kind {
	NODE_NONE,    /* not an emulated path */
	NODE_MISSING, /* below an emulated directory, and nothing is there: ENOENT */
	NODE_DIR,
	NODE_FILE,
	NODE_CDEV,    /* of a device; without one, rdma_cm */
	NODE_UDMABUF, /* the stand-in for that device */
};

struct node {
	enum node_kind kind;
	const struct sysfs_entry *entry; /* NULL for the roots */
	int dir;                         /* enum sysfs_dir, of a NODE_DIR */
	struct device *device;
	unsigned int index; /* of the GID or attribute, in directories of these */
	bool is_link;       /* lstat() and readlink() see a symbolic link */
	char path[256];
};

/* Resolves an absolute path. ".", ".." and "//" are resolved textually. */
void sysfs_find(const char *path, struct node *node);

/* The content of a file, or negative errno (-EINVAL: as the kernel gives for an empty GID). */
int sysfs_content(const struct node *node, char *buf, size_t size);

/* The name of a directory's n-th entry, or false at the end. */
bool sysfs_list(const struct node *dir, unsigned int n, char *name, size_t size, unsigned char *d_type);

/* Does the directory list what is really there, behind what is emulated? */
bool sysfs_is_merged(const struct node *dir);

/* The path without links (realpath(3)). */
void sysfs_canonical(const struct node *node, char *buf, size_t size);

/* The target of a link, or -EINVAL. */
int sysfs_link_target(const struct node *node, char *buf, size_t size);

void sysfs_stat(const struct node *node, bool follow, struct stat *st);

#endif
