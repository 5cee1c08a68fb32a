// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_rules list [PROFILE] | verbs_rules NAME
 *
 * `list` prints the rules of every device or, with PROFILE, those that only a device of that profile keeps. With NAME
 * the program tries to break the rule: exit status 0 if the device keeps it, else 1 and a line on what it did instead.
 */
#include "verbs_rules.h"

#include <stdio.h>
#include <time.h>

static const struct {
	const struct rule *rules;
	const char *profile; /* NULL: the default one */
} sets[] = {
	{object_rules, NULL},
	{memory_rules, NULL},
	{basic_rules, NULL},
	{misuse_rules, NULL},
	{completion_rules, NULL},
	{queue_rules, NULL},
	{rss_rules, NULL},
	{receive_rules, NULL},
	{send_rules, NULL},
	{flow_rules, NULL},
	{counters_rules, NULL},
	{thread_rules, NULL},
	{connectx4_rules, "connectx4"},
	{connectx6_rules, "connectx6"},
	{minimal_rules, "minimal"},
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

void ask_for_frames(unsigned int port, unsigned int count, unsigned int payload)
{
	char line[64];

	printf("send %u %u %u\n", port, count, payload);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("nobody sends frames");
}

static void list(const char *profile)
{
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (profile ? !sets[i].profile || strcmp(profile, sets[i].profile) : !!sets[i].profile)
			continue;
		for (const struct rule *r = sets[i].rules; r->name; r++)
			printf("%s\t%s\n", r->name, r->source);
	}
}

static int check(const struct rule *r)
{
	const char *seen = r->check();

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
