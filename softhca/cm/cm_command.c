// SPDX-License-Identifier: Apache-2.0
/*
 * The commands of /dev/infiniband/rdma_cm (rdma_user_cm.h). As in ucma_write(), a command is read whole from where the
 * program says, and answers go to the address in it.
 */
#include "cm_call.h"

#include "../device/qp.h"
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
	const struct rdma_ucm_create_id *cmd = &c->create_id;
	struct rdma_ucm_create_id_resp resp;
	struct cm_id *id;
	uint8_t type;
	int r = create_id_qp_type(cmd, &type);

	if (r)
		return r;
	id = cm_id_new(c->file, cmd->ps, type);
	if (!id)
		return -ENOMEM;
	id->uid = cmd->uid;
	resp.id = id->handle;
	r = call_write(c, cmd->response, &resp, sizeof(resp));
	if (r)
		cm_id_free(id);
	return r;
}

static int cm_destroy_id(const struct cm_call *c)
{
	struct rdma_ucm_destroy_id_resp resp = {.events_reported = c->id->n_events_reported};

	cm_destroy(c->id);
	return call_write(c, c->destroy_id.response, &resp, sizeof(resp));
}

static int cm_bind_ip(const struct cm_call *c)
{
	union cm_address a;

	if (!call_address(&a, &c->bind_ip.addr, sizeof(c->bind_ip.addr), NOT_TOLD))
		return -EINVAL;
	return cm_id_bind(c->id, &a);
}

static int cm_bind(const struct cm_call *c)
{
	union cm_address a;

	if (c->bind.reserved || !call_address(&a, &c->bind.addr, sizeof(c->bind.addr), c->bind.addr_size))
		return -EINVAL;
	return cm_id_bind(c->id, &a);
}

/* The thread looks for the neighbour. */
static int resolve_address(struct cm_id *id, const union cm_address *src, const union cm_address *dst)
{
	int r = cm_id_resolve_address(id, src, dst);

	return r ? r : cm_engine_start(id->file->cm);
}

static int cm_resolve_ip(const struct cm_call *c)
{
	const struct rdma_ucm_resolve_ip *cmd = &c->resolve_ip;
	union cm_address src, dst;

	if ((!call_address(&src, &cmd->src_addr, sizeof(cmd->src_addr), NOT_TOLD) && src.any.sa_family) ||
	    !call_address(&dst, &cmd->dst_addr, sizeof(cmd->dst_addr), NOT_TOLD))
		return -EINVAL;
	return resolve_address(c->id, &src, &dst);
}

static int cm_resolve_addr(const struct cm_call *c)
{
	const struct rdma_ucm_resolve_addr *cmd = &c->resolve_addr;
	union cm_address src = {}, dst;

	if (cmd->reserved ||
	    (cmd->src_size && !call_address(&src, &cmd->src_addr, sizeof(cmd->src_addr), cmd->src_size)) ||
	    !call_address(&dst, &cmd->dst_addr, sizeof(cmd->dst_addr), cmd->dst_size))
		return -EINVAL;
	return resolve_address(c->id, &src, &dst);
}

static int cm_resolve_route(const struct cm_call *c)
{
	return cm_id_resolve_route(c->id);
}

static int cm_command_query_route(const struct cm_call *c)
{
	struct rdma_ucm_query_route_resp resp;

	cm_query_route(c->id, &resp);
	return call_write(c, c->query.response, &resp, sizeof(resp));
}

static int cm_command_query(const struct cm_call *c)
{
	union {
		struct rdma_ucm_query_addr_resp address;
		struct cm_path_resp path;
	} resp;
	size_t bytes = sizeof(resp.address), least = offsetof(struct rdma_ucm_query_addr_resp, ibdev_index);

	switch (c->query.option) {
	case RDMA_USER_CM_QUERY_ADDR:
		cm_query_address(c->id, &resp.address);
		break;
	case RDMA_USER_CM_QUERY_GID:
		cm_query_gid(c->id, &resp.address);
		break;
	case RDMA_USER_CM_QUERY_PATH:
		least = offsetof(struct cm_path_resp, path);
		bytes = cm_query_path(c->id, &resp.path);
		/* A path that does not fit is left out, but counted. */
		if (c->out_bytes < bytes)
			bytes = least;
		break;
	default:
		return -ENOSYS;
	}
	return c->out_bytes < least ? -ENOSPC : call_write(c, c->query.response, &resp, bytes);
}

static int cm_listen(const struct cm_call *c)
{
	uint32_t backlog = (uint32_t)c->listen.backlog;
	int r = cm_engine_start(c->file->cm);

	if (!r)
		r = cm_transport_open(c->file->cm);
	if (!r)
		r = cm_id_listen(c->id);
	if (!r)
		c->id->backlog = backlog && backlog < MAX_BACKLOG ? backlog : MAX_BACKLOG;
	return r;
}

static int cm_init_qp_attr(const struct cm_call *c)
{
	struct ib_uverbs_qp_attr resp = {};
	int r = c->init_qp_attr.qp_state > QP_ERR ? -EINVAL : cm_qp_attributes(c->id, c->init_qp_attr.qp_state, &resp);

	return r ? r : call_write(c, c->init_qp_attr.response, &resp, sizeof(resp));
}

/* Waits as a read of the descriptor does: not if it does not block, and a signal ends it. Lock not held. */
static int event_wait(int fd)
{
	char token;

	return syscall(SYS_recvfrom, fd, &token, sizeof(token), MSG_PEEK, NULL, NULL) < 0 ? -errno : 0;
}

static int cm_get_event(const struct cm_call *c)
{
	struct cm_event *e;
	int r = 0;

	while (!r && STAILQ_EMPTY(&c->file->events)) {
		pthread_mutex_unlock(&c->file->cm->lock);
		r = event_wait(c->fd);
		pthread_mutex_lock(&c->file->cm->lock);
	}
	if (r)
		return r;
	e = STAILQ_FIRST(&c->file->events);
	r = call_write(c, c->get_event.response, &e->resp, sizeof(e->resp));
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
	if (c->set_option.optlen > 1 << 22) /* KMALLOC_MAX_SIZE */
		return -EINVAL;
	/* RDMA_OPTION_IB_PATH is of a subnet administrator, which RoCE does not have. */
	return c->set_option.level == RDMA_OPTION_ID ? option_of_id(c->id, &c->set_option) : -ENOSYS;
}

/* Takes an identifier over from the file that the program names by its descriptor. */
static int cm_migrate_id(const struct cm_call *c)
{
	struct fd_object *from = fdtab_find(c->file->cm->fdtab, (int)c->migrate_id.fd, FD_CM);
	struct rdma_ucm_migrate_resp resp;
	struct cm_id *id;
	int r;

	if (!from)
		return -EINVAL;
	r = cm_id_find((struct cm_file *)from, c->migrate_id.id, &id);
	if (!r) {
		resp.events_reported = id->n_events_reported;
		cm_id_move(id, c->file);
		r = call_write(c, c->migrate_id.response, &resp, sizeof(resp));
	}
	c->file->late = from; /* its release takes the lock */
	return r;
}

#define NO_ID    UINT16_MAX
#define OF(type) .bytes = sizeof(struct rdma_ucm_##type), .id = NO_ID
/* A command that names an identifier. */
#define OF_ID(type) .bytes = sizeof(struct rdma_ucm_##type), .id = offsetof(struct rdma_ucm_##type, id)
#define ROOM(type)  .out_bytes = sizeof(struct type)

/* As in the kernel, a command is read to its end, however long the program says that it is. Only the commands with
 * `least` may be shorter: an older librdmacm ends them before the vendor's options (struct rdma_ucm_ece), which are
 * ignored. */
static const struct cm_row {
	cm_handler *handler;
	uint16_t bytes;
	uint16_t id;        /* where the command has the identifier */
	uint16_t out_bytes; /* the least room for the answer */
	uint16_t least;
} cm_commands[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = {cm_create_id, OF(create_id), ROOM(rdma_ucm_create_id_resp)},
	[RDMA_USER_CM_CMD_DESTROY_ID] = {cm_destroy_id, OF_ID(destroy_id), ROOM(rdma_ucm_destroy_id_resp)},
	[RDMA_USER_CM_CMD_BIND_IP] = {cm_bind_ip, OF_ID(bind_ip)},
	[RDMA_USER_CM_CMD_RESOLVE_IP] = {cm_resolve_ip, OF_ID(resolve_ip)},
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {cm_resolve_route, OF_ID(resolve_route)},
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = {cm_command_query_route, OF_ID(query),
                                          .out_bytes = offsetof(struct rdma_ucm_query_route_resp, ibdev_index)},
	[RDMA_USER_CM_CMD_CONNECT] = {cm_command_connect, OF_ID(connect),
                                      .least = offsetof(struct rdma_ucm_connect, ece)},
	[RDMA_USER_CM_CMD_LISTEN] = {cm_listen, OF_ID(listen)},
	[RDMA_USER_CM_CMD_ACCEPT] = {cm_command_accept, OF_ID(accept), .least = offsetof(struct rdma_ucm_accept, ece)},
	[RDMA_USER_CM_CMD_REJECT] = {cm_command_reject, OF_ID(reject)},
	[RDMA_USER_CM_CMD_DISCONNECT] = {cm_command_disconnect, OF_ID(disconnect)},
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = {cm_init_qp_attr, OF_ID(init_qp_attr), ROOM(ib_uverbs_qp_attr)},
	[RDMA_USER_CM_CMD_GET_EVENT] = {cm_get_event, OF(get_event),
                                        .out_bytes = offsetof(struct rdma_ucm_event_resp, reserved)},
	[RDMA_USER_CM_CMD_SET_OPTION] = {cm_set_option, OF_ID(set_option)},
	[RDMA_USER_CM_CMD_NOTIFY] = {cm_command_notify, OF_ID(notify)},
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {cm_join_ip_mcast, OF_ID(join_ip_mcast), ROOM(rdma_ucm_create_id_resp)},
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = {cm_leave_mcast, OF(destroy_id), ROOM(rdma_ucm_destroy_id_resp)},
	[RDMA_USER_CM_CMD_MIGRATE_ID] = {cm_migrate_id, OF(migrate_id), ROOM(rdma_ucm_migrate_resp)},
	[RDMA_USER_CM_CMD_QUERY] = {cm_command_query, OF_ID(query)},
	[RDMA_USER_CM_CMD_BIND] = {cm_bind, OF_ID(bind)},
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = {cm_resolve_addr, OF_ID(resolve_addr)},
	[RDMA_USER_CM_CMD_JOIN_MCAST] = {cm_join_mcast, OF_ID(join_mcast), ROOM(rdma_ucm_create_id_resp)},
};

static int cm_run(struct cm_call *c, const struct cm_row *row, uint64_t from, size_t bytes)
{
	uint32_t handle;
	int r = 0;

	if (bytes < row->least)
		return -EINVAL;
	if (c->out_bytes < row->out_bytes)
		return -ENOSPC;
	if (user_memory_read(&c->create_id, from, row->least && bytes < row->bytes ? bytes : row->bytes))
		return -EFAULT;
	if (row->id != NO_ID) {
		memcpy(&handle, (const uint8_t *)&c->create_id + row->id, sizeof(handle));
		r = cm_id_find(c->file, handle, &c->id);
	}
	return r ? r : row->handler(c);
}

ssize_t cm_write(struct cm_file *file, int fd, const void *buf, size_t bytes)
{
	struct cm_call call = {.file = file, .fd = fd};
	struct rdma_ucm_cmd_hdr hdr;
	struct fd_object *late;
	int r;

	if (bytes < sizeof(hdr))
		return -EINVAL;
	if (user_memory_read(&hdr, (uintptr_t)buf, sizeof(hdr)))
		return -EFAULT;
	if (hdr.cmd >= sizeof(cm_commands) / sizeof(cm_commands[0]) || hdr.in + sizeof(hdr) > bytes)
		return -EINVAL;
	if (!cm_commands[hdr.cmd].handler)
		return -ENOSYS;
	call.out_bytes = hdr.out;
	pthread_mutex_lock(&file->cm->lock);
	r = cm_run(&call, &cm_commands[hdr.cmd], (uintptr_t)buf + sizeof(hdr), hdr.in);
	late = file->late;
	file->late = NULL;
	pthread_mutex_unlock(&file->cm->lock);
	fd_object_put(late);
	return r ? r : (ssize_t)bytes;
}
