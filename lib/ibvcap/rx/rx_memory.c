// SPDX-License-Identifier: Apache-2.0
/* Tells a program of the mappings of a handle, and of their end, so that it can register them with a device. */
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/owner.h"
#include "lib/ibvcap/client/sized_struct.h"
#include "lib/ibvcap/rx/rx.h"

#include <errno.h>

static bool find_memory(const struct ibvcap_rx *rx, uint32_t index, struct ibvcap_rx_memory *memory)
{
	for (uint32_t i = 0; i < rx->n_parts; i++)
		for (unsigned kind = 0; rx->parts[i] && kind < RX_MEMORY_KINDS; kind++)
			if (rx_queue_describe_memory(rx->parts[i], kind, memory) && index-- == 0)
				return true;
	return false;
}

int ibvcap_rx_memory(const struct ibvcap_rx *rx, uint32_t index, struct ibvcap_rx_memory *memory)
{
	struct ibvcap_rx_memory found;
	int r = sized_struct_check(memory, sizeof(size_t), "ibvcap_rx_memory");

	if (r < 0 || !find_memory(rx, index, &found))
		return r;
	sized_struct_copy(memory, &found, sizeof(found));
	return 1;
}

int ibvcap_rx_on_unmap(struct ibvcap_rx *rx, ibvcap_rx_unmap_function function, void *context)
{
	int r = function ? owner_check(rx->shared.owner, rx->shared.stream) : 0;

	if (r < 0)
		return r;
	if (function && rx->shared.on_unmap)
		return error_set(-EBUSY, "stream '%s': the handle calls another function before a mapping goes already",
		                 rx->shared.stream);
	rx->shared.on_unmap = function;
	rx->shared.on_unmap_context = context;
	return 0;
}
