// SPDX-License-Identifier: Apache-2.0
/* The commands of connections and of multicast groups. */
#include "cm_call.h"

#include "cm_connection.h"
#include "cm_engine.h"
#include "cm_group.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* A request of an older librdmacm ends before the vendor's options, which are ignored (struct rdma_ucm_ece). */
int cm_command_connect(const struct cm_call *c)
{
	struct rdma_ucm_connect cmd = {};
	struct cm_id *id;
	int r;

	if (c->in_bytes < offsetof(struct rdma_ucm_connect, ece))
		return -EINVAL;
	r = user_memory_read(&cmd, c->in, c->in_bytes < sizeof(cmd) ? c->in_bytes : sizeof(cmd));
	if (!r && !cmd.conn_param.valid)
		r = -EINVAL;
	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	if (!r)
		r = cm_engine_start(c->file->cm);
	return r ? r : cm_connect(id, &cmd.conn_param);
}

int cm_command_accept(const struct cm_call *c)
{
	struct rdma_ucm_accept cmd = {};
	struct cm_id *id;
	int r;

	if (c->in_bytes < offsetof(struct rdma_ucm_accept, ece))
		return -EINVAL;
	r = user_memory_read(&cmd, c->in, c->in_bytes < sizeof(cmd) ? c->in_bytes : sizeof(cmd));
	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : cm_accept(id, cmd.conn_param.valid ? &cmd.conn_param : NULL, cmd.uid);
}

int cm_command_reject(const struct cm_call *c)
{
	struct rdma_ucm_reject cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : cm_reject(id, cmd.private_data, cmd.private_data_len, cmd.reason);
}

int cm_command_disconnect(const struct cm_call *c)
{
	struct rdma_ucm_disconnect cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : cm_disconnect(id);
}

int cm_command_notify(const struct cm_call *c)
{
	struct rdma_ucm_notify cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : cm_notify(id, cmd.event);
}

static int join_group(const struct cm_call *c, uint32_t number, const union cm_address *a, uint64_t uid,
                      bool sends_only, uint64_t response)
{
	struct rdma_ucm_create_id_resp resp;
	struct cm_group *g;
	struct cm_id *id;
	int r = cm_id_find(c->file, number, &id);

	if (!r)
		r = cm_group_join(id, a, uid, sends_only, &g);
	if (r)
		return r;
	resp.id = g->handle;
	r = call_write(c, response, &resp, sizeof(resp));
	if (r)
		cm_group_leave(id, g);
	return r;
}

int cm_join_ip_mcast(const struct cm_call *c)
{
	struct rdma_ucm_join_ip_mcast cmd;
	union cm_address a = {};
	int r;

	if (c->out_bytes < sizeof(struct rdma_ucm_create_id_resp))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (r)
		return r;
	memcpy(&a, &cmd.addr, sizeof(cmd.addr));
	if (!cm_address_fits(&a, sizeof(cmd.addr)))
		return -EINVAL;
	return join_group(c, cmd.id, &a, cmd.uid, false, cmd.response);
}

int cm_join_mcast(const struct cm_call *c)
{
	struct rdma_ucm_join_mcast cmd;
	union cm_address a = {};
	int r;

	if (c->out_bytes < sizeof(struct rdma_ucm_create_id_resp))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (r)
		return r;
	memcpy(&a, &cmd.addr, sizeof(cmd.addr));
	if (!cmd.addr_size || cmd.addr_size != cm_address_bytes(&a) || cmd.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return join_group(c, cmd.id, &a, cmd.uid, cmd.join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
	                  cmd.response);
}

int cm_leave_mcast(const struct cm_call *c)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id cmd;
	struct cm_group *g;
	struct cm_id *id;
	int r;

	if (c->out_bytes < sizeof(resp))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (r)
		return r;
	g = cm_group_find(c->file, cmd.id, &id);
	if (!g)
		return -ENOENT;
	resp.events_reported = g->n_events_reported;
	cm_group_leave(id, g);
	return call_write(c, cmd.response, &resp, sizeof(resp));
}
