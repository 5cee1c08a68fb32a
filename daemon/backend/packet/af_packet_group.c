// SPDX-License-Identifier: Apache-2.0
/*
 * Receive queues among which a hash shares packets out. Among members of the fanout group of the interface
 * (af_packet_fanout.c) its program hashes. Among other queues the kernel does (PACKET_FANOUT_HASH): it chooses the
 * socket first and runs its filter then, so all sockets have the same flows, and each counts the packets that it got.
 *
 * The hash is of both addresses, the protocol and both ports, and does not change if the two ends are exchanged. A
 * fragment is hashed without ports, so fragments stay together. PACKET_FANOUT_FLAG_DEFRAG would join them to packets
 * that were never on the wire.
 *
 * The sockets become a group with the first flow. Before it no filter takes a packet, so none is lost or comes twice
 * meanwhile. They join in the order of the queues, again after the interface was down. The kernel gives sockets of a
 * group the packets that this host sends, whatever they have asked for; their filters refuse these (af_packet_flow.c).
 */
#include "daemon/backend/packet/af_packet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FANOUT_OF_TYPE(type) ((int)((unsigned)(type) << 16))

static const struct backend_ops af_packet_group_ops;

static struct af_packet_group *af_packet_group(const struct backend_queue *base)
{
	return (struct af_packet_group *)base;
}

/* ---- the first flow ------------------------------------------------------------------------------ */

/* The kernel chooses a number for the group, which the other sockets name. */
static int group_join(const struct af_packet_group *group, uint32_t i)
{
	int fanout = FANOUT_OF_TYPE(PACKET_FANOUT_HASH | PACKET_FANOUT_FLAG_UNIQUEID);
	socklen_t bytes = sizeof(fanout);

	if (i > 0 && getsockopt(group->members[0]->queue.fd, SOL_PACKET, PACKET_FANOUT, &fanout, &bytes) < 0)
		return -errno;
	return setsockopt(group->members[i]->queue.fd, SOL_PACKET, PACKET_FANOUT, &fanout, sizeof(fanout)) == 0
	               ? 0
	               : -errno;
}

static int group_join_all(struct af_packet_group *group, struct failure *failure)
{
	const char *interface = group->queue.backend->interface;

	while (group->n_joined < group->n_members) {
		int r = group_join(group, group->n_joined);

		if (r == -EINVAL)
			return failure_set(failure, EX_UNAVAILABLE, ENETDOWN,
			                   "interface %s is down, and the kernel shares packets out to several queues "
			                   "only of one that is up: ip link set %s up",
			                   interface, interface);
		if (r < 0)
			return failure_set(failure, EX_OSERR, -r,
			                   "interface %s: cannot share packets out to %u queues: %s", interface,
			                   group->n_members, strerror(-r));
		group->n_joined++;
	}
	return 0;
}

struct af_packet_receive *af_packet_first(struct backend_queue *target)
{
	return target->ops == &af_packet_group_ops ? af_packet_group(target)->members[0] : af_packet_receive(target);
}

/* ---- which flows it takes ------------------------------------------------------------------------ */

static bool group_has_flow_to_queue(const struct af_packet_group *group)
{
	for (const struct af_packet_flow *flow = group->queue.backend->flows; flow; flow = flow->next)
		for (uint32_t i = 0; i < group->n_members; i++)
			if (flow->base.queue == &group->members[i]->queue.base)
				return true;
	return false;
}

int af_packet_group_admit(struct backend_queue *target, const struct flow_rule *rule, struct failure *failure)
{
	bool is_shared = target->ops == &af_packet_group_ops;
	struct af_packet_group *group = is_shared ? af_packet_group(target) : af_packet_receive(target)->group;
	char text[FLOW_TEXT_MAX];

	if (!group || group->members[0]->fanout_index)
		return 0;
	if (is_shared ? group_has_flow_to_queue(group) : group->n_joined > 0)
		return failure_set(failure, EX_CONFIG, ENOTSUP,
		                   "interface %s: flow %s %s a queue, unlike others of its stream: backend packet "
		                   "takes the key queue in all flows of a stream or in none; a stream that runs "
		                   "cannot change from one to the other: systemctl restart ibvcapd",
		                   group->queue.backend->interface, flow_format(rule, text, sizeof(text)),
		                   is_shared ? "has not" : "has");
	return is_shared ? group_join_all(group, failure) : 0;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* They count for the queues. */
static int group_read_matched(struct backend_queue *, uint64_t *packets)
{
	*packets = 0;
	return 0;
}

static void group_destroy(struct backend_queue *base)
{
	struct af_packet_group *group = af_packet_group(base);

	for (uint32_t i = 0; i < group->n_members; i++)
		group->members[i]->group = NULL;
	free(group);
}

static const struct backend_ops af_packet_group_ops = {
	.name = "packet",
	.destroy_queue = group_destroy,
	.read_matched = group_read_matched,
};

/* Tells the program of the fanout group which of its members are this group. */
static int group_set_indexes(const struct af_packet_group *group, uint32_t fields, struct failure *failure)
{
	struct af_packet *backend = group->queue.backend;
	uint32_t indexes[AF_PACKET_GROUP_MAX], n = 0;
	int r;

	for (uint32_t i = 0; i < group->n_members; i++) {
		indexes[i] = group->members[i]->fanout_index;
		n += indexes[i] > 0;
	}
	if (n == 0 && fields & BACKEND_HASH_PORTS)
		return 0;
	if (n == 0)
		return failure_set(
			failure, EX_CONFIG, ENOTSUP,
			"interface %s: hash_fields without the ports is not possible beside copy = true, nor "
			"without CAP_BPF and CAP_NET_ADMIN",
			backend->interface);
	if (n < group->n_members)
		return failure_set(failure, EX_CONFIG, E2BIG,
		                   "interface %s: its streams have more than %d queues with backend packet",
		                   backend->interface, AF_PACKET_FANOUT_MAX - 2);
	r = flow_table_set_group(&backend->program->table, indexes, n, fields & BACKEND_HASH_PORTS);
	return r == 0 ? 0
	              : failure_set(failure, EX_OSERR, -r, "interface %s: cannot share packets out: %s",
	                            backend->interface, strerror(-r));
}

int af_packet_create_group(struct backend *base, const struct backend_group_options *options,
                           struct backend_queue **out, struct failure *failure)
{
	struct af_packet_group *group = calloc(1, sizeof(*group));
	int r;

	if (!group)
		return failure_no_memory(failure);
	group->queue = (struct af_packet_queue){
		.base.ops = &af_packet_group_ops, .backend = (struct af_packet *)base, .fd = -1};
	group->n_members = options->n_queues;
	for (uint32_t i = 0; i < options->n_queues; i++) {
		group->members[i] = af_packet_receive(options->queues[i]);
		group->members[i]->group = group;
	}
	pthread_mutex_lock(&group->queue.backend->changing);
	r = group_set_indexes(group, options->fields, failure);
	pthread_mutex_unlock(&group->queue.backend->changing);
	if (r < 0)
		group_destroy(&group->queue.base);
	else
		*out = &group->queue.base;
	return r;
}
