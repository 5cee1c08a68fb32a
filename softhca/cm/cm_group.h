// SPDX-License-Identifier: Apache-2.0
/* Multicast groups of identifiers of datagrams. With the manager's lock. */
#ifndef SOFTHCA_CM_CM_GROUP_H
#define SOFTHCA_CM_CM_GROUP_H

#include "cm_id.h"

struct cm_group {
	LIST_ENTRY(cm_group) link;
	uint32_t handle;
	uint64_t uid;
	uint32_t n_events_reported;
	int member_fd; /* the socket by which the netdev is a member of the group; -1: none */
};

/* rdma_join_multicast. An event follows. 0, -EINVAL, or another negative errno. */
int cm_group_join(struct cm_id *id, const union cm_address *a, uint64_t uid, bool sends_only, struct cm_group **group);
/* The group of one of the file's identifiers, or NULL. */
struct cm_group *cm_group_find(struct cm_file *file, uint32_t handle, struct cm_id **id);
/* Its events go, too. */
void cm_group_leave(struct cm_id *id, struct cm_group *group);
void cm_group_leave_all(struct cm_id *id);

#endif
