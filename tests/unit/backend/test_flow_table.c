// SPDX-License-Identifier: Apache-2.0
/* When the kernel may give the memory of a removed rule to another one. */
#include "daemon/backend/bpf/flow_table.h"

#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

enum { FLOWS_FD = 1, CONDITIONS_FD, SETTINGS_FD };

static struct flow_table table;
static struct flow_conditional entries[FLOW_CONDITIONS_MAX];
static bool was_removed[FLOW_CONDITIONS_MAX + 1]; /* and frames may still read it; the last is that of exact rules */
static uint32_t n_waits;

/* In place of the kernel's. */
void frame_wait(void)
{
	memset(was_removed, false, sizeof(was_removed));
	n_waits++;
}

int bpf_map_update_elem(int fd, const void *key, const void *value, __u64 flags)
{
	const struct flow_conditional *wanted = value;
	struct flow_conditional *entry;
	uint32_t i;

	(void)flags;
	if (fd == FLOWS_FD)
		cr_expect_not(was_removed[FLOW_CONDITIONS_MAX],
		              "an exact rule came while frames may read one that went");
	if (fd != CONDITIONS_FD)
		return 0;
	memcpy(&i, key, sizeof(i));
	entry = &entries[i];
	if (entry->target.rank > 0 && wanted->target.rank == 0)
		was_removed[i] = true;
	else
		cr_expect_not(was_removed[i], "entry %u was given to a rule while frames may read the one before", i);
	cr_expect(wanted->target.rank == 0 ||
	                  memcmp(&entry->condition, &wanted->condition, sizeof(entry->condition)) == 0,
	          "entry %u counts before its condition is whole", i);
	*entry = *wanted;
	return 0;
}

int bpf_map_delete_elem(int fd, const void *key)
{
	(void)key;
	was_removed[FLOW_CONDITIONS_MAX] |= fd == FLOWS_FD;
	return 0;
}

static void set_up(void)
{
	table = (struct flow_table){.flows_fd = FLOWS_FD, .conditions_fd = CONDITIONS_FD, .settings_fd = SETTINGS_FD};
}

TestSuite(flow_table, .init = set_up);

/* Exact with priority 0, else a condition. */
static struct flow_rule rule_of(uint16_t port, uint32_t priority)
{
	struct flow_rule rule = {.family = AF_INET,
	                         .priority = priority,
	                         .value = {.destination = {10, 0, 0, 1}, .protocol = IPPROTO_UDP},
	                         .mask = FLOW_MASK_UDP_IPV4};

	rule.value.destination_port_be = htons(port);
	return rule;
}

static void add(const struct flow_rule *rule, uint32_t queue)
{
	struct failure failure;

	cr_assert(eq(int, flow_table_add(&table, rule, &(struct flow_target){.queue = queue}, &failure), 0), "%s",
	          failure.text);
}

Test(flow_table, a_rule_gets_the_memory_of_another_when_no_frame_reads_it_any_more)
{
	for (uint32_t priority = 0; priority < 2; priority++) {
		const struct flow_rule first = rule_of(1, priority), second = rule_of(2, priority);

		cr_assert(eq(int, flow_table_is_exact(&first), priority == 0));
		n_waits = 0;
		add(&first, 0);
		cr_expect(eq(u32, n_waits, 0));
		flow_table_remove(&table, &first);
		add(&second, 1);
		cr_expect(eq(u32, n_waits, 1));
		flow_table_remove(&table, &second);
		add(&first, 0);
		cr_expect(eq(u32, n_waits, 2));
	}
}

Test(flow_table, one_wait_is_for_all_rules_that_went)
{
	struct flow_rule rules[8], later[8];

	for (uint16_t i = 0; i < 8; i++) {
		rules[i] = rule_of(i, i % 2);
		later[i] = rule_of(100 + i, i % 2);
		add(&rules[i], 0);
	}
	for (uint16_t i = 0; i < 8; i++)
		flow_table_remove(&table, &rules[i]);
	for (uint16_t i = 0; i < 8; i++)
		add(&later[i], 1);
	cr_expect(eq(u32, n_waits, 1));
}
