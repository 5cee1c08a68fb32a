// SPDX-License-Identifier: Apache-2.0
/* The commands of connections and of multicast groups. */
#include "cm_call.h"

#include "cm_connection.h"
#include "cm_engine.h"
#include "cm_group.h"

#include <errno.h>

int cm_command_connect(const struct cm_call *c)
{
	int r = c->connect.conn_param.valid ? cm_engine_start(c->file->cm) : -EINVAL;

	return r ? r : cm_connect(c->id, &c->connect.conn_param);
}

int cm_command_accept(const struct cm_call *c)
{
	const struct rdma_ucm_accept *cmd = &c->accept;

	return cm_accept(c->id, cmd->conn_param.valid ? &cmd->conn_param : NULL, cmd->uid);
}

int cm_command_reject(const struct cm_call *c)
{
	return cm_reject(c->id, c->reject.private_data, c->reject.private_data_len, c->reject.reason);
}

int cm_command_disconnect(const struct cm_call *c)
{
	return cm_disconnect(c->id);
}

int cm_command_notify(const struct cm_call *c)
{
	return cm_notify(c->id, c->notify.event);
}

static int join_group(const struct cm_call *c, const union cm_address *a, uint64_t uid, bool sends_only,
                      uint64_t response)
{
	struct rdma_ucm_create_id_resp resp;
	struct cm_group *g;
	int r = cm_group_join(c->id, a, uid, sends_only, &g);

	if (r)
		return r;
	resp.id = g->handle;
	r = call_write(c, response, &resp, sizeof(resp));
	if (r)
		cm_group_leave(c->id, g);
	return r;
}

int cm_join_ip_mcast(const struct cm_call *c)
{
	const struct rdma_ucm_join_ip_mcast *cmd = &c->join_ip_mcast;
	union cm_address a;

	if (!call_address(&a, &cmd->addr, sizeof(cmd->addr), NOT_TOLD))
		return -EINVAL;
	return join_group(c, &a, cmd->uid, false, cmd->response);
}

int cm_join_mcast(const struct cm_call *c)
{
	const struct rdma_ucm_join_mcast *cmd = &c->join_mcast;
	union cm_address a;

	if (!call_address(&a, &cmd->addr, sizeof(cmd->addr), cmd->addr_size) ||
	    cmd->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return join_group(c, &a, cmd->uid, cmd->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, cmd->response);
}

int cm_leave_mcast(const struct cm_call *c)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct cm_id *id;
	struct cm_group *g = cm_group_find(c->file, c->destroy_id.id, &id);

	if (!g)
		return -ENOENT;
	resp.events_reported = g->n_events_reported;
	cm_group_leave(id, g);
	return call_write(c, c->destroy_id.response, &resp, sizeof(resp));
}
