// SPDX-License-Identifier: Apache-2.0
/* What the verbs programs share: a device with a receive queue, flow rules and errors that end the program. */
#include "verbs_common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NULL_SINK_BYTES 65536
#define CHAIN           64

void die(const char *format, ...)
{
	int saved = errno;
	va_list ap;

	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fprintf(stderr, " (errno %d: %s)\n", saved, strerror(saved));
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	if (!list || !list[0])
		die("no RDMA device");
	for (int i = 0; list[i]; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name)) {
			ctx = ibv_open_device(list[i]);
			break;
		}
	ibv_free_device_list(list);
	if (!ctx)
		die("cannot open %s", name ? name : "the device");
	return ctx;
}

static void create_qp(struct queue *q)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ibv_cq_ex_to_cq(q->cq),
		.recv_cq = ibv_cq_ex_to_cq(q->cq),
		.cap = {.max_recv_wr = q->config.depth,
	                .max_recv_sge = q->config.n_sge + q->config.null_sink,
	                .max_send_wr = q->config.send_depth,
	                .max_send_sge = q->config.send_depth ? 2 : 0,
	                .max_inline_data = q->config.send_depth ? 128 : 0},
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = q->pd,
	};

	if (q->config.strip_vlan) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		attr.create_flags = IBV_QP_CREATE_CVLAN_STRIPPING;
	}
	q->qp = ibv_create_qp_ex(q->ctx, &attr);
	if (!q->qp)
		die("ibv_create_qp_ex");
}

void queue_to_state(struct queue *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state, .port_num = q->config.port ? q->config.port : 1};
	int mask = IBV_QP_STATE | (state == IBV_QPS_INIT ? IBV_QP_PORT : 0);

	errno = ibv_modify_qp(q->qp, &attr, mask);
	if (errno)
		die("ibv_modify_qp to state %d", state);
}

static void register_memory(struct queue *q)
{
	size_t headers = (size_t)q->config.depth * HEADER_STRIDE;
	size_t payloads = (size_t)q->config.depth * q->config.payload_bytes;

	q->headers = aligned_alloc(4096, (headers + 4095) & ~(size_t)4095);
	q->payloads = aligned_alloc(4096, (payloads + 4095) & ~(size_t)4095);
	if (!q->headers || !q->payloads)
		die("memory");
	memset(q->headers, 0, headers);
	memset(q->payloads, 0, payloads);
	q->header_mr = ibv_reg_mr(q->pd, q->headers, headers, IBV_ACCESS_LOCAL_WRITE);
	q->payload_mr = ibv_reg_mr(q->pd, q->payloads, payloads, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
	if (!q->header_mr || !q->payload_mr)
		die("ibv_reg_mr");
	if (q->config.null_sink) {
		q->null_mr = ibv_alloc_null_mr(q->pd);
		if (!q->null_mr)
			die("ibv_alloc_null_mr");
	}
}

void queue_open(struct queue *q, const struct queue_config *config)
{
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = config->cqe ? config->cqe : config->depth + config->send_depth,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_FLOW_TAG |
	                    IBV_WC_EX_WITH_CVLAN,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
	};

	queue_open_with(q, config, &cq_attr);
}

void queue_open_with(struct queue *q, const struct queue_config *config, struct ibv_cq_init_attr_ex *cq_attr)
{
	memset(q, 0, sizeof(*q));
	q->config = *config;
	q->ctx = open_device(config->device);
	q->pd = ibv_alloc_pd(q->ctx);
	if (!q->pd)
		die("ibv_alloc_pd");
	if (config->use_channel) {
		q->channel = ibv_create_comp_channel(q->ctx);
		if (!q->channel)
			die("ibv_create_comp_channel");
		cq_attr->channel = q->channel;
	}
	q->cq = ibv_create_cq_ex(q->ctx, cq_attr);
	if (!q->cq)
		die("ibv_create_cq_ex");
	create_qp(q);
	register_memory(q);
	queue_to_state(q, IBV_QPS_INIT);
	queue_to_state(q, IBV_QPS_RTR);
	if (config->send_depth)
		queue_to_state(q, IBV_QPS_RTS);
}

int queue_post(struct queue *q, unsigned int first, unsigned int n)
{
	while (n) {
		struct ibv_recv_wr wr[CHAIN] = {}, *bad;
		struct ibv_sge sge[CHAIN][3];
		unsigned int chain = n < CHAIN ? n : CHAIN;

		for (unsigned int i = 0; i < chain; i++) {
			unsigned int slot = (first + i) % q->config.depth;
			int k = 0;

			if (q->config.n_sge == 2)
				sge[i][k++] = (struct ibv_sge){(uintptr_t)q->headers + (size_t)slot * HEADER_STRIDE,
				                               HEADER_BYTES, q->header_mr->lkey};
			sge[i][k++] = (struct ibv_sge){(uintptr_t)q->payloads + (size_t)slot * q->config.payload_bytes,
			                               q->config.payload_bytes, q->payload_mr->lkey};
			if (q->null_mr)
				sge[i][k++] = (struct ibv_sge){0, NULL_SINK_BYTES, q->null_mr->lkey};
			wr[i] = (struct ibv_recv_wr){.wr_id = slot,
			                             .sg_list = sge[i],
			                             .num_sge = k,
			                             .next = i + 1 < chain ? &wr[i + 1] : NULL};
		}
		int r = ibv_post_recv(q->qp, wr, &bad);
		if (r)
			return r;
		first += chain;
		n -= chain;
	}
	return 0;
}

void flow_init(struct flow_rule *f)
{
	memset(f, 0, sizeof(*f));
	f->attr.type = IBV_FLOW_ATTR_NORMAL;
	f->attr.size = sizeof(f->attr);
	f->attr.port = 1;
}

void *flow_add_spec(struct flow_rule *f, enum ibv_flow_spec_type type, uint16_t size)
{
	struct ibv_flow_spec *s = (void *)((uint8_t *)&f->attr + f->attr.size);

	s->hdr.type = type;
	s->hdr.size = size;
	f->attr.size += size;
	f->attr.num_of_specs++;
	return s;
}

struct ibv_flow_spec_eth *flow_add_eth(struct flow_rule *f)
{
	return flow_add_spec(f, IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth));
}

struct ibv_flow_spec_ipv4_ext *flow_add_ipv4(struct flow_rule *f, const char *dst)
{
	struct ibv_flow_spec_ipv4_ext *s =
		flow_add_spec(f, IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext));

	if (dst) {
		inet_pton(AF_INET, dst, &s->val.dst_ip);
		s->mask.dst_ip = 0xffffffffu;
	}
	return s;
}

struct ibv_flow_spec_ipv6 *flow_add_ipv6(struct flow_rule *f, const char *dst)
{
	struct ibv_flow_spec_ipv6 *s = flow_add_spec(f, IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6));

	if (dst) {
		inet_pton(AF_INET6, dst, s->val.dst_ip);
		memset(s->mask.dst_ip, 0xff, 16);
	}
	return s;
}

struct ibv_flow_spec_tcp_udp *flow_add_udp(struct flow_rule *f, uint16_t dst_port)
{
	struct ibv_flow_spec_tcp_udp *s = flow_add_spec(f, IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp));

	if (dst_port) {
		s->val.dst_port = htons(dst_port);
		s->mask.dst_port = 0xffff;
	}
	return s;
}

static void add_counters(struct queue *q, struct flow_rule *f)
{
	struct ibv_counters_init_attr init = {};
	struct ibv_counter_attach_attr attach = {.counter_desc = IBV_COUNTER_PACKETS, .index = 0};
	struct ibv_flow_spec_counter_action *s;

	q->counters = ibv_create_counters(q->ctx, &init);
	if (!q->counters)
		die("ibv_create_counters");
	errno = ibv_attach_counters_point_flow(q->counters, &attach, NULL);
	if (errno)
		die("ibv_attach_counters_point_flow");
	s = flow_add_spec(f, IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action));
	s->counters = q->counters;
}

int queue_add_udp_flow(struct queue *q, const char *dst_ip, uint16_t dst_port, bool count)
{
	struct flow_rule f;

	flow_init(&f);
	if (dst_ip && strchr(dst_ip, ':'))
		flow_add_ipv6(&f, dst_ip);
	else
		flow_add_ipv4(&f, dst_ip);
	flow_add_udp(&f, dst_port);
	if (count)
		add_counters(q, &f);
	q->flow = ibv_create_flow(q->qp, &f.attr);
	return q->flow ? 0 : errno;
}

uint64_t queue_matched(struct queue *q)
{
	uint64_t packets = 0;

	errno = ibv_read_counters(q->counters, &packets, 1, 0);
	if (errno)
		die("ibv_read_counters");
	return packets;
}

static void check(int r, const char *what)
{
	errno = r;
	if (r)
		die("%s", what);
}

void queue_close(struct queue *q)
{
	if (q->flow)
		check(ibv_destroy_flow(q->flow), "ibv_destroy_flow");
	if (q->counters)
		check(ibv_destroy_counters(q->counters), "ibv_destroy_counters");
	check(ibv_destroy_qp(q->qp), "ibv_destroy_qp");
	check(ibv_destroy_cq(ibv_cq_ex_to_cq(q->cq)), "ibv_destroy_cq");
	if (q->channel)
		check(ibv_destroy_comp_channel(q->channel), "ibv_destroy_comp_channel");
	if (q->null_mr)
		check(ibv_dereg_mr(q->null_mr), "ibv_dereg_mr of the null MR");
	check(ibv_dereg_mr(q->header_mr), "ibv_dereg_mr");
	check(ibv_dereg_mr(q->payload_mr), "ibv_dereg_mr");
	check(ibv_dealloc_pd(q->pd), "ibv_dealloc_pd");
	check(ibv_close_device(q->ctx), "ibv_close_device");
	free(q->headers);
	free(q->payloads);
}

void rss_pair_open(struct rss_pair *pair, struct ibv_pd *pd, struct ibv_wq **wqs, uint32_t log_size, uint64_t fields)
{
	static uint8_t key[] = {
		0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
		0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
		0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
	};
	struct ibv_rwq_ind_table_init_attr table = {.log_ind_tbl_size = log_size, .ind_tbl = wqs};
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
		.pd = pd,
		.rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
	                         .rx_hash_key_len = sizeof(key),
	                         .rx_hash_key = key,
	                         .rx_hash_fields_mask = fields},
	};
	struct flow_rule f;

	pair->table = attr.rwq_ind_tbl = ibv_create_rwq_ind_table(pd->context, &table);
	if (!pair->table)
		die("ibv_create_rwq_ind_table");
	pair->qp = ibv_create_qp_ex(pd->context, &attr);
	if (!pair->qp)
		die("ibv_create_qp_ex");
	flow_init(&f);
	flow_add_ipv4(&f, NULL);
	flow_add_udp(&f, 0);
	pair->flow = ibv_create_flow(pair->qp, &f.attr);
	if (!pair->flow)
		die("ibv_create_flow");
}
