// SPDX-License-Identifier: Apache-2.0
/* Answers with the addresses and the path of an identifier. */
#include "cm_query.h"

#include "../device/device.h"
#include "../device/netdev.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#define PKEY            0xffff
#define RATE_100_GBPS   16 /* enum ib_rate */
#define PACKET_LIFE     16 /* CMA_IBOE_PACKET_LIFETIME */
#define EXACTLY         2  /* IB_SA_EQ */
#define ATTRIBUTE_EXACT (EXACTLY << 6)

unsigned int cm_path_mtu(const struct cm_id *id)
{
	return netdev_ib_mtu(netdev_mtu(device_port_netdev(id->device)));
}

void cm_path_attributes(const struct cm_id *id, struct ib_uverbs_ah_attr *attr)
{
	*attr = (struct ib_uverbs_ah_attr){
		.grh = {.sgid_index = (uint8_t)id->sgid_index, .hop_limit = CM_HOP_LIMIT, .traffic_class = id->tos},
		.is_global = 1,
		.sl = id->tos >> 5, /* cma_resolve_iboe_route: the priority of the type of service */
		.port_num = (uint8_t)device_port(id->device),
	};
	memcpy(attr->grh.dgid, id->path.dgid, 16);
}

static bool query_has_path(const struct cm_id *id)
{
	return id->state >= CM_ROUTE_RESOLVED && id->state != CM_LISTEN;
}

void cm_query_route(const struct cm_id *id, struct rdma_ucm_query_route_resp *resp)
{
	struct ib_user_path_rec *path = &resp->ib_route[0];

	memset(resp, 0, sizeof(*resp));
	memcpy(&resp->src_addr, &id->src, sizeof(resp->src_addr));
	memcpy(&resp->dst_addr, &id->dst, sizeof(resp->dst_addr));
	if (!id->device)
		return;
	resp->node_guid = htobe64(netdev_guid(id->device->config.netdev));
	resp->ibdev_index = id->device->index;
	resp->port_num = (uint8_t)device_port(id->device);
	cm_address_gid(&id->dst, path->dgid);
	cm_address_gid(&id->src, path->sgid);
	path->pkey = htobe16(PKEY);
	if (!query_has_path(id))
		return;
	resp->num_paths = 1;
	path->reversible = 1;
	path->hop_limit = CM_HOP_LIMIT;
	path->traffic_class = id->tos;
	path->mtu_selector = path->rate_selector = path->packet_life_time_selector = EXACTLY;
	path->mtu = cm_path_mtu(id);
	path->rate = RATE_100_GBPS;
	path->packet_life_time = PACKET_LIFE;
}

static void query_device(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	memset(resp, 0, sizeof(*resp));
	if (!id->device)
		return;
	resp->node_guid = htobe64(netdev_guid(id->device->config.netdev));
	resp->ibdev_index = id->device->index;
	resp->port_num = (uint8_t)device_port(id->device);
	resp->pkey = htobe16(PKEY);
}

void cm_query_address(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	query_device(id, resp);
	resp->src_size = (uint16_t)cm_address_bytes(&id->src);
	memcpy(&resp->src_addr, &id->src, resp->src_size);
	resp->dst_size = (uint16_t)cm_address_bytes(&id->dst);
	memcpy(&resp->dst_addr, &id->dst, resp->dst_size);
}

static void query_ib(const struct cm_id *id, const union cm_address *a, uint16_t pkey, void *to)
{
	struct cm_sockaddr_ib ib = {.family = CM_AF_IB, .pkey_be = pkey};

	if (a->any.sa_family == CM_AF_IB) {
		ib = a->ib;
	} else {
		cm_address_gid(a, ib.gid);
		ib.sid_be = htobe64(cm_id_service(id, a));
	}
	memcpy(to, &ib, sizeof(ib));
}

void cm_query_gid(const struct cm_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	query_device(id, resp);
	resp->src_size = resp->dst_size = sizeof(struct cm_sockaddr_ib);
	query_ib(id, &id->src, resp->pkey, &resp->src_addr);
	query_ib(id, &id->dst, resp->pkey, &resp->dst_addr);
}

/* PathRecord (IBTA 15.2.5.16). */
struct path_record {
	uint64_t service_be;
	uint8_t dgid[16], sgid[16];
	uint16_t dlid_be, slid_be;
	uint32_t flow_label_hop_limit_be;
	uint8_t tclass, reversible_n_paths;
	uint16_t pkey_be, qos_class_sl_be;
	uint8_t mtu, rate, packet_life, preference;
	uint8_t reserved[6];
};

size_t cm_query_path(const struct cm_id *id, struct cm_path_resp *resp)
{
	struct path_record path = {
		.flow_label_hop_limit_be = htobe32(CM_HOP_LIMIT),
		.tclass = id->tos,
		.reversible_n_paths = 0x80,
		.pkey_be = htobe16(PKEY),
		.rate = ATTRIBUTE_EXACT | RATE_100_GBPS,
		.packet_life = ATTRIBUTE_EXACT | PACKET_LIFE,
	};

	static_assert(sizeof(path) == sizeof(resp->path.path_rec), "PathRecord");
	memset(resp, 0, sizeof(*resp));
	if (!query_has_path(id))
		return offsetof(struct cm_path_resp, path);
	cm_address_gid(&id->dst, path.dgid);
	cm_address_gid(&id->src, path.sgid);
	path.mtu = (uint8_t)(ATTRIBUTE_EXACT | cm_path_mtu(id));
	resp->n_paths = 1;
	resp->path.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
	memcpy(resp->path.path_rec, &path, sizeof(path));
	return sizeof(*resp);
}
