// SPDX-License-Identifier: Apache-2.0
/* Extended attributes: emulated files have none. `ls -l` asks for them. */
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/xattr.h>

/* True if the path is emulated; errno is then set as for a file without attributes, or for none. Else `*path` becomes
 * one that the kernel knows; `node` keeps it. */
static bool hook_xattr_ours(const char **path, struct node *node)
{
	if (vfs_find(AT_FDCWD, *path, node)) {
		errno = node->kind == NODE_MISSING ? ENOENT : ENODATA;
		return true;
	}
	if (vfs_leads_out(*path, node))
		*path = node->path;
	return false;
}

#define GET_HOOK(name)                                                                                \
	HOOK ssize_t name(const char *path, const char *attribute, void *value, size_t size)          \
	{                                                                                             \
		struct node node;                                                                     \
		return hook_xattr_ours(&path, &node) ? -1 : REAL(name)(path, attribute, value, size); \
	}
GET_HOOK(getxattr)
GET_HOOK(lgetxattr)

#define LIST_HOOK(name)                                                                                            \
	HOOK ssize_t name(const char *path, char *list, size_t size)                                               \
	{                                                                                                          \
		struct node node;                                                                                  \
		return hook_xattr_ours(&path, &node) ? (errno == ENODATA ? 0 : -1) : REAL(name)(path, list, size); \
	}
LIST_HOOK(listxattr)
LIST_HOOK(llistxattr)
