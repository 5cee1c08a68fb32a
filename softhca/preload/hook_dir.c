// SPDX-License-Identifier: Apache-2.0
/*
 * opendir() and its family. A DIR is opaque, so an emulated one is another structure; a mark at its start tells it
 * from the C library's.
 */
#define _LARGEFILE64_SOURCE
#include "vfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VDIR_MARK 0x5f4841c0d1a70f5eull

struct vdir {
	uint64_t mark;
	struct node node;
	int fd;
	unsigned int next;
	DIR *behind; /* the real directory, if its entries are listed, too; opened after the last emulated entry */
	struct dirent entry;
};

static_assert(sizeof(struct dirent) == sizeof(struct dirent64), "one dirent layout");

static struct vdir *vdir_of(DIR *d)
{
	struct vdir *v = (struct vdir *)d;
	uint64_t mark;

	if (!v || !root_peek()->n_devices)
		return NULL;
	memcpy(&mark, v, sizeof(mark));
	return mark == VDIR_MARK ? v : NULL;
}

static DIR *vdir_open(const struct node *node, int fd)
{
	struct vdir *v = calloc(1, sizeof(*v));

	if (!v) {
		errno = ENOMEM;
		return NULL;
	}
	v->mark = VDIR_MARK;
	v->node = *node;
	v->fd = fd;
	return (DIR *)v;
}

HOOK DIR *opendir(const char *path)
{
	struct node node;
	int fd;

	if (!vfs_find(AT_FDCWD, path, &node))
		return REAL(opendir)(path);
	if (node.kind != NODE_DIR) {
		errno = node.kind == NODE_MISSING ? ENOENT : ENOTDIR;
		return NULL;
	}
	fd = ERRNO_RETURN(vfs_open(&node, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	return fd < 0 ? NULL : vdir_open(&node, fd);
}

HOOK DIR *fdopendir(int fd)
{
	struct fd_object *o = fdtab_find(&root_peek()->fdtab, fd, FD_SYSFS_DIR);

	DIR *d = o ? vdir_open(&((struct sysfs_fd *)o)->node, fd) : REAL(fdopendir)(fd);

	fd_object_put(o);
	return d;
}

static struct dirent *vdir_next_behind(struct vdir *v)
{
	struct dirent *e;

	if (!sysfs_is_merged(&v->node))
		return NULL;
	if (!v->behind)
		v->behind = REAL(opendir)(v->node.path);
	while (v->behind && (e = REAL(readdir)(v->behind)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			return e;
	return NULL;
}

static struct dirent *vdir_next(struct vdir *v)
{
	unsigned int n = v->next;

	if (n < 2) {
		strcpy(v->entry.d_name, n ? ".." : ".");
		v->entry.d_type = DT_DIR;
	} else if (!sysfs_list(&v->node, n - 2, v->entry.d_name, sizeof(v->entry.d_name), &v->entry.d_type)) {
		return vdir_next_behind(v);
	}
	v->next++;
	v->entry.d_ino = n + 2;
	v->entry.d_off = v->next;
	v->entry.d_reclen = sizeof(v->entry);
	return &v->entry;
}

HOOK struct dirent *readdir(DIR *d)
{
	struct vdir *v = vdir_of(d);

	return v ? vdir_next(v) : REAL(readdir)(d);
}

HOOK struct dirent64 *readdir64(DIR *d)
{
	struct vdir *v = vdir_of(d);

	return v ? (struct dirent64 *)vdir_next(v) : REAL(readdir64)(d);
}

HOOK int closedir(DIR *d)
{
	struct vdir *v = vdir_of(d);
	int r;

	if (!v)
		return REAL(closedir)(d);
	r = close(v->fd);
	if (v->behind)
		REAL(closedir)(v->behind);
	v->mark = 0;
	free(v);
	return r;
}

HOOK int dirfd(DIR *d)
{
	struct vdir *v = vdir_of(d);

	return v ? v->fd : REAL(dirfd)(d);
}

HOOK void rewinddir(DIR *d)
{
	struct vdir *v = vdir_of(d);

	if (!v) {
		REAL(rewinddir)(d);
		return;
	}
	v->next = 0;
	if (v->behind)
		REAL(rewinddir)(v->behind);
}

HOOK long telldir(DIR *d)
{
	struct vdir *v = vdir_of(d);

	return v ? (long)v->next : REAL(telldir)(d);
}

HOOK void seekdir(DIR *d, long position)
{
	struct vdir *v = vdir_of(d);

	if (v)
		v->next = (unsigned int)position;
	else
		REAL(seekdir)(d, position);
}

/* The C library's scandir() opens the directory inside itself. */
static int vdir_scan(const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
                     int (*compare)(const struct dirent **, const struct dirent **))
{
	struct dirent **found = NULL, *e;
	DIR *d = opendir(path);
	size_t n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d))) {
		struct dirent **more, *copy;

		if (filter && !filter(e))
			continue;
		more = realloc(found, (n + 1) * sizeof(*found));
		copy = more ? malloc(sizeof(*copy)) : NULL;
		if (more)
			found = more;
		if (!copy)
			goto fail;
		memcpy(copy, e, e->d_reclen < sizeof(*copy) ? e->d_reclen : sizeof(*copy));
		found[n++] = copy;
	}
	closedir(d);
	if (compare && n)
		qsort(found, n, sizeof(*found), (int (*)(const void *, const void *))compare);
	*list = found;
	return (int)n;
fail:
	while (n)
		free(found[--n]);
	free(found);
	closedir(d);
	errno = ENOMEM;
	return -1;
}

#define SCANDIR_HOOK(name, type)                                                                        \
	HOOK int name(const char *path, struct type ***list, int (*filter)(const struct type *),        \
	              int (*compare)(const struct type **, const struct type **))                       \
	{                                                                                               \
		struct node node;                                                                       \
		if (!vfs_find(AT_FDCWD, path, &node))                                                   \
			return REAL(name)(path, list, filter, compare);                                 \
		return vdir_scan(path, (struct dirent ***)list, (int (*)(const struct dirent *))filter, \
		                 (int (*)(const struct dirent **, const struct dirent **))compare);     \
	}
SCANDIR_HOOK(scandir, dirent)
SCANDIR_HOOK(scandir64, dirent64)
