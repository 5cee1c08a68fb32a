// SPDX-License-Identifier: Apache-2.0
/* Declares ioctl_attrs.c. */
#ifndef SOFTHCA_UVERBS_IOCTL_H
#define SOFTHCA_UVERBS_IOCTL_H

#include "command.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#define IOCTL_MAX_BYTES 4096u /* of header and attributes; the kernel's limit is a page */
#define IOCTL_MAX_ATTRS (IOCTL_MAX_BYTES / sizeof(struct ib_uverbs_attr))

/* A call as its handler sees it. The attributes are a copy; the memory that they point to is not. */
struct ioctl_call {
	struct uverbs_file *file;
	unsigned int n_attrs;
	struct ib_uverbs_attr attrs[IOCTL_MAX_ATTRS];
};

struct ib_uverbs_attr *ioctl_attr(struct ioctl_call *call, uint16_t id);
/* Reads the first bytes of an attribute that is long enough. 0 or -EFAULT. */
int ioctl_read_attr(const struct ib_uverbs_attr *a, void *to, size_t bytes);
/* Reads an input; one of up to 8 bytes lies in the attribute itself. 0, -EINVAL (missing or too short), -EFAULT. */
int ioctl_in(struct ioctl_call *call, uint16_t id, void *to, size_t bytes);
/* Writes an output. 0, -ENOENT if there is no such attribute, -ENOSPC if it is too small, -EFAULT. */
int ioctl_out(struct ioctl_call *call, uint16_t id, const void *from, size_t bytes);
/* Writes a part of an output, whose size the caller has checked. 0 or -EFAULT. */
int ioctl_out_at(struct ib_uverbs_attr *a, size_t offset, const void *from, size_t bytes);
/* Adds a new object and puts its handle into the attribute. 0, or negative errno if the object was freed instead. */
int ioctl_add_object(struct ioctl_call *call, struct ib_uverbs_attr *handle, struct object *o, enum object_type type,
                     void (*destroy)(struct object *o));

#endif
