// SPDX-License-Identifier: Apache-2.0
/*
 * Receive queues that a device shares packets out to by their hash, or that have delay drop, and the queue pairs that
 * lead to them. Such a receive queue (WQ) has no queue pair of its own. Packets reach it through queue pairs with an
 * indirection table: the table of the group has all members; a table with one entry serves flows that are steered to
 * this queue.
 */
#include "daemon/backend/verbs/verbs.h"

#include "daemon/base/log.h"
#include "daemon/priv/priv.h"
#include "lib/base/size.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/capability.h>

#define KEY_BYTES 40 /* mlx5 takes no other length */
/* Table entries: enough to share packets out evenly to a number of queues that is no power of two. */
#define TABLE_ENTRIES 64u

static const uint8_t toeplitz_key[KEY_BYTES] = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                                                0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                                                0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                                                0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

/* ---- what the device can do ---------------------------------------------------------------------- */

uint32_t verbs_max_group_queues(const struct verbs_backend *backend)
{
	const struct ibv_rss_caps *rss = &backend->attr.rss_caps;
	uint32_t entries = rss->max_rwq_indirection_table_size;

	if (!(rss->supported_qpts & 1u << IBV_QPT_RAW_PACKET) || !(rss->rx_hash_function & IBV_RX_HASH_FUNC_TOEPLITZ) ||
	    !rss->max_rwq_indirection_tables)
		return 0;
	return entries < VERBS_GROUP_QUEUES_MAX ? entries : VERBS_GROUP_QUEUES_MAX;
}

/* ---- a queue pair and its table ------------------------------------------------------------------ */

static uint32_t group_log_entries(const struct verbs_backend *backend, uint32_t n)
{
	uint32_t max = backend->attr.rss_caps.max_rwq_indirection_table_size, log = 0;

	while (1u << log < (n == 1 ? 1 : TABLE_ENTRIES) && 2u << log <= max)
		log++;
	return log;
}

int verbs_group_create_table(struct verbs_queue *queue, struct ibv_wq *const *members, uint32_t n)
{
	uint32_t log = group_log_entries(queue->backend, n);
	struct ibv_wq *entries[TABLE_ENTRIES];
	struct ibv_rwq_ind_table_init_attr init = {.log_ind_tbl_size = log, .ind_tbl = entries};

	for (uint32_t i = 0; i < 1u << log; i++)
		entries[i] = members[i % n];
	queue->table = ibv_create_rwq_ind_table(queue->backend->context, &init);
	return queue->table ? 0 : -errno;
}

/* A key that repeats every 16 bits makes the hash the same after addresses or ports are exchanged. */
static void group_make_key(enum backend_hash hash, uint8_t key[KEY_BYTES])
{
	for (int i = 0; i < KEY_BYTES; i++)
		key[i] = hash == BACKEND_HASH_SYMMETRIC ? toeplitz_key[i % 2] : toeplitz_key[i];
}

static uint64_t group_hash_fields(enum verbs_group_kind kind, uint32_t fields)
{
	bool ipv6 = kind == VERBS_GROUP_IPV6 || kind == VERBS_GROUP_IPV6_UDP;
	uint64_t mask = 0;

	if (fields & BACKEND_HASH_SOURCE)
		mask |= ipv6 ? IBV_RX_HASH_SRC_IPV6 : IBV_RX_HASH_SRC_IPV4;
	if (fields & BACKEND_HASH_DESTINATION)
		mask |= ipv6 ? IBV_RX_HASH_DST_IPV6 : IBV_RX_HASH_DST_IPV4;
	if (kind >= VERBS_GROUP_IPV4_UDP)
		mask |= IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
	return mask;
}

static struct ibv_qp *group_create_qp(struct verbs_queue *queue, enum backend_hash hash, uint64_t fields)
{
	uint8_t key[KEY_BYTES];
	struct ibv_qp_init_attr_ex init = {
		.qp_context = queue, /* for verbs_read_notice() */
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE,
		.pd = queue->backend->pd,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	                         .rx_hash_key_len = KEY_BYTES,
	                         .rx_hash_key = key,
	                         .rx_hash_fields_mask = fields},
		.rwq_ind_tbl = queue->table,
	};

	group_make_key(hash, key);
	return ibv_create_qp_ex(queue->backend->context, &init);
}

/* ---- a member ------------------------------------------------------------------------------------ */

/* mlx5 takes a receive queue from RESET to RDY only, and the queue pairs above it have no state. */
int verbs_group_modify(struct verbs_queue *queue, enum ibv_wq_state state)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = state};

	return -ibv_modify_wq(queue->wq, &attr);
}

static int group_explain_wq(const struct verbs_queue *queue, const struct backend_queue_options *options, int error,
                            struct failure *failure)
{
	const char *device = verbs_device_name(queue->backend);

	/* mlx5_ib: mlx5_ib_create_wq() asks for it in the first user namespace, since all of the port's queues wait. */
	if (error == EPERM && options->delay_drop && !priv_has(CAP_SYS_RAWIO))
		return failure_set(
			failure, EX_NOPERM, error,
			"cannot create a queue with delay_drop on %s: %s: it needs CAP_SYS_RAWIO while the daemon "
			"starts: AmbientCapabilities= and CapabilityBoundingSet=CAP_SYS_RAWIO in the unit, and a "
			"restart; or set delay_drop = false",
			device, strerror(error));
	return failure_set(failure, EX_UNAVAILABLE, error, "cannot create %s of %u slots on %s: %s%s%s",
	                   options->delay_drop ? "a queue with delay_drop" : "one of several queues", options->slots,
	                   device, strerror(error), verbs_explain_limit(error),
	                   options->delay_drop && error == EOPNOTSUPP ? ": set delay_drop = false" : "");
}

int verbs_create_member(struct verbs_queue *queue, const struct backend_queue_options *options, struct failure *failure)
{
	struct ibv_wq_init_attr init = {
		.wq_context = queue,
		.wq_type = IBV_WQT_RQ,
		.max_wr = options->slots,
		.max_sge = options->oversize_sink ? 3 : 2,
		.pd = queue->parent_domain ? queue->parent_domain : queue->backend->pd,
		.cq = ibv_cq_ex_to_cq(queue->cq),
		.comp_mask = options->delay_drop ? IBV_WQ_INIT_ATTR_FLAGS : 0,
		.create_flags = options->delay_drop ? IBV_WQ_FLAGS_DELAY_DROP : 0,
	};
	int error;

	queue->wq = ibv_create_wq(queue->backend->context, &init);
	error = queue->wq ? verbs_group_modify(queue, IBV_WQS_RDY) : -errno;
	if (!error)
		error = verbs_group_create_table(queue, &queue->wq, 1);
	if (!error) {
		queue->qp = group_create_qp(queue, BACKEND_HASH_TOEPLITZ, 0);
		error = queue->qp ? 0 : -errno;
	}
	if (error)
		return group_explain_wq(queue, options, -error, failure);
	if ((uint32_t)ibv_cq_ex_to_cq(queue->cq)->cqe < init.max_wr)
		return failure_set(
			failure, EX_UNAVAILABLE, EOVERFLOW,
			"%s gave a completion queue of %d entries for a receive queue of %u: it would overrun",
			verbs_device_name(queue->backend), ibv_cq_ex_to_cq(queue->cq)->cqe, init.max_wr);
	return 0;
}

/* ---- the group ----------------------------------------------------------------------------------- */

static enum verbs_group_kind group_kind(const struct verbs_group *group, const struct flow_rule *rule)
{
	bool is_udp = rule->mask.protocol == UINT8_MAX && rule->value.protocol == IPPROTO_UDP;
	bool ports = is_udp && group->options.fields & BACKEND_HASH_PORTS;

	if (rule->family == AF_INET6)
		return ports ? VERBS_GROUP_IPV6_UDP : VERBS_GROUP_IPV6;
	return ports ? VERBS_GROUP_IPV4_UDP : VERBS_GROUP_IPV4;
}

int verbs_group_make_kind(struct verbs_group *group, enum verbs_group_kind kind)
{
	if (!group->qps[kind])
		group->qps[kind] = group_create_qp(&group->queue, group->options.hash,
		                                   group_hash_fields(kind, group->options.fields));
	return group->qps[kind] ? 0 : -errno;
}

int verbs_group_qp(struct verbs_queue *queue, const struct flow_rule *rule, struct ibv_qp **qp)
{
	enum verbs_group_kind kind;
	int error;

	*qp = queue->qp;
	if (!queue->is_group)
		return 0;
	kind = group_kind(verbs_group(queue), rule);
	error = verbs_group_make_kind(verbs_group(queue), kind);
	*qp = verbs_group(queue)->qps[kind];
	return error;
}

static void group_destroy_qp(const struct verbs_queue *queue, struct ibv_qp *qp)
{
	int error = qp ? ibv_destroy_qp(qp) : 0;

	if (error) /* EBUSY: a flow is still attached */
		log_error("cannot destroy a queue pair of %s: %s", verbs_device_name(queue->backend), strerror(error));
}

void verbs_group_release(struct verbs_queue *queue)
{
	if (queue->is_group) {
		for (int i = 0; i < VERBS_GROUP_N_KINDS; i++)
			group_destroy_qp(queue, verbs_group(queue)->qps[i]);
		queue->qp = NULL; /* one of these */
	}
	group_destroy_qp(queue, queue->qp);
	if (queue->table)
		ibv_destroy_rwq_ind_table(queue->table);
	if (queue->wq)
		ibv_destroy_wq(queue->wq);
}
