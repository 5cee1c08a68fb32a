// SPDX-License-Identifier: Apache-2.0
/* Reads from sysfs how many hugepages there are, for messages about a lack of them. */
#include "daemon/ring/pages.h"

#include <stdio.h>

static uint64_t pages_read_count(const char *path)
{
	unsigned long long value = 0;
	FILE *file = fopen(path, "re");

	if (!file)
		return 0;
	if (fscanf(file, "%llu", &value) != 1)
		value = 0;
	fclose(file);
	return value;
}

const char *pages_advice(char *text, uint32_t page_bytes, uint64_t wanted)
{
	char path[128];
	unsigned kib = page_bytes / 1024;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%ukB/free_hugepages", kib);
	uint64_t free_pages = pages_read_count(path);

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%ukB/nr_hugepages", kib);
	uint64_t pages = pages_read_count(path);

	snprintf(text, PAGES_ADVICE_MAX, "(%llu free of %llu); get them with: echo %llu > %s",
	         (unsigned long long)free_pages, (unsigned long long)pages,
	         (unsigned long long)(pages - free_pages + wanted), path);
	return text;
}
