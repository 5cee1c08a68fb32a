// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTHCA_UVERBS_IOCTL_H
#define SOFTHCA_UVERBS_IOCTL_H

#include "command.h"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>

struct ioctl_call {
	struct uverbs_file *file;
	struct ib_uverbs_ioctl_hdr *hdr;
};

struct ib_uverbs_attr *ioctl_attr(const struct ioctl_call *call, uint16_t id);
/* A small input: in the attribute itself up to 8 bytes. 0, -ENOENT or -EINVAL. */
int ioctl_in(const struct ioctl_call *call, uint16_t id, void *to, size_t bytes);
/* 0, -ENOENT without such an attribute, or -ENOSPC where it is too small. */
int ioctl_out(const struct ioctl_call *call, uint16_t id, const void *from, size_t bytes);

#endif
