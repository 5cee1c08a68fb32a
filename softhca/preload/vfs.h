// SPDX-License-Identifier: Apache-2.0
/* From the program's file calls to nodes of the emulated tree, and descriptors for these. */
#ifndef SOFTHCA_PRELOAD_VFS_H
#define SOFTHCA_PRELOAD_VFS_H

#include "sysfs.h"

struct sysfs_fd {
	struct fd_object fd_object;
	struct node node;
};

/* Resolves `path`, relative to `dirfd`. False if it is not emulated. */
bool vfs_find(int dirfd, const char *path, struct node *node);
/* Does the absolute path lead out of an emulated directory by ".."? The kernel does not know that directory.
 * `node->path` is then the path without "..". */
bool vfs_leads_out(const char *path, struct node *node);
/* A descriptor for the node, or negative errno. */
int vfs_open(const struct node *node, int flags);
/* Makes the content of an open file anew, as sysfs does when a file is read from its start. */
int vfs_refresh(const struct sysfs_fd *f, int fd);

#endif
