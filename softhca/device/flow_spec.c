// SPDX-License-Identifier: Apache-2.0
/*
 * Reads flow specs and refuses those that ib_uverbs refuses before a driver sees them (kern_spec_to_ib_spec and the
 * functions that it calls).
 */
#include "flow_spec.h"
#include "refuse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define FLOW_LABEL_END (1u << 20)
#define VNI_END        (1u << 24)

/* Sizes of the kernel's filters: offsetof(struct ib_flow_*_filter, real_sz). */
static const struct filter_type {
	uint32_t type;
	uint16_t bytes;
} filter_types[] = {
	{FLOW_SPEC_ETH, 16},  {FLOW_SPEC_IPV4, 12}, {FLOW_SPEC_IPV6, 39}, {FLOW_SPEC_TCP, 4},  {FLOW_SPEC_UDP, 4},
	{FLOW_SPEC_VXLAN, 4}, {FLOW_SPEC_ESP, 8},   {FLOW_SPEC_GRE, 8},   {FLOW_SPEC_MPLS, 4},
};

static const struct filter_type *flow_filter_type(uint32_t type)
{
	for (size_t i = 0; i < sizeof(filter_types) / sizeof(filter_types[0]); i++)
		if (filter_types[i].type == (type & ~(uint32_t)FLOW_SPEC_INNER))
			return &filter_types[i];
	return NULL;
}

static bool flow_filter_is_zero(const uint8_t *p, size_t n)
{
	for (; n; n--)
		if (*p++)
			return false;
	return true;
}

static bool flow_spec_is_in_range(const struct flow_spec *s)
{
	switch (s->type & ~(uint32_t)FLOW_SPEC_INNER) {
	case FLOW_SPEC_IPV6:
		return ntohl(s->mask.ipv6.flow_label) < FLOW_LABEL_END &&
		       ntohl(s->value.ipv6.flow_label) < FLOW_LABEL_END;
	case FLOW_SPEC_VXLAN:
		return ntohl(s->mask.tunnel.tunnel_id) < VNI_END && ntohl(s->value.tunnel.tunnel_id) < VNI_END;
	default:
		return true;
	}
}

/* A filter may be shorter than the kernel's, from an older library: libibverbs sends 24 bytes for IBV_FLOW_SPEC_IPV4
 * and 32 for _EXT. It may be longer if the mask is zero there (spec_filter_size). */
static int flow_read_filter(struct flow_spec *s, const uint8_t *at, uint16_t size)
{
	const struct filter_type *t = flow_filter_type(s->type);
	size_t given = (size - sizeof(struct ib_uverbs_flow_spec_hdr)) / 2, n = given;
	const uint8_t *value = at + sizeof(struct ib_uverbs_flow_spec_hdr), *mask = value + given;

	if (!t || given % 4 || s->type == (FLOW_SPEC_INNER | FLOW_SPEC_VXLAN))
		return refuse(EINVAL, "spec", "no such type, or a length that is no multiple of 4",
		              "ib_uverbs: kern_spec_to_ib_spec_filter");
	if (n > t->bytes) {
		if (!flow_filter_is_zero(mask + t->bytes, n - t->bytes))
			return refuse(EINVAL, "spec", "longer than the kernel knows, with a mask there",
			              "ib_uverbs: spec_filter_size");
		n = t->bytes;
	}
	if (!n)
		return -EINVAL;
	memcpy(&s->value, value, n);
	memcpy(&s->mask, mask, n);
	return flow_spec_is_in_range(s) ? 0
	                                : refuse(EINVAL, "ipv6.flow_label, tunnel_id", "too many bits",
	                                         "ib_uverbs: kern_spec_to_ib_spec_filter");
}

static int flow_read_action(struct flow_spec *s, const uint8_t *at, uint16_t size)
{
	struct ib_uverbs_flow_spec_action_tag tag; /* COUNT has its handle in the same place */

	switch (s->type) {
	case FLOW_SPEC_TAG:
	case FLOW_SPEC_COUNT:
		if (size != sizeof(tag))
			return -EINVAL;
		memcpy(&tag, at, sizeof(tag));
		s->id = tag.tag_id;
		return 0;
	case FLOW_SPEC_DROP:
		return size == sizeof(struct ib_uverbs_flow_spec_action_drop) ? 0 : -EINVAL;
	case FLOW_SPEC_HANDLE:
		/* No handle is valid: this device makes no flow actions. */
		return size == sizeof(struct ib_uverbs_flow_spec_action_handle) ? -EINVAL : -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
}

int flow_read_specs(struct flow_spec specs[FLOW_MAX_SPECS], const struct flow_request *req)
{
	const uint8_t *at = req->specs;
	uint32_t left = req->specs_bytes;

	for (unsigned int i = 0; i < req->n_specs; i++) {
		struct ib_uverbs_flow_spec_hdr hdr;
		int r;

		if (left < sizeof(hdr))
			return -EINVAL;
		memcpy(&hdr, at, sizeof(hdr));
		if (hdr.size > left || hdr.size < sizeof(hdr) || hdr.reserved)
			return -EINVAL;
		specs[i] = (struct flow_spec){.type = hdr.type};
		r = hdr.type >= FLOW_SPEC_TAG ? flow_read_action(&specs[i], at, hdr.size)
		                              : flow_read_filter(&specs[i], at, hdr.size);
		if (r)
			return r;
		at += hdr.size;
		left -= hdr.size;
	}
	return left ? -EINVAL : 0; /* bytes behind the last spec */
}
