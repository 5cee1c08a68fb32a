// SPDX-License-Identifier: Apache-2.0
/* Commands of flow matchers, and of the flows that belong to them (mlx5_ib: fs.c). */
#include "../device/refuse.h"
#include "ioctl.h"
#include "uflow.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_verbs.h>
#include <stdlib.h>

#define EGRESS        4u
#define MAX_TAG       (1u << 24)
#define ALL_THE_FLAGS (MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DEFAULT_MISS | MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP)

static int matcher_read_table(struct ioctl_call *call, struct umatcher *m)
{
	bool has_type = ioctl_attr(call, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE);
	bool has_flags = ioctl_attr(call, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS);
	uint64_t type = MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX, flags = 0;
	int r = 0;

	if (has_type && has_flags)
		return refuse(EINVAL, "ft_type, flags", "only one of them says which table",
		              "mlx5_ib: mlx5_ib_matcher_ns");
	if (has_type)
		r = ioctl_in(call, MLX5_IB_ATTR_FLOW_MATCHER_FT_TYPE, &type, sizeof(type));
	if (has_flags)
		r = ioctl_in(call, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_FLAGS, &flags, 4);
	if (r)
		return r;
	if (type > MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_TX || (flags & ~(uint64_t)EGRESS))
		return refuse(EINVAL, "ft_type, flags", "no such table", "mlx5_ib: mlx5_ib_ft_type_to_namespace");
	m->table = flags ? MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX : (uint8_t)type;
	return 0;
}

/* The mask itself is looked at when a flow is made. */
static int matcher_read(struct ioctl_call *call, struct umatcher *m)
{
	const struct ib_uverbs_attr *mask = ioctl_attr(call, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_MASK);
	const struct ib_uverbs_attr *type = ioctl_attr(call, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE);
	int r;

	if (!mask || !type || !mask->len || mask->len > sizeof(m->match.mask))
		return refuse(EINVAL, "match_mask, type", "missing, or longer than fte_match_param",
		              "mlx5_ib: MLX5_IB_METHOD_FLOW_MATCHER_CREATE");
	m->type = type->attr_data.enum_data.elem_id;
	if (m->type > MLX5_IB_FLOW_TYPE_MC_DEFAULT)
		return refuse(EOPNOTSUPP, "type", "no such type", "ib_uverbs: uverbs_process_attr");
	if ((r = ioctl_read_attr(mask, m->match.mask, mask->len)) ||
	    (r = ioctl_in(call, MLX5_IB_ATTR_FLOW_MATCHER_MATCH_CRITERIA, &m->match.criteria, 1)))
		return r;
	if (m->type == MLX5_IB_FLOW_TYPE_NORMAL)
		r = ioctl_in(call, MLX5_IB_ATTR_FLOW_MATCHER_FLOW_TYPE, &m->match.priority, 2);
	return r ? r : matcher_read_table(call, m);
}

int ioctl_matcher_create(struct ioctl_call *call)
{
	struct ib_uverbs_attr *handle = ioctl_attr(call, MLX5_IB_ATTR_FLOW_MATCHER_CREATE_HANDLE);
	struct umatcher *m;
	int r;

	if (!handle)
		return -EINVAL;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	r = matcher_read(call, m);
	if (r) {
		free(m);
		return r;
	}
	return ioctl_add_object(call, handle, &m->object, OBJECT_MATCHER, NULL);
}

struct flow_wish {
	const struct ib_uverbs_attr *matcher, *qp;
	uint32_t flags, tag;
	bool has_tag;
	uint8_t value[MATCH_PARAM_BYTES];
};

static int flow_read_wish(struct ioctl_call *call, struct flow_wish *w)
{
	const struct ib_uverbs_attr *value = ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_MATCH_VALUE);
	int r = 0;

	w->matcher = ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_MATCHER);
	w->qp = ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_DEST_QP);
	w->has_tag = ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_TAG);
	if (!w->matcher || !value || !value->len || value->len > sizeof(w->value))
		return refuse(EINVAL, "match_value", "missing, or longer than fte_match_param",
		              "mlx5_ib: MLX5_IB_METHOD_CREATE_FLOW");
	if (ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_DEST_DEVX) ||
	    ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_ARR_COUNTERS_DEVX) ||
	    ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_ARR_FLOW_ACTIONS))
		return refuse(ENOENT, "action", "no such object: this device makes no DEVX objects and flow actions",
		              "ib_uverbs: uverbs_process_attr");
	if (!program_has_net_raw())
		return refuse(EPERM, "flow", "needs CAP_NET_RAW", "mlx5_ib: MLX5_IB_METHOD_CREATE_FLOW");
	r = ioctl_read_attr(value, w->value, value->len);
	if (!r && ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_FLAGS))
		r = ioctl_in(call, MLX5_IB_ATTR_CREATE_FLOW_FLAGS, &w->flags, 4);
	if (!r && w->has_tag)
		r = ioctl_in(call, MLX5_IB_ATTR_CREATE_FLOW_TAG, &w->tag, 4);
	if (r)
		return r;
	return w->tag < MAX_TAG ? 0 : refuse(EINVAL, "tag", "more than 24 bits", "mlx5_ib: MLX5_IB_METHOD_CREATE_FLOW");
}

/* get_dests: one destination, and one that fits to the table. */
static int flow_check_destination(const struct flow_wish *w, const struct umatcher *m, const struct uqp *qp)
{
	bool drop = w->flags & MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP;

	if ((w->flags & ~(uint32_t)ALL_THE_FLAGS) || w->flags == ALL_THE_FLAGS)
		return refuse(EINVAL, "flags", "unknown, or both DROP and DEFAULT_MISS", "mlx5_ib: get_dests");
	if ((m->table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX && qp && w->flags) ||
	    (m->table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_TX && qp) ||
	    (m->table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_FDB && !drop) ||
	    (m->table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_RDMA_RX && !qp))
		return refuse(EINVAL, "destination", "two of them, or one that this table cannot have",
		              "mlx5_ib: get_dests");
	if (qp && qp->type != IB_UVERBS_QPT_RAW_PACKET)
		return refuse(EINVAL, "qp", "not a queue pair for raw packets", "mlx5_ib: get_dests");
	return 0;
}

/* raw_fs_rule_add. */
static int flow_check_matcher(const struct umatcher *m, const struct flow_limits *limits)
{
	if (m->type != MLX5_IB_FLOW_TYPE_NORMAL)
		return refuse(EOPNOTSUPP, "type", "only NORMAL matchers have flows", "mlx5_ib: raw_fs_rule_add");
	if (m->match.priority >= limits->n_priorities)
		return refuse(ENOMEM, "priority", "past the last", "mlx5_ib: raw_fs_rule_add");
	return m->table == MLX5_IB_UAPI_FLOW_TABLE_TYPE_NIC_RX
	               ? 0
	               : refuse(EOPNOTSUPP, "ft_type", "the device has tables for received frames only",
	                        "mlx5_ib: _get_flow_table");
}

static int flow_resolve_wish(struct uverbs_file *file, struct uflow *f, const void *arg)
{
	const struct flow_wish *w = arg;
	int r;

	f->matcher = object_find(file, (uint32_t)w->matcher->data, OBJECT_MATCHER);
	f->qp = w->qp ? object_find(file, (uint32_t)w->qp->data, OBJECT_QP) : NULL;
	if (!f->matcher || (w->qp && !f->qp))
		return refuse(ENOENT, "matcher, qp", "no such object", "ib_uverbs: uverbs_process_attr");
	if ((r = flow_check_destination(w, f->matcher, f->qp)) ||
	    (r = flow_check_matcher(f->matcher, &file->device->config.profile->flow)))
		return r;
	f->n_rules = 1;
	f->rules[0].tag = w->tag;
	f->rules[0].has_tag = w->has_tag;
	f->rules[0].action = w->flags & MLX5_IB_ATTR_CREATE_FLOW_FLAGS_DROP ? FLOW_DROP
	                     : w->flags                                     ? FLOW_MISS
	                                                                    : FLOW_FORWARD;
	if (!f->qp && f->rules[0].action == FLOW_FORWARD)
		return refuse(EINVAL, "destination", "none", "PRM: flow_context, action");
	return flow_match_param(&f->rules[0], &f->matcher->match, w->value);
}

int ioctl_flow_create(struct ioctl_call *call)
{
	struct ib_uverbs_attr *handle = ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_HANDLE);
	struct flow_wish wish = {};
	struct uflow *f;
	int r = handle ? flow_read_wish(call, &wish) : -EINVAL;

	if (r)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f)
		return -ENOMEM;
	r = uflow_make(call->file, f, flow_resolve_wish, &wish);
	if (r)
		free(f);
	else
		handle->data = f->object.handle;
	return r;
}

int ioctl_flow_destroy(struct ioctl_call *call)
{
	struct ib_uverbs_attr *a = ioctl_attr(call, MLX5_IB_ATTR_CREATE_FLOW_HANDLE);

	return a ? uflow_destroy_handle(call->file, (uint32_t)a->data) : -EINVAL;
}
