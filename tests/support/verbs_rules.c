// SPDX-License-Identifier: Apache-2.0
/*
 * verbs_rules list | verbs_rules NAME
 *
 * Exit status 0 when the device keeps the rule, 1 with what was seen instead.
 */
#include "verbs_rules.h"

#include <stdio.h>
#include <time.h>

static const struct rule *const sets[] = {object_rules, flow_rules, receive_rules, rss_rules,
					  send_rules};
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

void ask_for_frames(unsigned int port, unsigned int count, unsigned int payload)
{
	char line[64];

	printf("send %u %u %u\n", port, count, payload);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("nobody sends frames");
}

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++)
		for (const struct rule *r = sets[i]; r->name; r++) {
			const char *seen;

			if (argc < 2 || !strcmp(argv[1], "list")) {
				printf("%s\t%s\n", r->name, r->source);
				continue;
			}
			if (strcmp(r->name, argv[1]))
				continue;
			seen = r->check();
			if (seen) {
				printf("broken: %s (source: %s)\n", seen, r->source);
				return 1;
			}
			close_shared_queue();
			puts("kept");
			return 0;
		}
	return argc < 2 || !strcmp(argv[1], "list") ? 0 : 2;
}
