// SPDX-License-Identifier: Apache-2.0
/* Resolves paths of the program's calls to emulated files, and opens these. */
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_CONTENT 4096

bool vfs_find(int dirfd, const char *path, struct node *node)
{
	char joined[sizeof(node->path) + NAME_MAX];
	struct fd_object *o;

	if (!path)
		return false;
	if (path[0] == '/') {
		sysfs_find(path, node);
		return node->kind != NODE_NONE;
	}
	if (dirfd == AT_FDCWD && *root_peek()->working_directory) {
		snprintf(joined, sizeof(joined), "%s/%s", root_peek()->working_directory, path);
		sysfs_find(joined, node);
		return node->kind != NODE_NONE;
	}
	o = dirfd == AT_FDCWD ? NULL : fdtab_find(&root_peek()->fdtab, dirfd, FD_SYSFS_DIR);
	if (!o)
		return false;
	if (snprintf(joined, sizeof(joined), "%s/%s", ((struct sysfs_fd *)o)->node.path, path) < (int)sizeof(joined))
		sysfs_find(joined, node);
	else
		node->kind = NODE_NONE;
	fd_object_put(o);
	if (node->kind == NODE_NONE)
		node->kind = NODE_MISSING; /* ".." led out of the emulated directories */
	return true;
}

bool vfs_leads_out(const char *path, struct node *node)
{
	const char *up = path && path[0] == '/' ? strstr(path, "/..") : NULL;
	char above[sizeof(node->path)];

	if (!up || up - path >= (int)sizeof(above))
		return false;
	memcpy(above, path, (size_t)(up - path));
	above[up - path] = 0;
	sysfs_find(above, node);
	if (node->kind != NODE_DIR)
		return false;
	sysfs_find(path, node);
	return node->kind == NODE_NONE;
}

static void sysfs_fd_release(struct fd_object *o)
{
	free(o);
}

int vfs_refresh(const struct sysfs_fd *f, int fd)
{
	char content[MAX_CONTENT];
	int n = sysfs_content(&f->node, content, sizeof(content));

	if (n < 0)
		return n;
	if (ftruncate(fd, n) || pwrite(fd, content, (size_t)n, 0) != n)
		return -EIO;
	return 0;
}

static int vfs_open_cdev(const struct node *node, int flags)
{
	struct root *root = root_get();
	struct uverbs_env env = {.fdtab = &root->fdtab, .memlock = &root->memlock, .clock = &root->clock};

	if (!root_is_owner())
		return -EIO;
	control_start(&root->control);
	if (!node->device)
		return cm_open(&root->cm, flags);
	return uverbs_open(node->device, &env, flags);
}

int vfs_open(const struct node *node, int flags)
{
	struct sysfs_fd *f;
	int fd, r;

	if (node->kind == NODE_MISSING)
		return -ENOENT;
	if (node->kind == NODE_CDEV)
		return vfs_open_cdev(node, flags);
	if ((flags & O_ACCMODE) != O_RDONLY && node->kind != NODE_UDMABUF)
		return node->kind == NODE_DIR ? -EISDIR : -EACCES;
	if (node->kind == NODE_FILE && (flags & O_DIRECTORY))
		return -ENOTDIR;
	/* A memfd stands in for the file: it is a descriptor, it can be read, and it ends with the process. */
	fd = memfd_create("sysfs", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	f = calloc(1, sizeof(*f));
	if (fd < 0 || !f) {
		r = -ENOMEM;
		goto fail;
	}
	f->fd_object.kind = node->kind == NODE_DIR       ? FD_SYSFS_DIR
	                    : node->kind == NODE_UDMABUF ? FD_UDMABUF
	                                                 : FD_SYSFS_FILE;
	f->fd_object.refs = 1;
	f->fd_object.release = sysfs_fd_release;
	f->node = *node;
	if (node->kind == NODE_FILE)
		vfs_refresh(f, fd); /* an error shows at read(), as in the kernel */
	r = fdtab_set(&root_get()->fdtab, fd, &f->fd_object);
	if (!r)
		return fd;
fail:
	free(f);
	if (fd >= 0)
		syscall(SYS_close, fd);
	return r;
}
