// SPDX-License-Identifier: Apache-2.0
/* From the program's file calls to nodes, and descriptors for them. */
#ifndef SOFTHCA_PRELOAD_VFS_H
#define SOFTHCA_PRELOAD_VFS_H

#include "sysfs.h"

struct sysfs_fd {
	struct fd_object fd_object;
	struct node node;
};

/* What `path`, relative to `dirfd`, names; false if it is none of ours. */
bool vfs_find(int dirfd, const char *path, struct node *node);
/* A descriptor for the node, or negative errno. */
int vfs_open(const struct node *node, int flags);
/* Makes the content of an open file anew, as sysfs does for a read from the start. */
int vfs_refresh(const struct sysfs_fd *f, int fd);

#endif
