// SPDX-License-Identifier: Apache-2.0
/* The flows of a receive queue: entries in the maps of the program, which itself stays as it is. */
#include "daemon/backend/xdp/xdp.h"

#include <errno.h>
#include <stdlib.h>

struct xdp_flow {
	struct backend_flow base;
	struct flow_rule rule;
};

/* A packet is redirected to a socket, or the kernel gets it: there is no copy of it. */
static int flow_check_redirect(const struct xdp_backend *backend, const struct flow_rule *rule, struct failure *failure)
{
	char text[FLOW_TEXT_MAX];

	if (rule->copy)
		return failure_set(failure, EX_CONFIG, EOPNOTSUPP,
		                   "interface %s: flow %s: copy = true is not possible with backend xdp, which takes "
		                   "packets from the kernel: set backend = \"packet\" in this stream",
		                   backend->interface.name, flow_format(rule, text, sizeof(text)));
	if (rule->match == CONFIG_MATCH_DEFAULT)
		return failure_set(failure, EX_CONFIG, EOPNOTSUPP,
		                   "interface %s: match = \"default\" is not possible with backend xdp, which does not "
		                   "know what the kernel takes: set backend = \"packet\" in this stream",
		                   backend->interface.name);
	return 0;
}

static struct xdp_members flow_members(struct backend_queue *target)
{
	const struct xdp_group *group = xdp_group(target);

	return group ? group->members : (struct xdp_members){.at = {xdp_receive(target)}, .n = 1};
}

static void flow_remove_tags(const struct xdp_members *members, uint32_t n, const struct flow_rule *rule)
{
	for (uint32_t i = 0; i < n; i++)
		flow_tags_remove(members->at[i]->tags, rule, true);
}

static int flow_add_tags(const struct xdp_members *members, const struct flow_rule *rule, struct failure *failure)
{
	for (uint32_t i = 0; i < members->n; i++) {
		int r = flow_tags_add(members->at[i]->tags, rule, true);

		if (r == 0)
			continue;
		flow_remove_tags(members, i, rule);
		return failure_set(failure, EX_CONFIG, -r, "interface %s: more than %d flows in a stream",
		                   members->at[i]->backend->interface.name, FLOW_TAGS_MAX);
	}
	return 0;
}

int xdp_add_flow(struct backend_queue *base, const struct flow_rule *rule, struct backend_flow **out,
                 struct failure *failure)
{
	const struct xdp_members members = flow_members(base);
	struct xdp_backend *backend = members.at[0]->backend;
	const struct flow_target target = {.queue = members.at[0]->number,
	                                   .has_time = members.at[0]->timestamps,
	                                   .is_group = xdp_group(base) != NULL};
	struct xdp_flow *flow;
	int r = flow_check_redirect(backend, rule, failure);

	if (r < 0)
		return r;
	flow = malloc(sizeof(*flow));
	if (!flow)
		return failure_no_memory(failure);
	*flow = (struct xdp_flow){.base.queue = base, .rule = *rule};
	pthread_mutex_lock(&backend->changing);
	r = flow_add_tags(&members, rule, failure);
	if (r == 0) {
		r = flow_table_add(&backend->program->table, rule, &target, failure);
		if (r < 0)
			flow_remove_tags(&members, members.n, rule);
	}
	pthread_mutex_unlock(&backend->changing);
	if (r < 0)
		free(flow);
	else
		*out = &flow->base;
	return r;
}

void xdp_remove_flow(struct backend_flow *base)
{
	struct xdp_flow *flow = (struct xdp_flow *)base;
	const struct xdp_members members = flow_members(base->queue);
	struct xdp_backend *backend = members.at[0]->backend;

	pthread_mutex_lock(&backend->changing);
	flow_table_remove(&backend->program->table, &flow->rule);
	flow_remove_tags(&members, members.n, &flow->rule);
	pthread_mutex_unlock(&backend->changing);
	for (uint32_t i = 0; i < members.n; i++)
		members.at[i]->flows_removed = true;
	free(flow);
}
