// SPDX-License-Identifier: Apache-2.0
/* The advice on hugepages fits the machine. */
#include "daemon/ring/pages.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>
#include <unistd.h>

Test(pages, a_few_are_had_by_a_command)
{
	char text[PAGES_ADVICE_MAX];

	cr_expect(strstr(pages_advice(text, 2u << 20, 2, "history_blocks"), "get them with: echo ") != NULL, "%s",
	          text);
	cr_expect(strstr(text, " > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages, or lower history_blocks") !=
	                  NULL,
	          "%s", text);
}

Test(pages, for_more_than_the_machine_can_spare_there_is_no_command)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	char text[PAGES_ADVICE_MAX];

	pages_advice(text, 2u << 20, memory / 10 * 8 / (2u << 20), "arena_slots");
	cr_expect(eq(ptr, strstr(text, "echo"), NULL));
	cr_expect(strstr(text, "this machine has ") && strstr(text, ": lower arena_slots"), "%s", text);
	pages_advice(text, 2u << 20, UINT64_C(1) << 40, "history_blocks");
	cr_expect(eq(ptr, strstr(text, "echo"), NULL));
}
