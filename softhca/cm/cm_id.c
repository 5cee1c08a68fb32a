// SPDX-License-Identifier: Apache-2.0
/* Identifiers: the states that they go through until they lead somewhere (cma.c). */
#include "cm_id.h"

#include "../device/device.h"
#include "../device/netdev.h"
#include "../uverbs/memlock.h"
#include "../wire/own_fd.h"
#include "cm_port.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_GIDS        256
#define FIRST_FREE_PORT 1024                  /* net.ipv4.ip_unprivileged_port_start */
#define SERVICE_PS_MASK 0xFFFFFFFFFFFF0000ull /* RDMA_IB_IP_PS_MASK: all but the port */

struct cm_id *cm_id_new(struct cm_file *file, enum rdma_ucm_port_space ps, uint8_t qp_type)
{
	struct cm *cm = file->cm;
	struct cm_id *id = calloc(1, sizeof(*id));
	uint32_t i = 0;

	while (i < cm->n_ids && cm->ids[i])
		i++;
	if (id && i == cm->n_ids) {
		uint32_t n = cm->n_ids ? cm->n_ids * 2 : 16;
		struct cm_id **ids = realloc(cm->ids, n * sizeof(*ids));

		if (!ids) {
			free(id);
			return NULL;
		}
		memset(ids + cm->n_ids, 0, (n - cm->n_ids) * sizeof(*ids));
		cm->ids = ids;
		cm->n_ids = n;
	}
	if (!id)
		return NULL;
	id->file = file;
	id->handle = i;
	id->ps = ps;
	id->qp_type = qp_type;
	id->port_fd = -1;
	cm->ids[i] = id;
	return id;
}

void cm_id_free(struct cm_id *id)
{
	struct cm_event *e, *next;

	for (e = STAILQ_FIRST(&id->file->events); e; e = next) {
		next = STAILQ_NEXT(e, link);
		if (e->id == id)
			cm_event_remove(id->file, e);
	}
	if (id->listener) /* the program let go of it before it read of it */
		STAILQ_FOREACH (e, &id->listener->file->events, link)
			if (e->id == id->listener && e->resp.event == CM_EVENT_CONNECT_REQUEST &&
			    e->resp.id == id->handle) {
				cm_event_remove(id->listener->file, e);
				id->listener->backlog++;
				break;
			}
	own_fd_close(id->port_fd);
	id->file->cm->ids[id->handle] = NULL;
	free(id);
}

int cm_id_find(struct cm_file *file, uint32_t handle, struct cm_id **id)
{
	*id = handle < file->cm->n_ids ? file->cm->ids[handle] : NULL;
	return !*id ? -ENOENT : (*id)->file != file ? -EINVAL : 0;
}

size_t cm_address_bytes(const union cm_address *a)
{
	switch (a->any.sa_family) {
	case AF_INET:
		return sizeof(a->in);
	case AF_INET6:
		return sizeof(a->in6);
	case CM_AF_IB:
		return sizeof(a->ib);
	default:
		return 0;
	}
}

/* Of AF_IB the port is the lower half of the service identifier. */
uint16_t cm_address_port(const union cm_address *a)
{
	return a->any.sa_family == CM_AF_IB ? (uint16_t)be64toh(a->ib.sid_be) : ntohs(a->in.sin_port);
}

static void address_set_port(union cm_address *a, uint16_t port)
{
	if (a->any.sa_family == CM_AF_IB)
		a->ib.sid_be = htobe64((be64toh(a->ib.sid_be) & ~0xffffull) | port);
	else
		a->in.sin_port = htons(port);
}

/* Zeros for the address that stands for all. */
void cm_address_gid(const union cm_address *a, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (a->any.sa_family == AF_INET && a->in.sin_addr.s_addr) {
		gid[10] = gid[11] = 0xff;
		memcpy(gid + 12, &a->in.sin_addr, 4);
	} else if (a->any.sa_family == AF_INET6) {
		memcpy(gid, &a->in6.sin6_addr, 16);
	} else if (a->any.sa_family == CM_AF_IB) {
		memcpy(gid, a->ib.gid, 16);
	}
}

void cm_address_from_gid(union cm_address *a, const uint8_t gid[16], uint16_t port)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	memset(a, 0, sizeof(*a));
	a->any.sa_family = memcmp(gid, mapped, sizeof(mapped)) ? AF_INET6 : AF_INET;
	if (a->any.sa_family == AF_INET)
		memcpy(&a->in.sin_addr, gid + 12, 4);
	else
		memcpy(&a->in6.sin6_addr, gid, 16);
	a->in.sin_port = htons(port);
}

uint64_t cm_id_service(const struct cm_id *id, const union cm_address *a)
{
	if (a->any.sa_family == CM_AF_IB)
		return be64toh(a->ib.sid_be);
	return (uint64_t)id->ps << 16 | cm_address_port(a);
}

/* Finds the device whose netdev has the address, and the index of its GID of RoCE v2 (cma_acquire_dev). */
int cm_id_find_device(struct cm_id *id, const uint8_t gid[16])
{
	struct cm *cm = id->file->cm;

	for (unsigned int i = 0; i < cm->n_devices; i++) {
		struct device *d = &cm->devices[i];
		struct gid gids[MAX_GIDS];
		size_t n = device_n_gids(d) ? netdev_gids(device_port_netdev(d), gids, MAX_GIDS) : 0;

		for (unsigned int k = 0; k < n; k++)
			if (gids[k].type == GID_ROCE_V2 && !memcmp(gids[k].raw, gid, 16)) {
				id->device = d;
				id->sgid_index = k;
				memcpy(id->path.sgid, gid, 16);
				return 0;
			}
	}
	return -ENODEV;
}

/* cma_select_ib_ps: the service identifier of AF_IB has to lie in the port space. */
static int id_check_service(const struct cm_id *id, const union cm_address *a)
{
	uint64_t mask = be64toh(a->ib.sid_mask_be) & SERVICE_PS_MASK, sid = be64toh(a->ib.sid_be) & mask;

	static const enum rdma_ucm_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB};

	for (unsigned int i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
		if ((id->ps == RDMA_PS_IB || id->ps == spaces[i]) && sid == (((uint64_t)spaces[i] << 16) & mask))
			return 0;
	return -EADDRNOTAVAIL;
}

static int id_take_port(struct cm_id *id)
{
	struct cm_port port = {.ps = id->ps,
	                       .number = cm_address_port(&id->src),
	                       .ipv6_only = id->afonly && id->src.any.sa_family == AF_INET6};

	if (port.number && port.number < FIRST_FREE_PORT && !program_has_capability(CAP_NET_BIND_SERVICE))
		return -EACCES;
	cm_address_gid(&id->src, port.gid);
	id->port_fd = cm_port_take(&port);
	if (id->port_fd < 0)
		return id->port_fd;
	address_set_port(&id->src, port.number);
	return 0;
}

int cm_id_bind(struct cm_id *id, const union cm_address *a)
{
	static const uint8_t all[16];
	uint8_t gid[16];
	int r = 0;

	if (!cm_address_bytes(a))
		return -EAFNOSUPPORT;
	if (id->state != CM_IDLE)
		return -EINVAL;
	cm_address_gid(a, gid);
	if (memcmp(gid, all, sizeof(all)))
		r = cm_id_find_device(id, gid);
	if (!r && a->any.sa_family == CM_AF_IB)
		r = id_check_service(id, a);
	if (r)
		return r;
	memcpy(&id->src, a, cm_address_bytes(a));
	r = id_take_port(id);
	if (!r) {
		id->state = CM_ADDR_BOUND;
		return 0;
	}
	id->port_fd = -1;
	id->device = NULL;
	memset(&id->src, 0, sizeof(id->src));
	return r;
}

int cm_id_listen(struct cm_id *id)
{
	const union cm_address all = {.in = {.sin_family = AF_INET}};
	int r = id->state == CM_IDLE ? cm_id_bind(id, &all) : 0;

	if (r)
		return r;
	if (id->state != CM_ADDR_BOUND)
		return -EINVAL;
	id->state = CM_LISTEN;
	return 0;
}

/* The address from which the kernel would send to `dst`. */
static int id_find_source(const union cm_address *src, const union cm_address *dst, union cm_address *found)
{
	int fd = (int)syscall(SYS_socket, dst->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;
	union cm_address local = *src;
	socklen_t bytes = sizeof(*found);

	if (fd < 0)
		return -errno;
	address_set_port(&local, 0);
	if (bind(fd, &local.any, (socklen_t)cm_address_bytes(&local)) ||
	    connect(fd, &dst->any, (socklen_t)cm_address_bytes(dst)) || getsockname(fd, &found->any, &bytes))
		r = -errno;
	syscall(SYS_close, fd);
	return r;
}

int cm_id_resolve_address(struct cm_id *id, const union cm_address *src, const union cm_address *dst)
{
	union cm_address local = *src, found = {};
	uint16_t port;
	uint8_t gid[16];
	int r = 0;

	if (!cm_address_bytes(&local)) { /* cma_bind_addr: all addresses of that family */
		memset(&local, 0, sizeof(local));
		local.any.sa_family = dst->any.sa_family;
		local.in6.sin6_scope_id = dst->any.sa_family == AF_INET6 ? dst->in6.sin6_scope_id : 0;
	}
	if (id->state == CM_IDLE)
		r = cm_id_bind(id, &local);
	if (r)
		return r;
	if (id->state != CM_ADDR_BOUND || id->src.any.sa_family != dst->any.sa_family)
		return -EINVAL;
	memcpy(&id->dst, dst, cm_address_bytes(dst));
	port = cm_address_port(&id->src);
	r = dst->any.sa_family == CM_AF_IB ? -EADDRNOTAVAIL : id_find_source(&id->src, dst, &found);
	if (!r) {
		address_set_port(&found, port);
		cm_address_gid(&found, gid);
		r = cm_id_find_device(id, gid);
	}
	if (r) { /* addr_handler: the identifier may try again */
		cm_event_add(id, CM_EVENT_ADDR_ERROR, r);
		return 0;
	}
	id->src = found;
	id->state = CM_ADDR_QUERY;
	id->path.version = ROCE_V2;
	id->path.tclass = id->tos;
	cm_address_gid(dst, id->path.dgid);
	return 0;
}

int cm_id_resolve_route(struct cm_id *id)
{
	if (id->state != CM_ADDR_RESOLVED)
		return -EINVAL;
	id->state = CM_ROUTE_RESOLVED;
	cm_event_add(id, CM_EVENT_ROUTE_RESOLVED, 0);
	return 0;
}
