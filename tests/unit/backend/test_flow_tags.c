// SPDX-License-Identifier: Apache-2.0
/* Which flow of a queue a packet matched. */
#include "daemon/backend/bpf/flow_tags.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct flow_tags *tags;

static void set_up(void)
{
	tags = flow_tags_new();
	cr_assert_not_null(tags);
}

static void tear_down(void)
{
	flow_tags_free(tags);
}

TestSuite(flow_tags, .init = set_up, .fini = tear_down);

/* Of UDP to 10.0.0.0 and so many bytes. */
static struct flow_rule rule_of(int n_bytes, uint32_t priority, uint32_t tag)
{
	struct flow_rule rule = {.family = AF_INET,
	                         .priority = priority,
	                         .tag = tag,
	                         .value.destination = {10},
	                         .mask.destination = {0}};

	memset(rule.mask.destination, 0xff, (size_t)n_bytes);
	return rule;
}

static uint32_t tag_of(uint8_t last)
{
	const struct flow_headers headers = {.key = {.destination = {10, 0, 0, last}, .ip_version = 4}};

	return flow_tags_find(tags, &headers);
}

Test(flow_tags, of_two_flows_the_one_of_higher_priority_counts)
{
	struct flow_rule wide = rule_of(3, 0, 7), narrow = rule_of(4, 1, 8);

	flow_tags_add(tags, &wide, true);
	flow_tags_add(tags, &narrow, true);
	cr_expect_eq(tag_of(0), 8);
	cr_expect_eq(tag_of(1), 7);
}

Test(flow_tags, a_flow_that_was_removed_has_the_packets_that_no_other_has)
{
	struct flow_rule narrow = rule_of(4, 3, 8), wide = rule_of(3, 0, 7);

	flow_tags_add(tags, &narrow, true);
	flow_tags_remove(tags, &narrow, true);
	cr_expect_eq(tag_of(0), 8);
	flow_tags_add(tags, &wide, true);
	cr_expect_eq(tag_of(0), 7);
}

Test(flow_tags, places_of_removed_flows_are_taken_when_all_are_used)
{
	struct flow_rule rule = rule_of(4, 0, 1);

	for (int i = 0; i < FLOW_TAGS_MAX; i++)
		cr_assert_eq(flow_tags_add(tags, &rule, true), 0);
	rule.tag = 2;
	cr_expect(flow_tags_add(tags, &rule, true) < 0);
	rule.tag = 1;
	flow_tags_remove(tags, &rule, true);
	rule.tag = 2;
	cr_expect_eq(flow_tags_add(tags, &rule, true), 0);
	cr_expect_eq(tag_of(0), 2);
}

/* ---- a place that is taken while the worker reads it ---------------------------------------------- */

static struct flow_rule before, after; /* the second takes the place of the first */
static uint8_t *last_word_page;
static size_t page_bytes;

/* Runs when the worker reads the last word of the headers: after the other words, and before the flow's number. */
static void exchange_flows(int number)
{
	(void)number;
	flow_tags_add(tags, &after, true);
	mprotect(last_word_page, page_bytes, PROT_READ);
}

Test(flow_tags, a_packet_of_a_flow_that_went_does_not_get_the_number_of_the_one_in_its_place)
{
	const struct flow_headers headers = {.key = {.destination = {10, 0, 0, 1}, .ip_version = 4}};
	struct flow_rule other = rule_of(4, 0, 9);
	uint8_t *at;

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	at = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert(at != MAP_FAILED);
	last_word_page = at + page_bytes;
	at = last_word_page - (FLOW_HEADERS_N_WORDS - 1) * sizeof(flow_word);
	memcpy(at, &headers, sizeof(headers));

	before = after = rule_of(4, 0, 1);
	before.value.destination[3] = 1;
	after.value.destination[3] = 2;
	after.tag = 2;
	cr_assert_eq(flow_tags_add(tags, &before, true), 0);
	for (int i = 0; i < FLOW_TAGS_MAX - 1; i++)
		cr_assert_eq(flow_tags_add(tags, &other, true), 0);
	flow_tags_remove(tags, &before, true);

	sigaction(SIGSEGV, &(struct sigaction){.sa_handler = exchange_flows}, NULL);
	mprotect(last_word_page, page_bytes, PROT_NONE);
	cr_expect_eq(flow_tags_find(tags, (const struct flow_headers *)at), 0);
	sigaction(SIGSEGV, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	cr_expect_eq(tag_of(2), 2);
}

Test(flow_tags, a_queue_without_tags_takes_every_flow)
{
	struct flow_rule rule = rule_of(4, 0, 1);

	cr_expect_eq(flow_tags_add(NULL, &rule, true), 0);
	flow_tags_remove(NULL, &rule, true);
}
