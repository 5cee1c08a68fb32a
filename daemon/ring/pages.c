// SPDX-License-Identifier: Apache-2.0
/* Reads from sysfs how many hugepages there are, for messages about a lack of them. */
#include "daemon/ring/pages.h"

#include "daemon/base/machine.h"
#include "lib/base/files.h"

#include <stdio.h>
#include <string.h>

#define PAGES_POOL   "/sys/kernel/mm/hugepages/hugepages-%ukB"
#define PAGES_GROUPS "/sys/fs/cgroup"
#define PAGES_NONE   "; page_size = \"4K\" takes none, and is slower"

static uint64_t pages_read_pool(uint32_t page_bytes, const char *name)
{
	char pool[64];

	snprintf(pool, sizeof(pool), PAGES_POOL, page_bytes / 1024);
	return files_read_number(pool, name);
}

/* A limit holds for all control groups below it. In a container the first one that this process sees is its own. */
static uint64_t pages_read_limit(uint32_t page_bytes)
{
	const char *names[] = {page_bytes == 2u << 20 ? "hugetlb.2MB.max" : "hugetlb.1GB.max",
	                       page_bytes == 2u << 20 ? "hugetlb.2MB.rsvd.max" : "hugetlb.1GB.rsvd.max"};
	char group[PATH_MAX / 2], path[PATH_MAX], *slash = group;
	uint64_t bytes = UINT64_MAX;

	files_read_labelled("/proc/self/cgroup", "0::", group, sizeof(group));
	while (slash) {
		files_join(path, PAGES_GROUPS "%s", group);
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			uint64_t limit = files_read_limit(path, names[i]);

			bytes = limit < bytes ? limit : bytes;
		}
		slash = strrchr(group, '/');
		if (slash)
			*slash = '\0';
	}
	return bytes == UINT64_MAX ? bytes : bytes / page_bytes;
}

struct pages_supply pages_read_supply(uint32_t page_bytes)
{
	uint64_t n_free = pages_read_pool(page_bytes, "free_hugepages"),
		 n_reserved = pages_read_pool(page_bytes, "resv_hugepages"),
		 n_surplus = pages_read_pool(page_bytes, "surplus_hugepages"),
		 n_over = pages_read_pool(page_bytes, "nr_overcommit_hugepages"),
		 n_pages = pages_read_pool(page_bytes, "nr_hugepages");

	return (struct pages_supply){
		.n_free = n_free - (n_reserved < n_free ? n_reserved : n_free) +
	                  (n_over > n_surplus ? n_over - n_surplus : 0),
		.n_all = n_pages - n_surplus + n_over,
		.n_max = pages_read_limit(page_bytes),
	};
}

const char *pages_advice(char *text, uint32_t page_bytes, uint64_t wanted, const char *key)
{
	uint64_t free_pages = pages_read_pool(page_bytes, "free_hugepages"),
		 pages = pages_read_pool(page_bytes, "nr_hugepages");
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
