// SPDX-License-Identifier: Apache-2.0
/*
 * Says which packets a queue takes: those of its own flows, unless a flow of another queue with a higher rank takes
 * them. A card steers like that. But each packet socket gets every packet, so the filter of a queue also has the flows
 * of other queues that interfere.
 */
#include "daemon/backend/bpf/flow_table.h"
#include "daemon/backend/packet/af_packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define N_KERNEL_CLAIMS 2 /* of claims_write() */

struct rule_claim {
	const struct flow_rule *rule;
	uint32_t takes;
};

/* The higher goes first. A card copies before it steers, in each priority. */
static uint32_t claim_rank(const struct flow_rule *rule)
{
	return rule->match == CONFIG_MATCH_DEFAULT ? 0 : 1 + 2 * rule->priority + rule->copy;
}

static struct af_packet_claim claim_of_mac(const uint8_t mac[6])
{
	struct af_packet_claim claim = {.takes = 0};

	memcpy(claim.condition.value.key.destination_mac, mac, 6);
	memset(claim.condition.mask.key.destination_mac, 0xff, 6);
	return claim;
}

/* Does a flow of another queue take packets that one of these flows could take? */
static bool claim_interferes(const struct af_packet *backend, const struct flow_rule *other,
                             const struct rule_claim *own, uint32_t n_own)
{
	struct flow_condition theirs;

	if (other->copy || other->match == CONFIG_MATCH_DEFAULT)
		return false;
	theirs = flow_table_condition(other, backend->has_ethernet);
	for (uint32_t i = 0; i < n_own; i++) {
		struct flow_condition mine;

		if (claim_rank(other) <= claim_rank(own[i].rule))
			continue;
		mine = flow_table_condition(own[i].rule, backend->has_ethernet);
		if (flow_condition_overlaps(&mine, &theirs))
			return true;
	}
	return false;
}

static int compare_ranks(const void *a, const void *b)
{
	const struct rule_claim *one = a, *other = b;
	uint32_t rank = claim_rank(one->rule), other_rank = claim_rank(other->rule);

	return rank < other_rank ? 1 : rank > other_rank ? -1 : (other->takes != 0) - (one->takes != 0);
}

/*
 * Claims in the order of their ranks. Packets that the kernel takes for itself come before the leftover ones: packets
 * to the interface's own address and to all stations. The kernel does not say which groups it has joined.
 */
static uint32_t claims_write(const struct af_packet *backend, const struct rule_claim *ranked, uint32_t n_ranked,
                             struct af_packet_claim *claims)
{
	static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	bool kernel_is_in = false;
	uint32_t n = 0;

	for (uint32_t i = 0; i < n_ranked; i++) {
		if (ranked[i].rule->match == CONFIG_MATCH_DEFAULT && !kernel_is_in) {
			claims[n++] = claim_of_mac(backend->mac);
			claims[n++] = claim_of_mac(broadcast);
			kernel_is_in = true;
		}
		claims[n++] = (struct af_packet_claim){flow_table_condition(ranked[i].rule, backend->has_ethernet),
		                                       ranked[i].takes};
	}
	return n;
}

/* Its own flows first. Returns how many they are; *n: with those of others that interfere. */
static uint32_t claims_collect(const struct af_packet_receive *receive, struct rule_claim *ranked, uint32_t *n)
{
	const struct af_packet *backend = receive->queue.backend;
	uint32_t n_own = 0;

	for (const struct af_packet_flow *flow = backend->flows; flow; flow = flow->next)
		if (af_packet_is_flow_of(receive, flow))
			ranked[n_own++] = (struct rule_claim){&flow->rule, .takes = AF_PACKET_WHOLE_FRAME};
	*n = n_own;
	for (const struct af_packet_flow *flow = backend->flows; flow; flow = flow->next)
		if (!af_packet_is_flow_of(receive, flow) && claim_interferes(backend, &flow->rule, ranked, n_own))
			ranked[(*n)++] = (struct rule_claim){&flow->rule, .takes = 0};
	return n_own;
}

/* Room for all flows. 0 or -ENOMEM. */
static int claims_allocate(const struct af_packet *backend, struct rule_claim **ranked, struct af_packet_claim **claims)
{
	uint32_t n = 0;

	for (const struct af_packet_flow *flow = backend->flows; flow; flow = flow->next)
		n++;
	*ranked = calloc(n + 1, sizeof(**ranked));
	*claims = calloc(n + N_KERNEL_CLAIMS, sizeof(**claims));
	if (*ranked && *claims)
		return 0;
	free(*ranked);
	free(*claims);
	return -ENOMEM;
}

static int claims_rank(const struct af_packet *backend, struct rule_claim *ranked, uint32_t n,
                       struct af_packet_claim *claims)
{
	qsort(ranked, n, sizeof(*ranked), compare_ranks);
	n = claims_write(backend, ranked, n, claims);
	free(ranked);
	return (int)n;
}

int af_packet_claims_new(const struct af_packet_receive *receive, struct af_packet_claim **claims)
{
	struct rule_claim *ranked;
	uint32_t n;

	if (claims_allocate(receive->queue.backend, &ranked, claims) < 0)
		return -ENOMEM;
	if (claims_collect(receive, ranked, &n) == 0)
		n = 0;
	return claims_rank(receive->queue.backend, ranked, n, *claims);
}

int af_packet_claims_of_group(const struct af_packet *backend, struct af_packet_claim **claims)
{
	struct rule_claim *ranked;
	uint32_t n = 0;

	if (claims_allocate(backend, &ranked, claims) < 0)
		return -ENOMEM;
	for (const struct af_packet_flow *flow = backend->flows; flow; flow = flow->next)
		if (!af_packet_is_beside(flow))
			ranked[n++] = (struct rule_claim){&flow->rule, af_packet_first(flow->base.queue)->fanout_index};
	return claims_rank(backend, ranked, n, *claims);
}

bool af_packet_claims_change_by(const struct af_packet_receive *receive, const struct flow_rule *rule)
{
	const struct af_packet *backend = receive->queue.backend;

	for (const struct af_packet_flow *flow = backend->flows; flow; flow = flow->next) {
		const struct rule_claim own = {&flow->rule, .takes = AF_PACKET_WHOLE_FRAME};

		if (af_packet_is_flow_of(receive, flow) && claim_interferes(backend, rule, &own, 1))
			return true;
	}
	return false;
}
