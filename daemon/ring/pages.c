// SPDX-License-Identifier: Apache-2.0
#include "daemon/ring/pages.h"

#include <stdio.h>

static uint64_t read_number(const char *path)
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
	uint64_t free_pages = read_number(path);

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%ukB/nr_hugepages", kib);
	uint64_t pages = read_number(path);

	snprintf(text, PAGES_ADVICE_MAX, "(%llu free of %llu); get them with: echo %llu > %s",
	         (unsigned long long)free_pages, (unsigned long long)pages,
	         (unsigned long long)(pages - free_pages + wanted), path);
	return text;
}
