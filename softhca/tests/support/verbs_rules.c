// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_rules list | verbs_rules list SETTING | verbs_rules settings | verbs_rules NAME
 *
 * `list` prints the rules of every device or, with SETTING, those that only a device with that setting of softhca
 * keeps; `settings` prints these. With NAME the program tries to break the rule: exit status 0 if the device keeps it,
 * else 1 and a line on what it did instead.
 */
#include "verbs_rules.h"

#include <stdio.h>
#include <time.h>

static const struct {
	const struct rule *rules;
	const char *settings; /* under which a device keeps them; NULL: the default ones */
} sets[] = {
	{object_rules, NULL},
	{fork_rules, NULL},
	{memory_rules, NULL},
	{dmabuf_rules, NULL},
	{basic_rules, NULL},
	{misuse_rules, NULL},
	{completion_rules, NULL},
	{dv_rules, NULL},
	{queue_rules, NULL},
	{rss_rules, NULL},
	{receive_rules, NULL},
	{send_rules, NULL},
	{flow_rules, NULL},
	{matcher_rules, NULL},
	{counters_rules, NULL},
	{rdma_rules, NULL},
	{thread_rules, NULL},
	{connectx4_rules, "SOFTHCA_PROFILE=connectx4"},
	{connectx6_rules, "SOFTHCA_PROFILE=connectx6"},
	{minimal_rules, "SOFTHCA_PROFILE=minimal"},
	{real_time_rules, "SOFTHCA_REAL_TIME=only"},
	{flow_entries_rules, "SOFTHCA_FLOW_ENTRIES=70"},
	{switchdev_rules, "SOFTHCA_ESWITCH=switchdev"},
	{roce_rules, "SOFTHCA_ROCE=0"},
	{objects_rules, "SOFTHCA_OBJECTS=20"},
	{comp_vectors_rules, "SOFTHCA_COMP_VECTORS=63"},
	{faults_rules, "SOFTHCA_FAULTS=/tmp/verbs_rules_faults"},
};
static struct queue shared;
static bool shared_open;

struct queue *shared_queue(void)
{
	static const struct queue_config config = {.depth = 8, .n_sge = 2, .payload_bytes = 2048};

	if (!shared_open)
		queue_open(&shared, &config);
	shared_open = true;
	return &shared;
}

void close_shared_queue(void)
{
	if (shared_open)
		queue_close(&shared);
}

void wait_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

int next_status(struct queue *q, unsigned int timeout_ms, uint64_t *wr_id)
{
	uint64_t end = now_ns() + timeout_ms * 1000000ull;
	struct ibv_poll_cq_attr attr = {};
	int status;

	while (ibv_start_poll(q->cq, &attr))
		if (now_ns() > end)
			return -1;
	status = (int)q->cq->status;
	if (wr_id)
		*wr_id = q->cq->wr_id;
	ibv_end_poll(q->cq);
	return status;
}

void revive(struct queue *q)
{
	queue_to_state(q, IBV_QPS_RESET);
	queue_to_state(q, IBV_QPS_INIT);
	queue_to_state(q, IBV_QPS_RTR);
	queue_to_state(q, IBV_QPS_RTS);
}

int send_from(struct queue *q, uint64_t address, uint32_t lkey)
{
	struct ibv_sge sge = {address, 100, lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int status;

	if (ibv_post_send(q->qp, &wr, &bad))
		return IBV_WC_GENERAL_ERR;
	status = next_status(q, LONG_MS, NULL);
	if (status)
		revive(q);
	return status;
}

void ask_for_frames(unsigned int port, unsigned int count, unsigned int payload)
{
	char line[64];

	printf("send %u %u %u\n", port, count, payload);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("nobody sends frames");
}

static void list(const char *settings)
{
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (settings ? !sets[i].settings || strcmp(settings, sets[i].settings) : !!sets[i].settings)
			continue;
		for (const struct rule *r = sets[i].rules; r->name; r++)
			printf("%s\t%s\n", r->name, r->source);
	}
}

static const char *check_with_queue(const struct rule *r)
{
	const char *seen;
	struct queue q;

	queue_open(&q, r->config);
	seen = r->check_queue(&q);
	if (!seen)
		queue_close(&q);
	return seen;
}

static int check(const struct rule *r)
{
	const char *seen = r->check ? r->check() : check_with_queue(r);

	if (seen) {
		printf("broken: %s (source: %s)\n", seen, r->source);
		return 1;
	}
	close_shared_queue();
	puts("kept");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "settings")) {
		for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
			if (sets[i].settings)
				puts(sets[i].settings);
		return 0;
	}
	if (argc < 2 || !strcmp(argv[1], "list")) {
		list(argc > 2 ? argv[2] : NULL);
		return 0;
	}
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		for (const struct rule *r = sets[i].rules; r->name; r++)
			if (!strcmp(r->name, argv[1]))
				return check(r);
	return 2;
}
