// SPDX-License-Identifier: Apache-2.0
/* Calls that change or name the working directory, and realpath(). The kernel knows no emulated directory. */
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int path_enter(const struct node *node)
{
	if (node->kind != NODE_DIR)
		return node->kind == NODE_MISSING ? -ENOENT : -ENOTDIR;
	snprintf(root_get()->working_directory, sizeof(root_get()->working_directory), "%s", node->path);
	return 0;
}

HOOK int chdir(const char *path)
{
	struct node node;
	int r;

	if (vfs_find(AT_FDCWD, path, &node)) {
		r = path_enter(&node);
		return ERRNO_RETURN(r);
	}
	r = REAL(chdir)(path);
	if (!r)
		*root_peek()->working_directory = 0;
	return r;
}

HOOK int fchdir(int fd)
{
	struct fd_object *o = fdtab_find(&root_peek()->fdtab, fd, FD_SYSFS_DIR);
	int r;

	if (o) {
		r = path_enter(&((struct sysfs_fd *)o)->node);
		fd_object_put(o);
		return ERRNO_RETURN(r);
	}
	r = REAL(fchdir)(fd);
	if (!r)
		*root_peek()->working_directory = 0;
	return r;
}

/* As getcwd(3) of the GNU C library: without a buffer, one is allocated. */
static char *path_give(const char *path, char *buf, size_t size)
{
	if (!buf)
		return strdup(path);
	if (strlen(path) >= size) {
		errno = size ? ERANGE : EINVAL;
		return NULL;
	}
	return strcpy(buf, path);
}

HOOK char *getcwd(char *buf, size_t size)
{
	const char *ours = root_peek()->working_directory;

	return *ours ? path_give(ours, buf, size) : REAL(getcwd)(buf, size);
}

char *__getcwd_chk(char *buf, size_t size, size_t buf_size);
HOOK char *__getcwd_chk(char *buf, size_t size, size_t buf_size)
{
	return size <= buf_size ? getcwd(buf, size) : REAL(__getcwd_chk)(buf, size, buf_size);
}

static bool path_resolve_ours(const char *path, char *buf, char **result)
{
	char canonical[PATH_MAX];
	struct node node;

	if (!vfs_find(AT_FDCWD, path, &node))
		return false;
	*result = NULL;
	errno = ENOENT;
	if (node.kind == NODE_MISSING)
		return true;
	sysfs_canonical(&node, canonical, sizeof(canonical));
	*result = path_give(canonical, buf, PATH_MAX);
	return true;
}

HOOK char *realpath(const char *path, char *buf)
{
	char *r;

	return path_resolve_ours(path, buf, &r) ? r : REAL(realpath)(path, buf);
}

char *__realpath_chk(const char *path, char *buf, size_t size);
HOOK char *__realpath_chk(const char *path, char *buf, size_t size)
{
	char *r;

	return path_resolve_ours(path, buf, &r) ? r : REAL(__realpath_chk)(path, buf, size);
}

HOOK char *canonicalize_file_name(const char *path)
{
	char *r;

	return path_resolve_ours(path, NULL, &r) ? r : REAL(canonicalize_file_name)(path);
}
