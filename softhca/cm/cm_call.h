// SPDX-License-Identifier: Apache-2.0
/* A command as its handler sees it. With the manager's lock. */
#ifndef SOFTHCA_CM_CM_CALL_H
#define SOFTHCA_CM_CM_CALL_H

#include "../uverbs/user_memory.h"
#include "cm_id.h"

#include <string.h>

struct cm_call {
	struct cm_file *file;
	struct cm_id *id; /* that the command names, if it names one of the file */
	int fd;
	size_t out_bytes; /* room for the answer */
	union {
		struct rdma_ucm_create_id create_id;
		struct rdma_ucm_destroy_id destroy_id; /* or a group */
		struct rdma_ucm_bind_ip bind_ip;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_resolve_ip resolve_ip;
		struct rdma_ucm_resolve_addr resolve_addr;
		struct rdma_ucm_resolve_route resolve_route;
		struct rdma_ucm_query query;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_reject reject;
		struct rdma_ucm_disconnect disconnect;
		struct rdma_ucm_init_qp_attr init_qp_attr;
		struct rdma_ucm_get_event get_event;
		struct rdma_ucm_set_option set_option;
		struct rdma_ucm_notify notify;
		struct rdma_ucm_join_ip_mcast join_ip_mcast;
		struct rdma_ucm_join_mcast join_mcast;
		struct rdma_ucm_migrate_id migrate_id;
	};
};

static inline int call_write(const struct cm_call *c, uint64_t to, const void *resp, size_t bytes)
{
	return user_memory_write(to, resp, bytes < c->out_bytes ? bytes : c->out_bytes);
}

#define NOT_TOLD SIZE_MAX
/* Takes an address out of a command. False if it is of an unknown family, longer than its place, or not as long as the
 * program tells. */
static inline bool call_address(union cm_address *a, const void *from, size_t room, size_t told_bytes)
{
	size_t bytes;

	memset(a, 0, sizeof(*a));
	memcpy(a, from, room);
	bytes = cm_address_bytes(a);
	return bytes && bytes <= room && (told_bytes == NOT_TOLD || told_bytes == bytes);
}

/* 0 or negative errno. */
typedef int cm_handler(const struct cm_call *c);
cm_handler cm_command_connect, cm_command_accept, cm_command_reject, cm_command_disconnect, cm_command_notify;
cm_handler cm_join_ip_mcast, cm_join_mcast, cm_leave_mcast;

#endif
