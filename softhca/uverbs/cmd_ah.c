// SPDX-License-Identifier: Apache-2.0
/* Commands of address handles and of multicast groups, and the completion of the paths that programs give. */
#include "command.h"

#include "../device/netdev.h"
#include "../device/refuse.h"
#include "../roce/neighbor.h"
#include "../roce/roce_qp.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <stdlib.h>

int path_resolve(struct device *d, struct roce_path *path, unsigned int sgid_index, unsigned int port)
{
	struct gid gids[ROCE_MAX_GIDS];
	size_t n = device_n_gids(d) ? netdev_gids(device_port_netdev(d), gids, ROCE_MAX_GIDS) : 0;

	/* rdma_check_ah_attr: the port exists, and so does the source GID. */
	if (!port || port > device_port(d) || sgid_index >= n)
		return -EINVAL;
	memcpy(path->sgid, gids[sgid_index].raw, sizeof(path->sgid));
	path->version = (enum roce_version)gids[sgid_index].type;
	for (size_t i = 0; i < n; i++)
		if (!memcmp(gids[i].raw, path->dgid, sizeof(path->dgid)))
			return neighbor_own_mac(device_port_netdev(d), path->dmac);
	return neighbor_find(device_port_netdev(d), path);
}

static void ah_destroy(struct object *o)
{
	((struct ah *)o)->pd->object.n_users--;
}

/* With the lock held. */
static int ah_enter(struct command *c, struct ah *ah, uint32_t pd_handle)
{
	int r;

	ah->pd = object_find(c->file, pd_handle, OBJECT_PD);
	if (!ah->pd)
		return -EINVAL;
	r = object_add(c->file, &ah->object, OBJECT_AH, ah_destroy);
	if (!r)
		ah->pd->object.n_users++;
	return r;
}

/* ib_uverbs_create_ah; mlx5_ib_create_ah tells libmlx5 the MAC address. */
int cmd_create_ah(struct command *c)
{
	struct mlx5_ib_create_ah_resp drv = {.response_length = offsetof(struct mlx5_ib_create_ah_resp, reserved)};
	struct device *d = c->file->device;
	struct ib_uverbs_create_ah_resp resp = {};
	struct ib_uverbs_create_ah req;
	struct roce_path path = {};
	struct ah *ah;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (!req.attr.is_global)
		return refuse(EINVAL, "attr.is_global", "RoCE needs a GRH", "ib_core: rdma_check_ah_attr");
	memcpy(path.dgid, req.attr.grh.dgid, sizeof(path.dgid));
	r = path_resolve(d, &path, req.attr.grh.sgid_index, req.attr.port_num);
	if (r)
		return r;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return -ENOMEM;
	device_lock(d);
	r = ah_enter(c, ah, req.pd_handle);
	device_unlock(d);
	if (r) {
		free(ah);
		return r;
	}
	roce_read_gids(d);
	resp.ah_handle = ah->object.handle;
	memcpy(drv.dmac, path.dmac, sizeof(drv.dmac));
	COMMAND_OUT(c, &resp);
	command_out(c->drv_out, c->drv_out_bytes, &drv, sizeof(drv));
	return 0;
}

static struct roce_group *group_find(const struct roce_qp *q, const uint8_t gid[16])
{
	struct roce_group *g;

	LIST_FOREACH (g, &q->groups, link)
		if (!memcmp(g->gid, gid, sizeof(g->gid)))
			return g;
	return NULL;
}

/* ib_attach_mcast, ib_detach_mcast: these work on queue pairs of type UD only, and on multicast GIDs. With the lock
 * held; NULL if one of them is wrong. */
static struct roce_qp *group_qp(struct command *c, uint32_t handle, const uint8_t gid[16])
{
	struct uqp *u = object_find(c->file, handle, OBJECT_QP);

	return u && u->qp.roce && u->qp.roce->ud && gid_is_multicast(gid) ? u->qp.roce : NULL;
}

int cmd_attach_mcast(struct command *c)
{
	struct ib_uverbs_attach_mcast req;
	struct roce_group *g = NULL;
	struct roce_qp *q;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	device_lock(c->file->device);
	q = group_qp(c, req.qp_handle, req.gid);
	if (!q) {
		r = -EINVAL;
	} else if (!group_find(q, req.gid)) {
		g = calloc(1, sizeof(*g));
		r = g ? 0 : -ENOMEM;
	}
	if (g) {
		memcpy(g->gid, req.gid, sizeof(g->gid));
		LIST_INSERT_HEAD(&q->groups, g, link);
	}
	device_unlock(c->file->device);
	return r;
}

int cmd_detach_mcast(struct command *c)
{
	struct ib_uverbs_detach_mcast req;
	struct roce_group *g = NULL;
	struct roce_qp *q;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	device_lock(c->file->device);
	q = group_qp(c, req.qp_handle, req.gid);
	g = q ? group_find(q, req.gid) : NULL;
	if (g)
		LIST_REMOVE(g, link);
	device_unlock(c->file->device);
	if (!g)
		return -EINVAL;
	free(g);
	return 0;
}
