// SPDX-License-Identifier: Apache-2.0
/* The attributes of an ioctl call: finds them, reads inputs, and writes outputs and handles. */
#include "ioctl.h"
#include "user_memory.h"

#include <errno.h>
#include <stdlib.h>

struct ib_uverbs_attr *ioctl_attr(struct ioctl_call *call, uint16_t id)
{
	for (unsigned int i = 0; i < call->n_attrs; i++)
		if (call->attrs[i].attr_id == id)
			return &call->attrs[i];
	return NULL;
}

int ioctl_read_attr(const struct ib_uverbs_attr *a, void *to, size_t bytes)
{
	if (a->len > sizeof(a->data))
		return user_memory_read(to, a->data, bytes);
	memcpy(to, &a->data, bytes);
	return 0;
}

int ioctl_in(struct ioctl_call *call, uint16_t id, void *to, size_t bytes)
{
	const struct ib_uverbs_attr *a = ioctl_attr(call, id);

	return !a || a->len < bytes ? -EINVAL : ioctl_read_attr(a, to, bytes);
}

int ioctl_out_at(struct ib_uverbs_attr *a, size_t offset, const void *from, size_t bytes)
{
	a->flags |= UVERBS_ATTR_F_VALID_OUTPUT;
	return user_memory_write(a->data + offset, from, bytes);
}

int ioctl_out(struct ioctl_call *call, uint16_t id, const void *from, size_t bytes)
{
	struct ib_uverbs_attr *a = ioctl_attr(call, id);

	if (!a)
		return -ENOENT;
	return a->len < bytes ? -ENOSPC : ioctl_out_at(a, 0, from, bytes);
}

int ioctl_add_object(struct ioctl_call *call, struct ib_uverbs_attr *handle, struct object *o, enum object_type type,
                     void (*destroy)(struct object *o))
{
	int r;

	device_lock(call->file->device);
	r = object_add(call->file, o, type, destroy);
	device_unlock(call->file->device);
	if (r)
		free(o);
	else
		handle->data = o->handle;
	return r;
}
