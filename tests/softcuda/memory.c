// SPDX-License-Identifier: Apache-2.0
/* Memory that the device reads: registered, pinned, and its own. */
#include "tests/softcuda/state.h"

#include <stdlib.h>
#include <string.h>

#define HOST_PORTABLE  1u
#define HOST_DEVICEMAP 2u
#define HOST_IOMEMORY  4u
#define HOST_READ_ONLY 8u

#define SMALL_PAGES_MAX (UINT64_C(512) << 30)

#define PAGEABLE_MEMORY_ACCESS 88
#define HOST_REGISTER          99
#define READ_ONLY_REGISTER     113

static struct memory *add_memory(const struct memory *memory)
{
	struct memory *new = malloc(sizeof(*new));

	*new = *memory;
	new->context = softcuda_current();
	new->next = softcuda.memory;
	softcuda.memory = new;
	return new;
}

static struct memory *find_memory(uintptr_t host, unsigned kind)
{
	for (struct memory *each = softcuda.memory; each; each = each->next)
		if (each->kind == kind && each->host == host)
			return each;
	return NULL;
}

static bool overlaps_registered(uintptr_t host, size_t bytes)
{
	for (const struct memory *each = softcuda.memory; each; each = each->next)
		if (each->kind != MEMORY_DEVICE && host < each->host + each->bytes && each->host < host + bytes)
			return true;
	return false;
}

static void drop_memory(struct memory *memory)
{
	struct memory **each = &softcuda.memory;

	while (*each != memory)
		each = &(*each)->next;
	*each = memory->next;
	if (memory->kind != MEMORY_REGISTERED)
		free((void *)memory->host);
	free(memory);
}

static uint64_t drop_memory_of(const struct CUctx_st *context, bool is_registered_only)
{
	struct memory **each = &softcuda.memory;
	uint64_t n = 0;

	while (*each) {
		if ((*each)->context == context && (!is_registered_only || (*each)->kind == MEMORY_REGISTERED)) {
			drop_memory(*each);
			n++;
		} else {
			each = &(*each)->next;
		}
	}
	return n;
}

uint64_t softcuda_free_memory_of(const struct CUctx_st *context)
{
	return drop_memory_of(context, false);
}

void softcuda_unregister_of(const struct CUctx_st *context)
{
	drop_memory_of(context, true);
}

void *softcuda_resolve(unsigned long long address, size_t bytes, bool is_write)
{
	char first[64], last[64];
	bool is_writable;

	for (const struct memory *each = softcuda.memory; each; each = each->next) {
		if (address < each->device || address - each->device >= each->bytes ||
		    each->bytes - (address - each->device) < bytes)
			continue;
		return is_write && each->flags & HOST_READ_ONLY ? NULL
		                                                : (void *)(each->host + (address - each->device));
	}
	if (softcuda.attributes[PAGEABLE_MEMORY_ACCESS] &&
	    softcuda_find_mapping(address, bytes, &is_writable, first, last) && (is_writable || !is_write))
		return (void *)(uintptr_t)address;
	return NULL;
}

/* ---- registered ------------------------------------------------------------------------------------- */

static int check_register(struct memory *new)
{
	bool is_writable, is_read_only = new->flags &HOST_READ_ONLY;

	if (new->bytes == 0 || new->flags & ~(HOST_PORTABLE | HOST_DEVICEMAP | HOST_IOMEMORY | HOST_READ_ONLY))
		return INVALID_VALUE;
	if (!softcuda.attributes[HOST_REGISTER] || (is_read_only && !softcuda.attributes[READ_ONLY_REGISTER]))
		return NOT_SUPPORTED;
	if (overlaps_registered(new->host, new->bytes))
		return ALREADY_REGISTERED;
	if (!softcuda_find_mapping(new->host, new->bytes, &is_writable, new->first_page, new->last_page))
		return INVALID_VALUE;
	if (!is_writable && !is_read_only)
		return INVALID_VALUE;
	return new->bytes >= SMALL_PAGES_MAX &&softcuda_has_small_pages(new->host) ? OUT_OF_MEMORY : SUCCESS;
}

SOFTCUDA_EXPORT int cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags);
SOFTCUDA_EXPORT int cuMemHostRegister_v2(void *host, size_t bytes, unsigned int flags)
{
	struct memory new = {.kind = MEMORY_REGISTERED,
	                     .host = (uintptr_t)host,
	                     .bytes = bytes,
	                     .flags = flags,
	                     .device = (uintptr_t)host + softcuda.offset};
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS)
		r = check_register(&new);
	if (r == SUCCESS) {
		if (softcuda.n_registered++ >= softcuda.misplaced_from)
			new.device += 4096;
		add_memory(&new);
	}
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuMemHostUnregister(void *host);
SOFTCUDA_EXPORT int cuMemHostUnregister(void *host)
{
	int r = softcuda_enter(__func__, true);
	struct memory *memory = r == SUCCESS ? find_memory((uintptr_t)host, MEMORY_REGISTERED) : NULL;

	if (memory)
		drop_memory(memory);
	else if (r == SUCCESS)
		r = NOT_REGISTERED;
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned int flags);
SOFTCUDA_EXPORT int cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned int flags)
{
	int r = softcuda_enter(__func__, true);
	uintptr_t at = (uintptr_t)host;

	if (r == SUCCESS) {
		r = INVALID_VALUE;
		for (const struct memory *each = softcuda.memory; each && !flags; each = each->next) {
			if (each->kind == MEMORY_DEVICE || !(each->flags & HOST_DEVICEMAP) || at < each->host ||
			    at - each->host >= each->bytes)
				continue;
			*device = each->device + (at - each->host);
			r = SUCCESS;
		}
	}
	return softcuda_leave(r);
}

/* ---- allocated -------------------------------------------------------------------------------------- */

SOFTCUDA_EXPORT int cuMemHostAlloc(void **host, size_t bytes, unsigned int flags);
SOFTCUDA_EXPORT int cuMemHostAlloc(void **host, size_t bytes, unsigned int flags)
{
	int r = softcuda_enter(__func__, true);

	if (r == SUCCESS && (bytes == 0 || flags & ~7u))
		r = INVALID_VALUE;
	if (r == SUCCESS) {
		*host = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
		r = *host ? SUCCESS : OUT_OF_MEMORY;
	}
	if (r == SUCCESS)
		add_memory(&(struct memory){.kind = MEMORY_HOST,
		                            .host = (uintptr_t)*host,
		                            .bytes = bytes,
		                            .flags = flags & 3,
		                            .device = (uintptr_t)*host + softcuda.offset});
	return softcuda_leave(r);
}

static int free_memory(uintptr_t host, unsigned kind)
{
	struct memory *memory = find_memory(host, kind);

	if (!memory)
		return INVALID_VALUE;
	drop_memory(memory);
	return SUCCESS;
}

SOFTCUDA_EXPORT int cuMemFreeHost(void *host);
SOFTCUDA_EXPORT int cuMemFreeHost(void *host)
{
	int r = softcuda_enter(__func__, true);

	return softcuda_leave(r == SUCCESS ? free_memory((uintptr_t)host, MEMORY_HOST) : r);
}

SOFTCUDA_EXPORT int cuMemAlloc_v2(unsigned long long *device, size_t bytes);
SOFTCUDA_EXPORT int cuMemAlloc_v2(unsigned long long *device, size_t bytes)
{
	int r = softcuda_enter(__func__, true);
	void *host = r == SUCCESS && bytes ? aligned_alloc(256, (bytes + 255) / 256 * 256) : NULL;

	if (r == SUCCESS && !host)
		r = bytes ? OUT_OF_MEMORY : INVALID_VALUE;
	if (r == SUCCESS) {
		*device = (uintptr_t)host;
		add_memory(&(struct memory){
			.kind = MEMORY_DEVICE, .host = (uintptr_t)host, .bytes = bytes, .device = (uintptr_t)host});
	}
	return softcuda_leave(r);
}

SOFTCUDA_EXPORT int cuMemFree_v2(unsigned long long device);
SOFTCUDA_EXPORT int cuMemFree_v2(unsigned long long device)
{
	int r = softcuda_enter(__func__, true);

	return softcuda_leave(r == SUCCESS ? free_memory((uintptr_t)device, MEMORY_DEVICE) : r);
}
