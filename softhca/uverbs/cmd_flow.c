// SPDX-License-Identifier: Apache-2.0
/* Commands of flows and flow counters. */
#include "../device/steer.h"
#include "../device/refuse.h"
#include "ioctl.h"
#include "pitfalls.h"
#include "uflow.h"
#include "user_memory.h"

#include <errno.h>
#include <linux/capability.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

#define MAX_COUNTER_DESCS (65535u / 8)       /* mlx5_ib: MAX_COUNTERS_NUM */
enum { COUNT_PACKETS = 0, COUNT_BYTES = 1 }; /* enum ibv_counter_description */

/* mlx5_ib counters_set_description: which counter the library wants to read at which index. */
static int counters_describe(struct counters *k, const struct mlx5_ib_flow_counters_data *data)
{
	struct mlx5_ib_flow_counters_desc from;
	struct counter_desc *descs;
	uint64_t max_index = 0;
	int r = 0;

	if (data->ncounters > MAX_COUNTER_DESCS)
		return refuse(EINVAL, "counters", "too many", "mlx5_ib: MAX_COUNTERS_NUM");
	if (k->max_index)
		return refuse(EINVAL, "counters", "it has a description, and a flow uses it",
		              "mlx5_ib: counters_set_description");
	descs = calloc(data->ncounters ? data->ncounters : 1, sizeof(*descs));
	if (!descs)
		return -ENOMEM;
	for (uint32_t i = 0; i < data->ncounters; i++) {
		r = user_memory_read(&from, data->counters_data + i * sizeof(from), sizeof(from));
		if (!r && from.description > COUNT_BYTES)
			r = refuse(EINVAL, "counters", "neither packets nor bytes",
			           "mlx5_ib: counters_set_description");
		if (r) {
			free(descs);
			return r;
		}
		descs[i] = (struct counter_desc){from.description, from.index};
		if (from.index >= max_index)
			max_index = from.index + 1ull;
	}
	free(k->descs);
	k->descs = descs;
	k->n_descs = data->ncounters;
	k->max_index = max_index;
	return 0;
}

static int uflow_bind_counters(struct uflow *f, const struct command *c)
{
	struct mlx5_ib_create_flow drv = {};
	const struct mlx5_ib_flow_counters_data *data = NULL;

	if (c->drv_in_bytes) {
		if (c->drv_in_bytes < sizeof(drv))
			return -EOPNOTSUPP;
		memcpy(&drv, c->drv_in, sizeof(drv));
		if (drv.ncounters_data > 1)
			return -EINVAL;
		if (drv.ncounters_data && c->drv_in_bytes < sizeof(drv) + sizeof(struct mlx5_ib_flow_counters_data))
			return -EINVAL;
		if (drv.ncounters_data)
			data = (const void *)((const uint8_t *)c->drv_in + sizeof(drv));
	}
	if (!f->rules[0].has_counters)
		return 0;
	f->counters = object_find(c->file, f->rules[0].counters_handle, OBJECT_COUNTERS);
	if (!f->counters)
		return refuse(EINVAL, "counters", "no such counters", "ib_uverbs: kern_spec_to_ib_spec_action");
	f->rules[0].counter = &f->counters->value;
	if (data)
		return counters_describe(f->counters, data);
	return f->counters->max_index ? 0
	                              : refuse(EINVAL, "counters", "nothing is attached to them",
	                                       "mlx5_ib: flow_counters_set_data; ibv_attach_counters_point_flow(3)");
}

/* When the last flow is gone, the description is forgotten and the values are kept
 * (mlx5_ib_counters_clear_description). */
static void counters_unbind(struct counters *k)
{
	if (k && !k->object.n_users) {
		free(k->descs);
		k->descs = NULL;
		k->n_descs = 0;
		k->max_index = 0;
	}
}

static int uflow_add_rules(struct device *d, struct uflow *f)
{
	for (unsigned int i = 0; i < f->n_rules; i++) {
		int r;

		f->rules[i].qp = f->qp ? &f->qp->qp : NULL;
		r = flow_add(&d->steering, &f->rules[i]);
		if (r) {
			while (i--)
				flow_remove(&d->steering, &f->rules[i]);
			return r;
		}
		pitfall_of_rule(d, &f->rules[i]);
	}
	steer_rules_changed(d);
	return 0;
}

/* With the lock held. */
static int uflow_enter(struct uverbs_file *file, struct uflow *f, uflow_resolve *resolve, const void *arg)
{
	int r = resolve(file, f, arg);

	if (!r)
		r = uflow_add_rules(file->device, f);
	if (r) {
		counters_unbind(f->counters);
		return r;
	}
	if (f->qp)
		f->qp->object.n_users++;
	if (f->counters)
		f->counters->object.n_users++;
	if (f->matcher)
		f->matcher->object.n_users++;
	return 0;
}

/* With the lock held. */
static void uflow_leave(struct device *d, struct uflow *f)
{
	for (unsigned int i = 0; i < f->n_rules; i++)
		flow_remove(&d->steering, &f->rules[i]);
	steer_rules_changed(d);
	if (f->qp)
		f->qp->object.n_users--;
	if (f->matcher)
		f->matcher->object.n_users--;
	if (f->counters) {
		f->counters->object.n_users--;
		counters_unbind(f->counters);
	}
}

static void uflow_destroy(struct object *o)
{
	uflow_leave(o->file->device, (struct uflow *)o);
}

/* The device has the rule before the kernel begins to drop the frames, and still has it after the kernel has
 * stopped. Meanwhile both get the frames, so none is lost. The kernel is waited for without the lock. */
int uflow_make(struct uverbs_file *file, struct uflow *f, uflow_resolve *resolve, const void *arg)
{
	struct device *d = file->device;
	int r;

	device_lock(d);
	r = uflow_enter(file, f, resolve, arg);
	device_unlock(d);
	if (r)
		return r;
	r = kernel_drop_add(&d->kernel_drop, &f->rules[0], &f->dropped);
	if (!r) {
		device_lock(d);
		r = object_add(file, &f->object, OBJECT_FLOW, uflow_destroy);
		device_unlock(d);
	}
	if (r) {
		kernel_drop_remove(&d->kernel_drop, &f->dropped);
		device_lock(d);
		uflow_leave(d, f);
		device_unlock(d);
	}
	return r;
}

struct specs_wish {
	const struct command *command;
	uint32_t qp_handle;
};

static int flow_resolve_specs(struct uverbs_file *file, struct uflow *f, const void *arg)
{
	const struct specs_wish *w = arg;

	f->qp = object_find(file, w->qp_handle, OBJECT_QP);
	if (!f->qp)
		return refuse(EINVAL, "qp", "no such queue pair", "ib_uverbs: ib_uverbs_ex_create_flow");
	return uflow_bind_counters(f, w->command);
}

int cmd_ex_create_flow(struct command *c)
{
	struct ib_uverbs_create_flow_resp resp = {};
	struct ib_uverbs_create_flow req;
	size_t specs_bytes = c->in_bytes - sizeof(req);
	struct flow_request wish;
	struct uflow *f;
	int r;

	memcpy(&req, c->in, sizeof(req));
	if (req.comp_mask)
		return refuse(EINVAL, "comp_mask", "not 0", "ib_uverbs: ib_uverbs_ex_create_flow");
	if (!program_has_net_raw())
		return refuse(EPERM, "flow", "needs CAP_NET_RAW", "ib_uverbs: ib_uverbs_ex_create_flow");
	if (req.flow_attr.reserved[0] || req.flow_attr.reserved[1])
		return -EINVAL;
	if (req.flow_attr.size > specs_bytes)
		return refuse(ENOSPC, "size", "longer than the request", "ib_uverbs: uverbs_request_next");
	for (size_t i = req.flow_attr.size; i < specs_bytes; i++)
		if (((const uint8_t *)c->in)[sizeof(req) + i])
			return refuse(EOPNOTSUPP, "size", "bytes behind the specs", "ib_uverbs: uverbs_request_finish");
	wish = (struct flow_request){
		.type = req.flow_attr.type,
		.flags = req.flow_attr.flags,
		.priority = req.flow_attr.priority,
		/* A port without a representor is refused like one that is not there (mlx5_ib: _create_flow_rule). */
		.port = req.flow_attr.port == device_port(c->file->device) ? 1 : 0,
		.n_specs = req.flow_attr.num_of_specs,
		.specs = (const uint8_t *)c->in + sizeof(req),
		.specs_bytes = req.flow_attr.size,
	};
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	r = flow_parse(f->rules, &wish, &c->file->device->config.profile->flow);
	if (r > 0) {
		f->n_rules = (unsigned int)r;
		r = uflow_make(c->file, f, flow_resolve_specs, &(struct specs_wish){c, req.qp_handle});
	}
	if (r) {
		free(f);
		return r;
	}
	resp.flow_handle = f->object.handle;
	COMMAND_OUT(c, &resp);
	return 0;
}

void flows_leave_kernel(struct uverbs_file *file)
{
	for (uint32_t i = 0; i < file->objects.size; i++) {
		struct uflow *f = (struct uflow *)file->objects.slots[i];

		if (f && f->object.type == OBJECT_FLOW)
			kernel_drop_remove(&file->device->kernel_drop, &f->dropped);
	}
}

int uflow_destroy_handle(struct uverbs_file *file, uint32_t handle)
{
	struct device *d = file->device;
	struct uflow *f;

	device_lock(d);
	f = object_find(file, handle, OBJECT_FLOW);
	if (f)
		object_remove(&f->object);
	device_unlock(d);
	if (!f)
		return refuse(ENOENT, "flow", "no such flow", "ib_uverbs: ib_uverbs_ex_destroy_flow");
	kernel_drop_remove(&d->kernel_drop, &f->dropped);
	device_lock(d);
	uflow_leave(d, f);
	device_unlock(d);
	free(f);
	return 0;
}

int cmd_ex_destroy_flow(struct command *c)
{
	struct ib_uverbs_destroy_flow req;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	return req.comp_mask ? -EINVAL : uflow_destroy_handle(c->file, req.flow_handle);
}

static void counters_destroy(struct object *o)
{
	free(((struct counters *)o)->descs);
}

int ioctl_counters_create(struct ioctl_call *call)
{
	struct ib_uverbs_attr *handle = ioctl_attr(call, UVERBS_ATTR_CREATE_COUNTERS_HANDLE);
	struct counters *k;

	if (!handle)
		return -EINVAL;
	k = calloc(1, sizeof(*k));
	return k ? ioctl_add_object(call, handle, &k->object, OBJECT_COUNTERS, counters_destroy) : -ENOMEM;
}

/* Reads under the lock: a packet is either not counted yet, or its completion is there already. */
int ioctl_counters_read(struct ioctl_call *call)
{
	struct ib_uverbs_attr *a = ioctl_attr(call, UVERBS_ATTR_READ_COUNTERS_HANDLE);
	struct ib_uverbs_attr *out = ioctl_attr(call, UVERBS_ATTR_READ_COUNTERS_BUFF);
	uint32_t flags = 0;
	struct counters *k;
	int r = 0;

	ioctl_in(call, UVERBS_ATTR_READ_COUNTERS_FLAGS, &flags, 4);
	if (!a || !out || (flags & ~(uint32_t)IB_UVERBS_READ_COUNTERS_PREFER_CACHED))
		return -EINVAL;
	r = uverbs_ask_firmware(call->file, false);
	if (r)
		return r;
	device_lock(call->file->device);
	k = object_find(call->file, (uint32_t)a->data, OBJECT_COUNTERS);
	/* Without a flow there is nothing to read (verbs-rules.md "Flow rules"). */
	if (!k || !k->object.n_users || k->max_index > out->len / sizeof(uint64_t)) {
		r = refuse(EINVAL, "counters", "no flow uses them, or they have more values than there is room for",
		           "mlx5_ib: mlx5_ib_read_counters");
	} else {
		uint64_t values[UINT16_MAX / sizeof(uint64_t)] = {};

		for (uint32_t i = 0; i < k->n_descs; i++)
			values[k->descs[i].index] +=
				k->descs[i].what == COUNT_PACKETS ? k->value.packets : k->value.bytes;
		/* Only whole counters are written (ib_uverbs: ib_uverbs_handler_UVERBS_METHOD_COUNTERS_READ). */
		r = ioctl_out_at(out, 0, values, out->len / sizeof(uint64_t) * sizeof(uint64_t));
	}
	device_unlock(call->file->device);
	return r;
}
