// SPDX-License-Identifier: Apache-2.0
/* Flow specs as ib_core gives them to a driver: each type has one size, and short ones are padded with zeros. */
#ifndef SOFTHCA_DEVICE_FLOW_SPEC_H
#define SOFTHCA_DEVICE_FLOW_SPEC_H

#include "flow.h"

#include <rdma/ib_user_verbs.h>

/* enum ib_flow_spec_type, ib_flow_attr_type and _flags: kernel-internal, but ABI. */
enum flow_spec_type {
	FLOW_SPEC_ETH = 0x20,
	FLOW_SPEC_IPV4 = 0x30,
	FLOW_SPEC_IPV6 = 0x31,
	FLOW_SPEC_ESP = 0x34,
	FLOW_SPEC_TCP = 0x40,
	FLOW_SPEC_UDP = 0x41,
	FLOW_SPEC_VXLAN = 0x50,
	FLOW_SPEC_GRE = 0x51,
	FLOW_SPEC_MPLS = 0x60,
	FLOW_SPEC_INNER = 0x100, /* a bit beside one of the above */
	FLOW_SPEC_TAG = 0x1000,
	FLOW_SPEC_DROP = 0x1001,
	FLOW_SPEC_HANDLE = 0x1002,
	FLOW_SPEC_COUNT = 0x1003,
};
enum flow_attr_type { FLOW_NORMAL, FLOW_ALL_DEFAULT, FLOW_MC_DEFAULT, FLOW_SNIFFER };
enum flow_flags {
	FLOW_DONT_TRAP = 1 << 1,
	FLOW_EGRESS = 1 << 2,
	FLOW_FLAGS_END = 1 << 3,
};
#define FLOW_MAX_SPECS 10 /* IB_FLOW_SPEC_SUPPORT_LAYERS */

union flow_filter {
	struct ib_uverbs_flow_eth_filter eth;
	struct ib_uverbs_flow_ipv4_filter ipv4;
	struct ib_uverbs_flow_ipv6_filter ipv6;
	struct ib_uverbs_flow_tcp_udp_filter tcp_udp;
	struct ib_uverbs_flow_tunnel_filter tunnel;
	uint8_t bytes[40];
};

struct flow_spec {
	uint32_t type;
	union flow_filter value, mask;
	uint32_t id; /* TAG: the tag; COUNT: the counters object's handle */
};

/* Reads the request's specs into `specs`. 0, -EINVAL or -EOPNOTSUPP. */
int flow_read_specs(struct flow_spec specs[FLOW_MAX_SPECS], const struct flow_request *req);

#endif
