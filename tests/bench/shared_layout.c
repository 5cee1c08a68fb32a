// SPDX-License-Identifier: Apache-2.0
/* Size and alignment of everything in shared memory, one JSON line a struct. */
#include <ibvcap/layout.h>

#include <stdio.h>

static void print_struct(const char *name, size_t bytes, size_t alignment)
{
	printf("{\"struct\": \"%s\", \"bytes\": %zu, \"alignment\": %zu, \"cache_lines\": %.2f}\n", name, bytes,
	       alignment, (double)bytes / 64);
}

static void print_member(const char *name, size_t offset)
{
	printf("{\"member\": \"%s\", \"offset\": %zu, \"cache_line\": %zu}\n", name, offset, offset / 64);
}

#define STRUCT(type)       print_struct(#type, sizeof(struct type), _Alignof(struct type))
#define MEMBER(type, name) print_member(#type "." #name, offsetof(struct type, name))

int main(void)
{
	STRUCT(ibvcap_segment);
	STRUCT(ibvcap_meta);
	STRUCT(ibvcap_ring);
	MEMBER(ibvcap_ring, head);
	MEMBER(ibvcap_ring, floor);
	MEMBER(ibvcap_ring, closed);
	MEMBER(ibvcap_ring, counters);
	STRUCT(ibvcap_consumer_state);
	STRUCT(ibvcap_consumer_page);
	MEMBER(ibvcap_consumer_page, delivered);
	MEMBER(ibvcap_consumer_page, wake);
	MEMBER(ibvcap_consumer_page, leases);
	return 0;
}
