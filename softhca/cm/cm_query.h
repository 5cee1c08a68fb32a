// SPDX-License-Identifier: Apache-2.0
/* What a program asks about an identifier, as the interface lays it out (ucma_query_…). With the manager's lock. */
#ifndef SOFTHCA_CM_CM_QUERY_H
#define SOFTHCA_CM_CM_QUERY_H

#include "cm_id.h"

void cm_query_route(const struct cm_id *id, struct rdma_ucm_query_route_resp *resp);
void cm_query_address(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp);
void cm_query_gid(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp);

/* struct rdma_ucm_query_path_resp with one path: RoCE has no more. */
struct cm_path_resp {
	uint32_t n_paths, reserved;
	struct ib_path_rec_data path;
};
/* Returns the length of the answer. */
size_t cm_query_path(const struct cm_id *id, struct cm_path_resp *resp);

/* The address vector of the identifier's path. */
#define CM_HOP_LIMIT 64 /* ip_default_ttl, IPV6_DEFAULT_HOPLIMIT */
struct ib_uverbs_ah_attr;
void cm_path_attributes(const struct cm_id *id, struct ib_uverbs_ah_attr *attr);

/* enum ib_mtu of a RoCE packet's payload on the netdev (iboe_get_mtu). */
unsigned int cm_path_mtu(const struct cm_id *id);

#endif
