// SPDX-License-Identifier: Apache-2.0
/* What the verbs test programs share: a raw packet queue set up the usual way. */
#ifndef TESTS_VERBS_COMMON_H
#define TESTS_VERBS_COMMON_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEADER_BYTES  42
#define HEADER_STRIDE 64

struct queue_config {
	const char *device; /* NULL: the first */
	unsigned int depth, n_sge, payload_bytes;
	unsigned int cqe; /* 0: depth */
	bool use_channel, null_sink, strip_vlan;
	unsigned int send_depth;
	uint8_t port; /* 0: 1 */
};

struct queue {
	struct queue_config config;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	uint8_t *headers, *payloads;
	struct ibv_mr *header_mr, *payload_mr, *null_mr;
	struct ibv_counters *counters;
	struct ibv_flow *flow;
};

/* Up to RTR (RTS with a send queue), nothing posted. Exits with a message on failure. */
void queue_open(struct queue *q, const struct queue_config *config);
/* The same with a completion queue of the caller's wishes. */
void queue_open_with(struct queue *q, const struct queue_config *config, struct ibv_cq_init_attr_ex *cq_attr);
void queue_to_state(struct queue *q, enum ibv_qp_state state);
/* Post work requests first..first+n-1 as one chain; the verbs error. */
int queue_post(struct queue *q, unsigned int first, unsigned int n);
/* 0 or the call's errno. */
int queue_add_udp_flow(struct queue *q, const char *dst_ip, uint16_t dst_port, bool count);
uint64_t queue_matched(struct queue *q); /* packets */
void queue_close(struct queue *q);

/* A flow attribute with its specs, for ibv_create_flow(). */
struct flow_rule {
	uint32_t pad; /* the attribute has 20 bytes, and specs want 8-byte alignment */
	struct ibv_flow_attr attr;
	uint8_t specs[512];
} __attribute__((aligned(8)));
void flow_init(struct flow_rule *f);
void *flow_add_spec(struct flow_rule *f, enum ibv_flow_spec_type type, uint16_t size);
struct ibv_flow_spec_eth *flow_add_eth(struct flow_rule *f);
struct ibv_flow_spec_ipv4_ext *flow_add_ipv4(struct flow_rule *f, const char *dst);
struct ibv_flow_spec_ipv6 *flow_add_ipv6(struct flow_rule *f, const char *dst);
struct ibv_flow_spec_tcp_udp *flow_add_udp(struct flow_rule *f, uint16_t dst_port);

/* An RSS queue pair on a table of work queues, with Microsoft's published key and a flow of all UDP packets of IPv4. */
struct rss_pair {
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
};
/* fields: of the packets that are hashed. Exits with a message on failure. */
void rss_pair_open(struct rss_pair *pair, struct ibv_pd *pd, struct ibv_wq **wqs, uint32_t log_size, uint64_t fields);

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ns(void);

#endif
