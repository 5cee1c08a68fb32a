// SPDX-License-Identifier: Apache-2.0
/*
 * Queue pairs and flows, told what to do line by line on stdin; each line gets one in return.
 *
 *   qp SEND_DEPTH           opens a device, with a queue pair: "ok N"
 *   flow QP WORD...         "ok N", or "errno E"; words below
 *   unflow FLOW             "ok"
 *   poll QP                 takes all completions: "ok" and for each HEXFRAME/TAG, or "sent"
 *   send QP HEXFRAME        "ok"
 *   count FLOW              of a flow with a counter: "ok PACKETS BYTES"
 *   fork                    a child that does nothing: "ok PID"
 *
 * Words of a flow: type=0..3 prio=N flags=N, then specs: eth ip4 ip4old ip6 udp tcp drop count
 * tag=N, each with fields after it: name=value or name=value/mask (dst, src, type, vlan, proto,
 * tos, label; numbers in hex but for ports, addresses as usual; without a mask all bits).
 */
#include "verbs_common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_QUEUES 8
#define MAX_FLOWS  64
#define MAX_FRAME  128 /* what can be sent inline */
#define DEPTH      256
#define LINE_BYTES 4096

struct made {
	struct ibv_flow *flow;
	struct ibv_counters *counters;
};

struct state {
	struct queue queues[MAX_QUEUES];
	struct made flows[MAX_FLOWS];
	unsigned int n_queues, n_flows;
};

static bool parse_mac(const char *text, uint8_t *to)
{
	return sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx", to, to + 1, to + 2, to + 3, to + 4, to + 5) == 6;
}

/* One value, `bytes` long in network byte order. */
static void parse_value(const char *text, uint8_t *to, size_t bytes, int base)
{
	unsigned long v;
	bool good = true;

	if (bytes == 6) {
		good = parse_mac(text, to);
	} else if (strchr(text, ':')) {
		good = bytes == 16 && inet_pton(AF_INET6, text, to) == 1;
	} else if (strchr(text, '.')) {
		good = bytes == 4 && inet_pton(AF_INET, text, to) == 1;
	} else {
		v = strtoul(text, NULL, base);
		for (size_t i = bytes; i--; v >>= 8)
			to[i] = (uint8_t)v;
	}
	if (!good)
		die("what is %s?", text);
}

/* value or value/mask */
static void set(char *text, void *value, void *mask, size_t bytes, int base)
{
	char *slash = strchr(text, '/');

	memset(mask, 0xff, bytes);
	if (slash) {
		*slash = 0;
		parse_value(slash + 1, mask, bytes, bytes == 2 ? 16 : base);
	}
	parse_value(text, value, bytes, base);
}

#define SET(spec, field, base) set(value, &(spec)->val.field, &(spec)->mask.field, sizeof((spec)->val.field), base)

static bool set_eth(struct ibv_flow_spec_eth *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_mac, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_mac, 16);
	else if (!strcmp(name, "type"))
		SET(s, ether_type, 16);
	else if (!strcmp(name, "vlan"))
		SET(s, vlan_tag, 16);
	else
		return false;
	return true;
}

static bool set_ipv4(struct ibv_flow_spec_ipv4_ext *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_ip, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_ip, 16);
	else if (s->size != sizeof(struct ibv_flow_spec_ipv4_ext))
		return false;
	else if (!strcmp(name, "proto"))
		SET(s, proto, 16);
	else if (!strcmp(name, "tos"))
		SET(s, tos, 16);
	else
		return false;
	return true;
}

/* The short spec has only the addresses, so its mask lies elsewhere. */
static bool set_old_ipv4(struct ibv_flow_spec_ipv4 *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_ip, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_ip, 16);
	else
		return false;
	return true;
}

static bool set_ipv6(struct ibv_flow_spec_ipv6 *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_ip, 16);
	else if (!strcmp(name, "src"))
		SET(s, src_ip, 16);
	else if (!strcmp(name, "proto"))
		SET(s, next_hdr, 16);
	else if (!strcmp(name, "tos"))
		SET(s, traffic_class, 16);
	else if (!strcmp(name, "label"))
		SET(s, flow_label, 16);
	else
		return false;
	/* A label has 20 bits; the rest of the word is none of it. */
	s->mask.flow_label &= htonl(0xfffff);
	return true;
}

static bool set_ports(struct ibv_flow_spec_tcp_udp *s, const char *name, char *value)
{
	if (!strcmp(name, "dst"))
		SET(s, dst_port, 10);
	else if (!strcmp(name, "src"))
		SET(s, src_port, 10);
	else
		return false;
	return true;
}

static bool set_field(struct ibv_flow_spec *s, const char *name, char *value)
{
	switch (s ? s->hdr.type : 0) {
	case IBV_FLOW_SPEC_ETH:
		return set_eth(&s->eth, name, value);
	case IBV_FLOW_SPEC_IPV4:
		return set_old_ipv4(&s->ipv4, name, value);
	case IBV_FLOW_SPEC_IPV4_EXT:
		return set_ipv4((void *)s, name, value);
	case IBV_FLOW_SPEC_IPV6:
		return set_ipv6((void *)s, name, value);
	case IBV_FLOW_SPEC_UDP:
	case IBV_FLOW_SPEC_TCP:
		return set_ports(&s->tcp_udp, name, value);
	default:
		return false;
	}
}

static struct ibv_flow_spec *add_spec(struct flow_rule *f, const char *name)
{
	static const struct {
		const char *name;
		enum ibv_flow_spec_type type;
		uint16_t bytes;
	} specs[] = {
		{"eth", IBV_FLOW_SPEC_ETH, sizeof(struct ibv_flow_spec_eth)},
		{"ip4", IBV_FLOW_SPEC_IPV4_EXT, sizeof(struct ibv_flow_spec_ipv4_ext)},
		{"ip4old", IBV_FLOW_SPEC_IPV4, sizeof(struct ibv_flow_spec_ipv4)},
		{"ip6", IBV_FLOW_SPEC_IPV6, sizeof(struct ibv_flow_spec_ipv6)},
		{"udp", IBV_FLOW_SPEC_UDP, sizeof(struct ibv_flow_spec_tcp_udp)},
		{"tcp", IBV_FLOW_SPEC_TCP, sizeof(struct ibv_flow_spec_tcp_udp)},
		{"tag", IBV_FLOW_SPEC_ACTION_TAG, sizeof(struct ibv_flow_spec_action_tag)},
		{"drop", IBV_FLOW_SPEC_ACTION_DROP, sizeof(struct ibv_flow_spec_action_drop)},
		{"count", IBV_FLOW_SPEC_ACTION_COUNT, sizeof(struct ibv_flow_spec_counter_action)},
	};

	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (!strcmp(specs[i].name, name))
			return flow_add_spec(f, specs[i].type, specs[i].bytes);
	return NULL;
}

static struct ibv_counters *new_counters(struct queue *q)
{
	struct ibv_counters_init_attr init = {};
	struct ibv_counters *c = ibv_create_counters(q->ctx, &init);

	if (!c)
		die("ibv_create_counters");
	for (uint32_t i = 0; i < 2; i++) {
		struct ibv_counter_attach_attr attach = {.counter_desc = i ? IBV_COUNTER_BYTES : IBV_COUNTER_PACKETS,
		                                         .index = i};

		errno = ibv_attach_counters_point_flow(c, &attach, NULL);
		if (errno)
			die("ibv_attach_counters_point_flow");
	}
	return c;
}

static void parse_word(struct queue *q, struct flow_rule *f, struct ibv_flow_spec **last, char *word, struct made *made)
{
	char *value = strchr(word, '=');

	if (value)
		*value++ = 0;
	if (value && set_field(*last, word, value))
		return;
	if (value && !*last && !strcmp(word, "type")) {
		f->attr.type = (enum ibv_flow_attr_type)strtol(value, NULL, 0);
	} else if (value && !strcmp(word, "prio")) {
		f->attr.priority = (uint16_t)strtol(value, NULL, 0);
	} else if (value && !strcmp(word, "flags")) {
		f->attr.flags = (uint32_t)strtol(value, NULL, 0);
	} else {
		*last = add_spec(f, word);
		if (!*last)
			die("what is %s?", word);
		if ((*last)->hdr.type == IBV_FLOW_SPEC_ACTION_TAG)
			(*last)->flow_tag.tag_id = (uint32_t)strtoul(value ? value : "0", NULL, 0);
		if ((*last)->hdr.type == IBV_FLOW_SPEC_ACTION_COUNT)
			(*last)->flow_count.counters = made->counters = new_counters(q);
	}
}

static void do_flow(struct state *s, char *rest)
{
	char *save = NULL, *word = strtok_r(rest, " ", &save);
	struct queue *q = &s->queues[atoi(word)];
	struct made *made = &s->flows[s->n_flows];
	struct ibv_flow_spec *last = NULL;
	struct flow_rule f;

	flow_init(&f);
	while ((word = strtok_r(NULL, " ", &save)))
		parse_word(q, &f, &last, word, made);
	made->flow = ibv_create_flow(q->qp, &f.attr);
	if (made->flow) {
		printf("ok %u\n", s->n_flows++);
		return;
	}
	printf("errno %d\n", errno);
	if (made->counters)
		ibv_destroy_counters(made->counters);
	made->counters = NULL;
}

static void do_unflow(struct made *made)
{
	errno = ibv_destroy_flow(made->flow);
	if (!errno && made->counters)
		errno = ibv_destroy_counters(made->counters);
	if (errno)
		die("ibv_destroy_flow");
	*made = (struct made){};
	puts("ok");
}

struct completion {
	bool received;
	unsigned int slot;
	uint32_t bytes, tag;
};

static bool next_completion(struct queue *q, struct completion *c)
{
	struct ibv_poll_cq_attr attr = {};
	int r = ibv_start_poll(q->cq, &attr);

	if (r == ENOENT)
		return false;
	if (r || q->cq->status != IBV_WC_SUCCESS)
		die("completion status %d", r ? r : (int)q->cq->status);
	*c = (struct completion){.received = ibv_wc_read_opcode(q->cq) & IBV_WC_RECV,
	                         .slot = (unsigned int)q->cq->wr_id};
	if (c->received) {
		c->bytes = ibv_wc_read_byte_len(q->cq);
		c->tag = ibv_wc_read_flow_tag(q->cq);
	}
	ibv_end_poll(q->cq);
	return true;
}

static void do_poll(struct queue *q)
{
	struct completion c;

	printf("ok");
	while (next_completion(q, &c)) {
		const uint8_t *frame = q->payloads + (size_t)c.slot * q->config.payload_bytes;

		if (!c.received) {
			printf(" sent");
			continue;
		}
		putchar(' ');
		for (uint32_t i = 0; i < c.bytes; i++)
			printf("%02x", frame[i]);
		printf("/%u", c.tag);
		if (queue_post(q, c.slot, 1))
			die("ibv_post_recv");
	}
	putchar('\n');
}

static void do_send(struct queue *q, const char *hex)
{
	uint8_t frame[MAX_FRAME];
	struct ibv_sge sge = {.addr = (uintptr_t)frame};
	struct ibv_send_wr wr = {.sg_list = &sge,
	                         .num_sge = 1,
	                         .opcode = IBV_WR_SEND,
	                         .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE},
			   *bad;

	for (; sge.length < MAX_FRAME && sscanf(hex, "%2hhx", &frame[sge.length]) == 1; hex += 2)
		sge.length++;
	errno = ibv_post_send(q->qp, &wr, &bad);
	if (errno)
		die("ibv_post_send");
	puts("ok");
}

static void do_count(const struct made *made)
{
	uint64_t values[2];

	errno = ibv_read_counters(made->counters, values, 2, 0);
	if (errno)
		die("ibv_read_counters");
	printf("ok %llu %llu\n", (unsigned long long)values[0], (unsigned long long)values[1]);
}

static void do_qp(struct state *s, unsigned int send_depth)
{
	const struct queue_config config = {
		.depth = DEPTH, .n_sge = 1, .payload_bytes = 2048, .send_depth = send_depth};
	struct queue *q = &s->queues[s->n_queues];

	queue_open(q, &config);
	if (queue_post(q, 0, DEPTH))
		die("ibv_post_recv");
	printf("ok %u\n", s->n_queues++);
}

static void do_fork(void)
{
	pid_t child = fork();

	if (child)
		printf("ok %d\n", child);
	else
		pause();
}

static void do_line(struct state *s, char *line)
{
	char *rest = strchr(line, ' ');
	unsigned int n = 0;

	if (rest) {
		*rest++ = 0;
		n = (unsigned int)atoi(rest);
	}
	if (!strcmp(line, "qp") && s->n_queues < MAX_QUEUES)
		do_qp(s, n);
	else if (!strcmp(line, "flow") && rest && n < s->n_queues && s->n_flows < MAX_FLOWS)
		do_flow(s, rest);
	else if (!strcmp(line, "unflow") && n < s->n_flows && s->flows[n].flow)
		do_unflow(&s->flows[n]);
	else if (!strcmp(line, "poll") && n < s->n_queues)
		do_poll(&s->queues[n]);
	else if (!strcmp(line, "send") && n < s->n_queues && rest && strchr(rest, ' '))
		do_send(&s->queues[n], strchr(rest, ' ') + 1);
	else if (!strcmp(line, "count") && n < s->n_flows && s->flows[n].counters)
		do_count(&s->flows[n]);
	else if (!strcmp(line, "fork"))
		do_fork();
	else
		die("what is %s?", line);
	fflush(stdout);
}

int main(void)
{
	static struct state s;
	char line[LINE_BYTES];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		do_line(&s, line);
	}
	for (unsigned int i = 0; i < s.n_flows; i++)
		if (s.flows[i].flow)
			do_unflow(&s.flows[i]);
	for (unsigned int i = 0; i < s.n_queues; i++)
		queue_close(&s.queues[i]);
	return 0;
}
