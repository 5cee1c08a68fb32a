// SPDX-License-Identifier: Apache-2.0
/* The objects of an open device: their table of handles, the limits of the device, and their end. */
#include "../device/refuse.h"
#include "objects.h"

#include "../device/injection.h"
#include "../wire/clock_now.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How many objects of a type the device has; 0: as many as there is memory for. */
static uint32_t object_limit(const struct profile *p, enum object_type type)
{
	switch (type) {
	case OBJECT_PD:
		return p->max_pd;
	case OBJECT_CQ:
		return p->max_cq;
	case OBJECT_QP:
		return p->max_qp;
	case OBJECT_MR:
		return p->max_mr;
	case OBJECT_SRQ:
		return p->max_srq;
	case OBJECT_WQ:
		return p->max_wq;
	case OBJECT_RWQ_IND_TBL:
		return p->max_rss_tables;
	default:
		return 0;
	}
}

/* Counts the objects of all contexts in this process. mlx5_core turns the firmware's LIM_ERR into ENOMEM. */
static bool object_type_is_full(const struct uverbs_file *file, enum object_type type)
{
	uint32_t limit = object_limit(file->device->config.profile, type), n = 0;
	const struct uverbs_file *f;

	LIST_FOREACH (f, &file->device->files, link)
		n += f->n_objects[type];
	return limit && n >= limit;
}

/* mlx5_core, mlx5_internal_err_ret_value: after a fatal error commands that destroy succeed without the firmware. */
int uverbs_ask_firmware(const struct uverbs_file *f, bool destroys)
{
	int r = f->dead ? -EIO : injection_command(f->device);

	return destroys && r == -EIO ? 0 : r;
}

/* rdma_core, alloc_begin_idr_uobject: rdmacg_try_charge. */
static bool object_is_over_charge(const struct uverbs_file *file)
{
	uint32_t limit = file->device->config.max_objects, n = 0;

	for (unsigned int i = 0; i < OBJECT_N_TYPES; i++)
		n += file->n_objects[i];
	return limit && n >= limit;
}

int object_add(struct uverbs_file *file, struct object *o, enum object_type type, void (*destroy)(struct object *o))
{
	struct object_table *t = &file->objects;
	uint32_t i;

	if (object_is_over_charge(file))
		return refuse(EAGAIN, "object", "over the limit of objects (rdma.max)", "rdma_core: rdmacg_try_charge");
	if (object_type_is_full(file, type))
		return refuse(ENOMEM, "object", "the device has no more of this type", "mlx5_core: LIM_ERR");
	for (i = 0; i < t->size; i++)
		if (!t->slots[i])
			break;
	if (i == t->size) {
		uint32_t size = t->size ? t->size * 2 : 64;
		struct object **slots = realloc(t->slots, size * sizeof(*slots));

		if (!slots)
			return -ENOMEM;
		memset(slots + t->size, 0, (size - t->size) * sizeof(*slots));
		t->slots = slots;
		t->size = size;
	}
	o->type = type;
	o->handle = i;
	o->file = file;
	o->destroy = destroy;
	o->created_ns = clock_now_ns(CLOCK_REALTIME);
	o->creator = (pid_t)syscall(SYS_gettid);
	t->slots[i] = o;
	file->n_objects[type]++;
	return 0;
}

void *object_find(struct uverbs_file *file, uint32_t handle, enum object_type type)
{
	struct object *o = handle < file->objects.size ? file->objects.slots[handle] : NULL;

	return o && o->type == type ? o : NULL;
}

void object_remove(struct object *o)
{
	o->file->objects.slots[o->handle] = NULL;
	o->file->n_objects[o->type]--;
}

void *object_find_unused(struct uverbs_file *file, uint32_t handle, enum object_type type, int *error)
{
	struct object *o = object_find(file, handle, type);

	*error = !o ? -ENOENT : 0;
	if (o && o->n_users)
		*error = refuse(EBUSY, "object", "another object uses it", "rdma_core: uverbs_destroy_uobject");
	return *error ? NULL : o;
}

void object_destroy(struct object *o)
{
	object_remove(o);
	memlock_unpin(o->file->memlock, o->n_pinned);
	if (o->destroy)
		o->destroy(o);
	free(o);
}

int object_destroy_handle(struct uverbs_file *file, uint32_t handle, enum object_type type, uint32_t *n_async_events)
{
	struct object *o;
	int r;

	device_lock(file->device);
	o = object_find_unused(file, handle, type, &r);
	if (o && n_async_events)
		*n_async_events = async_events_read(o);
	if (o)
		object_destroy(o);
	device_unlock(file->device);
	return r;
}

void objects_destroy_all(struct uverbs_file *file)
{
	unsigned int n_qps = 0;

	device_lock(file->device);
	for (unsigned int type = 0; type < OBJECT_N_TYPES; type++)
		for (uint32_t i = 0; i < file->objects.size; i++) {
			struct object *o = file->objects.slots[i];

			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): object_destroy() takes it out of its slot */
			if (!o || o->type != type)
				continue;
			n_qps += type == OBJECT_QP;
			object_destroy(o);
		}
	device_unlock(file->device);
	while (n_qps--)
		device_put_wire(file->device);
	free(file->objects.slots);
	memset(&file->objects, 0, sizeof(file->objects));
}
