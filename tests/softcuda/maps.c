// SPDX-License-Identifier: Apache-2.0
/* Reads from /proc/self/maps what memory is mapped where, and whether it is still the same. */
#include "tests/softcuda/state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAPPINGS_MAX 4096

struct mapping {
	uintptr_t from, until;
	bool is_writable;
	uint64_t offset;
	uint64_t inode;
	char device[16];
};

static struct mapping mappings[MAPPINGS_MAX];
static unsigned n_mappings;

static void read_mappings(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[1024], flags[8];

	n_mappings = 0;
	while (file && n_mappings < MAPPINGS_MAX && fgets(line, sizeof(line), file)) {
		struct mapping *mapping = &mappings[n_mappings];

		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %" SCNx64 " %15s %" SCNu64, &mapping->from,
		           &mapping->until, flags, &mapping->offset, mapping->device, &mapping->inode) != 6)
			continue;
		mapping->is_writable = flags[1] == 'w';
		n_mappings++;
	}
	if (file)
		fclose(file);
}

static const struct mapping *find(uintptr_t address)
{
	for (unsigned i = 0; i < n_mappings; i++)
		if (address >= mappings[i].from && address < mappings[i].until)
			return &mappings[i];
	return NULL;
}

/* Which page of which file it is. The heap grows, and has no file. */
static void identify(const struct mapping *mapping, uintptr_t address, char text[64])
{
	uint64_t offset = mapping->inode ? mapping->offset + (address - mapping->from) : 0;

	snprintf(text, 64, "%s %" PRIu64 " %#" PRIx64, mapping->device, mapping->inode, offset);
}

static bool look_up(uintptr_t host, size_t bytes, bool *is_writable, char first[64], char last[64])
{
	uintptr_t at = host, until = host + bytes;

	*is_writable = true;
	while (at < until) {
		const struct mapping *mapping = find(at);

		if (!mapping)
			return false;
		*is_writable &= mapping->is_writable;
		if (at == host)
			identify(mapping, at, first);
		at = mapping->until;
		if (at >= until)
			identify(mapping, until - 1, last);
	}
	return true;
}

bool softcuda_find_mapping(uintptr_t host, size_t bytes, bool *is_writable, char first[64], char last[64])
{
	if (bytes == 0 || host + bytes < host)
		return false;
	read_mappings();
	return look_up(host, bytes, is_writable, first, last);
}

bool softcuda_has_small_pages(uintptr_t host)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	uintptr_t from, until;
	bool is_here = false;
	unsigned kib = 0;
	char line[1024];

	while (file && kib == 0 && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &until) == 2)
			is_here = host >= from && host < until;
		else if (is_here)
			sscanf(line, "KernelPageSize: %u", &kib);
	}
	if (file)
		fclose(file);
	return kib <= 4;
}

static void check(const struct memory *memory)
{
	char first[64] = "", last[64] = "";
	bool unused;

	if (look_up(memory->host, memory->bytes, &unused, first, last) && strcmp(first, memory->first_page) == 0 &&
	    strcmp(last, memory->last_page) == 0)
		return;
	fprintf(stderr,
	        "softcuda: %zu bytes at %#" PRIxPTR " are registered, and were unmapped: their device address reads "
	        "another memory than the host's\n",
	        memory->bytes, memory->host);
	abort();
}

void softcuda_check_mappings(void)
{
	bool has_read = false;

	for (const struct memory *each = softcuda.memory; each; each = each->next) {
		if (each->kind != MEMORY_REGISTERED)
			continue;
		if (!has_read)
			read_mappings();
		has_read = true;
		check(each);
	}
}
