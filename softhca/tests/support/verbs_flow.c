// SPDX-License-Identifier: Apache-2.0
/*
 * Queue pairs and flows, told what to do line by line on stdin; each line gets one in return.
 *
 *   qp SEND_DEPTH           opens a device, with a queue pair: "ok N"
 *   flow QP WORD...         "ok N", or "errno E"; words below
 *   match QP WORD...        the same flow by a matcher; the word miss: frames go to the kernel
 *   unflow FLOW             "ok"
 *   poll QP                 takes all completions: "ok" and for each HEXFRAME/TAG, or "sent"
 *   send QP HEXFRAME        "ok"
 *   count FLOW              of a flow with a counter: "ok PACKETS BYTES"
 *   fork                    a child that does nothing: "ok PID"
 *
 * Words of a flow: type=0..3 prio=N flags=N, then specs: eth ip4 ip4old ip6 udp tcp drop count
 * tag=N, each with fields after it: name=value or name=value/mask (dst, src, type, vlan, proto,
 * tos, label and, with a matcher, ttl and frag; numbers in hex but for ports and ttl, addresses as usual; without a
 * mask all bits).
 */
#include "verbs_flow_matcher.h"
#include "verbs_flow_words.h"

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
	struct mlx5dv_flow_matcher *matcher;
};

struct state {
	struct queue queues[MAX_QUEUES];
	struct made flows[MAX_FLOWS];
	unsigned int n_queues, n_flows;
};

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
	if (value && flow_set_field(*last, word, value))
		return;
	if (value && !*last && !strcmp(word, "type")) {
		f->attr.type = (enum ibv_flow_attr_type)strtol(value, NULL, 0);
	} else if (value && !strcmp(word, "prio")) {
		f->attr.priority = (uint16_t)strtol(value, NULL, 0);
	} else if (value && !strcmp(word, "flags")) {
		f->attr.flags = (uint32_t)strtol(value, NULL, 0);
	} else {
		*last = flow_add_word(f, word);
		if (!*last)
			die("what is %s?", word);
		if ((*last)->hdr.type == IBV_FLOW_SPEC_ACTION_TAG)
			(*last)->flow_tag.tag_id = (uint32_t)strtoul(value ? value : "0", NULL, 0);
		if ((*last)->hdr.type == IBV_FLOW_SPEC_ACTION_COUNT)
			(*last)->flow_count.counters = made->counters = new_counters(q);
	}
}

static void do_flow(struct state *s, char *rest, bool by_matcher)
{
	char *save = NULL, *word = strtok_r(rest, " ", &save);
	struct queue *q = &s->queues[atoi(word)];
	struct made *made = &s->flows[s->n_flows];
	struct ibv_flow_spec *last = NULL;
	struct flow_rule f;
	bool miss = false;

	flow_init(&f);
	while ((word = strtok_r(NULL, " ", &save)))
		if (by_matcher && !strcmp(word, "miss"))
			miss = true;
		else
			parse_word(q, &f, &last, word, made);
	made->flow = by_matcher ? matcher_flow(q, &f, miss, &made->matcher) : ibv_create_flow(q->qp, &f.attr);
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
	if (!errno && made->matcher)
		errno = mlx5dv_destroy_flow_matcher(made->matcher);
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
	else if ((!strcmp(line, "flow") || !strcmp(line, "match")) && rest && n < s->n_queues && s->n_flows < MAX_FLOWS)
		do_flow(s, rest, *line == 'm');
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
