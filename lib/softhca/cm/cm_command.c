// SPDX-License-Identifier: Apache-2.0
/*
 * The commands of /dev/infiniband/rdma_cm (rdma_user_cm.h). As in ucma_write(), a command is read whole from where the
 * program says, and answers go to the address in it.
 */
#include "cm_call.h"

#include "cm_connection.h"
#include "cm_engine.h"
#include "cm_group.h"
#include "cm_query.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_BACKLOG 1024 /* rdma_ucm: max_backlog */

/* ucma_get_qp_type */
static int create_id_qp_type(const struct rdma_ucm_create_id *cmd, uint8_t *type)
{
	switch (cmd->ps) {
	case RDMA_PS_TCP:
		*type = IB_UVERBS_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*type = IB_UVERBS_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*type = cmd->qp_type;
		return 0;
	default:
		return -EINVAL;
	}
}

static int cm_create_id(const struct cm_call *c)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id cmd;
	struct cm_id *id;
	uint8_t type;
	int r;

	if (c->out_bytes < sizeof(resp))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (!r)
		r = create_id_qp_type(&cmd, &type);
	if (r)
		return r;
	id = cm_id_new(c->file, cmd.ps, type);
	if (!id)
		return -ENOMEM;
	id->uid = cmd.uid;
	resp.id = id->handle;
	r = call_write(c, cmd.response, &resp, sizeof(resp));
	if (r)
		cm_id_free(id);
	return r;
}

static int cm_destroy_id(const struct cm_call *c)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct rdma_ucm_destroy_id cmd;
	struct cm_id *id;
	int r;

	if (c->out_bytes < sizeof(resp))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	if (r)
		return r;
	resp.events_reported = id->n_events_reported;
	cm_destroy(id);
	return call_write(c, cmd.response, &resp, sizeof(resp));
}

static int cm_bind_ip(const struct cm_call *c)
{
	union cm_address address = {};
	struct rdma_ucm_bind_ip cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (r)
		return r;
	memcpy(&address, &cmd.addr, sizeof(cmd.addr));
	if (!cm_address_fits(&address, sizeof(cmd.addr)))
		return -EINVAL;
	r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : cm_id_bind(id, &address);
}

static int cm_bind(const struct cm_call *c)
{
	union cm_address address = {};
	struct rdma_ucm_bind cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (r)
		return r;
	memcpy(&address, &cmd.addr, sizeof(cmd.addr));
	if (cmd.reserved || !cmd.addr_size || cmd.addr_size != cm_address_bytes(&address))
		return -EINVAL;
	r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : cm_id_bind(id, &address);
}

/* The thread looks for the neighbour. */
static int resolve_address(struct cm_id *id, const union cm_address *src, const union cm_address *dst)
{
	int r = cm_id_resolve_address(id, src, dst);

	return r ? r : cm_engine_start(id->file->cm);
}

static int cm_resolve_ip(const struct cm_call *c)
{
	union cm_address src = {}, dst = {};
	struct rdma_ucm_resolve_ip cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (r)
		return r;
	memcpy(&src, &cmd.src_addr, sizeof(cmd.src_addr));
	memcpy(&dst, &cmd.dst_addr, sizeof(cmd.dst_addr));
	if ((src.any.sa_family && !cm_address_fits(&src, sizeof(cmd.src_addr))) ||
	    !cm_address_fits(&dst, sizeof(cmd.dst_addr)))
		return -EINVAL;
	r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : resolve_address(id, &src, &dst);
}

static int cm_resolve_addr(const struct cm_call *c)
{
	union cm_address src = {}, dst = {};
	struct rdma_ucm_resolve_addr cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (r)
		return r;
	if (cmd.src_size)
		memcpy(&src, &cmd.src_addr, sizeof(cmd.src_addr));
	memcpy(&dst, &cmd.dst_addr, sizeof(cmd.dst_addr));
	if (cmd.reserved || (cmd.src_size && cmd.src_size != cm_address_bytes(&src)) || !cmd.dst_size ||
	    cmd.dst_size != cm_address_bytes(&dst))
		return -EINVAL;
	r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : resolve_address(id, &src, &dst);
}

static int cm_resolve_route(const struct cm_call *c)
{
	struct rdma_ucm_resolve_route cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	return r ? r : cm_id_resolve_route(id);
}

static int cm_command_query_route(const struct cm_call *c)
{
	struct rdma_ucm_query_route_resp resp;
	struct rdma_ucm_query cmd;
	struct cm_id *id;
	int r;

	if (c->out_bytes < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	if (r)
		return r;
	cm_query_route(id, &resp);
	return call_write(c, cmd.response, &resp, sizeof(resp));
}

static int cm_command_query(const struct cm_call *c)
{
	union {
		struct rdma_ucm_query_addr_resp address;
		struct cm_path_resp path;
	} resp;
	size_t bytes = sizeof(resp.address), least = offsetof(struct rdma_ucm_query_addr_resp, ibdev_index);
	struct rdma_ucm_query cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	if (r)
		return r;
	switch (cmd.option) {
	case RDMA_USER_CM_QUERY_ADDR:
		cm_query_address(id, &resp.address);
		break;
	case RDMA_USER_CM_QUERY_GID:
		cm_query_gid(id, &resp.address);
		break;
	case RDMA_USER_CM_QUERY_PATH:
		least = offsetof(struct cm_path_resp, path);
		bytes = cm_query_path(id, &resp.path);
		/* A path that does not fit is left out, but counted. */
		if (c->out_bytes < bytes)
			bytes = least;
		break;
	default:
		return -ENOSYS;
	}
	return c->out_bytes < least ? -ENOSPC : call_write(c, cmd.response, &resp, bytes);
}

static int cm_listen(const struct cm_call *c)
{
	struct rdma_ucm_listen cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	if (!r)
		r = cm_engine_start(c->file->cm);
	if (!r)
		r = cm_transport_open(c->file->cm);
	if (!r)
		r = cm_id_listen(id);
	if (!r)
		id->backlog = cmd.backlog && cmd.backlog < MAX_BACKLOG ? cmd.backlog : MAX_BACKLOG;
	return r;
}

static int cm_init_qp_attr(const struct cm_call *c)
{
	struct ib_uverbs_qp_attr resp = {};
	struct rdma_ucm_init_qp_attr cmd;
	struct cm_id *id;
	int r;

	if (c->out_bytes < sizeof(resp))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (!r && cmd.qp_state > CM_QPS_ERR)
		r = -EINVAL;
	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	if (r)
		return r;
	r = cm_qp_attributes(id, cmd.qp_state, &resp);
	return r ? r : call_write(c, cmd.response, &resp, sizeof(resp));
}

/* Waits as a read of the descriptor does: not if it does not block, and a signal ends it. Lock not held. */
static int event_wait(int fd)
{
	char token;

	return syscall(SYS_recvfrom, fd, &token, sizeof(token), MSG_PEEK, NULL, NULL) < 0 ? -errno : 0;
}

static int cm_get_event(const struct cm_call *c)
{
	struct rdma_ucm_get_event cmd;
	struct cm_event *e;
	int r;

	if (c->out_bytes < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	while (!r && STAILQ_EMPTY(&c->file->events)) {
		pthread_mutex_unlock(&c->file->cm->lock);
		r = event_wait(c->fd);
		pthread_mutex_lock(&c->file->cm->lock);
	}
	if (r)
		return r;
	e = STAILQ_FIRST(&c->file->events);
	r = call_write(c, cmd.response, &e->resp, sizeof(e->resp));
	if (r)
		return r;
	e->id->n_events_reported++;
	if (e->group)
		e->group->n_events_reported++;
	if (e->resp.event == CM_EVENT_CONNECT_REQUEST) {
		e->id->backlog++;
		c->file->cm->ids[e->resp.id]->listener = NULL;
	}
	cm_event_remove(c->file, e);
	return 0;
}

static int option_of_id(struct cm_id *id, const struct rdma_ucm_set_option *o)
{
	int value = 0;
	size_t bytes = o->optname == RDMA_OPTION_ID_TOS || o->optname == RDMA_OPTION_ID_ACK_TIMEOUT ? 1 : sizeof(value);
	int r;

	if (o->optname > RDMA_OPTION_ID_ACK_TIMEOUT)
		return -ENOSYS;
	if (o->optlen != bytes)
		return -EINVAL;
	r = user_memory_read(&value, o->optval, bytes);
	if (r)
		return r;
	switch (o->optname) {
	case RDMA_OPTION_ID_TOS:
		id->tos = (uint8_t)value;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR: /* only listeners share a port so, and here none does */
		return id->state == CM_IDLE || id->state == CM_ADDR_BOUND ? 0 : -EINVAL;
	case RDMA_OPTION_ID_AFONLY:
		if (id->state != CM_IDLE && id->state != CM_ADDR_BOUND)
			return -EINVAL;
		id->afonly = value;
		return 0;
	default: /* rdma_set_ack_timeout: of queue pairs of type RC */
		if (id->qp_type != IB_UVERBS_QPT_RC)
			return -EINVAL;
		id->ack_timeout = (uint8_t)value;
		return 0;
	}
}

static int cm_set_option(const struct cm_call *c)
{
	struct rdma_ucm_set_option cmd;
	struct cm_id *id;
	int r = CALL_READ(c, &cmd);

	/* KMALLOC_MAX_SIZE */
	if (!r && cmd.optlen > 1 << 22)
		r = -EINVAL;
	if (!r)
		r = cm_id_find(c->file, cmd.id, &id);
	if (r)
		return r;
	/* RDMA_OPTION_IB_PATH is of a subnet administrator, which RoCE does not have. */
	return cmd.level == RDMA_OPTION_ID ? option_of_id(id, &cmd) : -ENOSYS;
}

/* Takes an identifier over from the file that the program names by its descriptor. */
static int cm_migrate_id(const struct cm_call *c)
{
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id cmd;
	struct fd_object *from;
	struct cm_id *id;
	int r;

	if (c->out_bytes < sizeof(resp))
		return -ENOSPC;
	r = CALL_READ(c, &cmd);
	if (r)
		return r;
	from = fdtab_find(c->file->cm->fdtab, (int)cmd.fd, FD_CM);
	if (!from)
		return -EINVAL;
	r = cm_id_find((struct cm_file *)from, cmd.id, &id);
	if (!r) {
		resp.events_reported = id->n_events_reported;
		cm_id_move(id, c->file);
		r = call_write(c, cmd.response, &resp, sizeof(resp));
	}
	c->file->late = from; /* its release takes the lock */
	return r;
}

static int (*const cm_commands[])(const struct cm_call *c) = {
	[RDMA_USER_CM_CMD_CREATE_ID] = cm_create_id,
	[RDMA_USER_CM_CMD_DESTROY_ID] = cm_destroy_id,
	[RDMA_USER_CM_CMD_BIND_IP] = cm_bind_ip,
	[RDMA_USER_CM_CMD_RESOLVE_IP] = cm_resolve_ip,
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = cm_resolve_route,
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = cm_command_query_route,
	[RDMA_USER_CM_CMD_CONNECT] = cm_command_connect,
	[RDMA_USER_CM_CMD_LISTEN] = cm_listen,
	[RDMA_USER_CM_CMD_ACCEPT] = cm_command_accept,
	[RDMA_USER_CM_CMD_REJECT] = cm_command_reject,
	[RDMA_USER_CM_CMD_DISCONNECT] = cm_command_disconnect,
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = cm_init_qp_attr,
	[RDMA_USER_CM_CMD_GET_EVENT] = cm_get_event,
	[RDMA_USER_CM_CMD_SET_OPTION] = cm_set_option,
	[RDMA_USER_CM_CMD_NOTIFY] = cm_command_notify,
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = cm_join_ip_mcast,
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = cm_leave_mcast,
	[RDMA_USER_CM_CMD_MIGRATE_ID] = cm_migrate_id,
	[RDMA_USER_CM_CMD_QUERY] = cm_command_query,
	[RDMA_USER_CM_CMD_BIND] = cm_bind,
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = cm_resolve_addr,
	[RDMA_USER_CM_CMD_JOIN_MCAST] = cm_join_mcast,
};

ssize_t cm_write(struct cm_file *file, int fd, const void *buf, size_t bytes)
{
	struct cm_call call = {.file = file, .fd = fd, .in = (uintptr_t)buf + sizeof(struct rdma_ucm_cmd_hdr)};
	struct rdma_ucm_cmd_hdr hdr;
	struct fd_object *late;
	int r;

	if (bytes < sizeof(hdr))
		return -EINVAL;
	if (user_memory_read(&hdr, (uintptr_t)buf, sizeof(hdr)))
		return -EFAULT;
	if (hdr.cmd >= sizeof(cm_commands) / sizeof(cm_commands[0]) || hdr.in + sizeof(hdr) > bytes)
		return -EINVAL;
	if (!cm_commands[hdr.cmd])
		return -ENOSYS;
	call.in_bytes = hdr.in;
	call.out_bytes = hdr.out;
	pthread_mutex_lock(&file->cm->lock);
	r = cm_commands[hdr.cmd](&call);
	late = file->late;
	file->late = NULL;
	pthread_mutex_unlock(&file->cm->lock);
	fd_object_put(late);
	return r ? r : (ssize_t)bytes;
}
