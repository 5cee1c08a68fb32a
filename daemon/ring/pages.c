// SPDX-License-Identifier: Apache-2.0
/* Reads from sysfs how many hugepages there are, for messages about a lack of them. */
#include "daemon/ring/pages.h"

#include "daemon/base/machine.h"
#include "lib/base/files.h"

#include <stdio.h>

#define PAGES_POOL "/sys/kernel/mm/hugepages/hugepages-%ukB"
#define PAGES_NONE "; page_size = \"4K\" takes none, and is slower"

static uint64_t pages_read_pool(uint32_t page_bytes, const char *name)
{
	char pool[64];

	snprintf(pool, sizeof(pool), PAGES_POOL, page_bytes / 1024);
	return files_read_number(pool, name);
}

uint64_t pages_count_free(uint32_t page_bytes)
{
	return pages_read_pool(page_bytes, "free_hugepages");
}

const char *pages_advice(char *text, uint32_t page_bytes, uint64_t wanted, const char *key)
{
	uint64_t free_pages = pages_count_free(page_bytes), pages = pages_read_pool(page_bytes, "nr_hugepages");
	uint64_t needed = pages - free_pages + wanted;
	int used = snprintf(text, PAGES_ADVICE_MAX, "(%llu free of %llu)", (unsigned long long)free_pages,
	                    (unsigned long long)pages);
	/* Only hugepages can use reserved pages, so a count beyond the machine's memory would starve all programs. */
	if (needed <= machine_memory_bytes() / 100 * MACHINE_SHARE_MAX_PERCENT / page_bytes)
		snprintf(text + used, PAGES_ADVICE_MAX - (size_t)used,
		         "; get them with: echo %llu > " PAGES_POOL "/nr_hugepages, or lower %s" PAGES_NONE,
		         (unsigned long long)needed, page_bytes / 1024, key);
	else
		snprintf(text + used, PAGES_ADVICE_MAX - (size_t)used,
		         ", and this machine has %llu MiB of memory in all: lower %s" PAGES_NONE,
		         (unsigned long long)(machine_memory_bytes() >> 20), key);
	return text;
}
