// SPDX-License-Identifier: Apache-2.0
/* Joins and leaves multicast groups (cma_iboe_join_multicast, ucma_process_join). */
#include "cm_group.h"

#include "../device/device.h"
#include "../roce/neighbor.h"
#include "../wire/own_fd.h"
#include "cm_link.h"
#include "cm_query.h"

#include <errno.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MULTICAST_QP 0xffffffu

/* The kernel tells the network by IGMP; the socket does, as long as it is open. A descriptor, or negative errno. */
static int group_make_member(const struct device *d, const union cm_address *a)
{
	struct group_req request = {.gr_interface = if_nametoindex(device_port_netdev(d))};
	int fd = own_fd((int)syscall(SYS_socket, a->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)), r;

	if (fd < 0)
		return fd;
	memcpy(&request.gr_group, a, cm_address_bytes(a));
	if (!setsockopt(fd, a->any.sa_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6, MCAST_JOIN_GROUP, &request,
	                sizeof(request)))
		return fd;
	r = -errno;
	own_fd_close(fd);
	return r;
}

static struct cm_event *group_tell(struct cm_id *id, struct cm_group *g, const uint8_t gid[16])
{
	struct cm_event *e = cm_event_add(id, CM_EVENT_MULTICAST_JOIN, 0);
	struct rdma_ucm_ud_param *p;

	if (!e)
		return NULL;
	e->group = g;
	e->resp.uid = g->uid;
	e->resp.id = g->handle;
	p = &e->resp.param.ud;
	p->qp_num = MULTICAST_QP;
	p->qkey = CM_UDP_QKEY;
	cm_path_attributes(id, &p->ah_attr);
	memcpy(p->ah_attr.grh.dgid, gid, 16);
	p->ah_attr.grh.hop_limit = 1;
	return e;
}

int cm_group_join(struct cm_id *id, const union cm_address *a, uint64_t uid, bool sends_only, struct cm_group **group)
{
	struct cm_group *g;
	uint8_t gid[16];

	cm_address_gid(a, gid);
	if (!id->device || (id->state != CM_ADDR_BOUND && id->state != CM_ADDR_RESOLVED) ||
	    id->qp_type != IB_UVERBS_QPT_UD || a->any.sa_family == CM_AF_IB || !gid_is_multicast(gid))
		return -EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->member_fd = sends_only ? -1 : group_make_member(id->device, a);
	if (!sends_only && g->member_fd < 0) {
		int r = g->member_fd;

		free(g);
		return r;
	}
	g->handle = id->file->cm->next_group++;
	g->uid = uid;
	LIST_INSERT_HEAD(&id->groups, g, link);
	if (!group_tell(id, g, gid)) {
		cm_group_leave(id, g);
		return -ENOMEM;
	}
	*group = g;
	return 0;
}

struct cm_group *cm_group_find(struct cm_file *file, uint32_t handle, struct cm_id **id)
{
	struct cm_group *g;

	for (uint32_t i = 0; i < file->cm->n_ids; i++) {
		*id = file->cm->ids[i];
		if (!*id || (*id)->file != file)
			continue;
		LIST_FOREACH (g, &(*id)->groups, link)
			if (g->handle == handle)
				return g;
	}
	return NULL;
}

void cm_group_leave(struct cm_id *id, struct cm_group *g)
{
	struct cm_event *e, *next;

	for (e = STAILQ_FIRST(&id->file->events); e; e = next) {
		next = STAILQ_NEXT(e, link);
		if (e->group == g)
			cm_event_remove(id->file, e);
	}
	LIST_REMOVE(g, link);
	own_fd_close(g->member_fd);
	free(g);
}

void cm_group_leave_all(struct cm_id *id)
{
	struct cm_group *g, *next;

	for (g = LIST_FIRST(&id->groups); g; g = next) {
		next = LIST_NEXT(g, link);
		cm_group_leave(id, g);
	}
}
