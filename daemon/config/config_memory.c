// SPDX-License-Identifier: Apache-2.0
/* All memory that a config points at hangs on one list, so that it is freed with the config. */
#include "daemon/config/config_memory.h"

#include <stdlib.h>

struct config_memory {
	struct config_memory *next;
	max_align_t bytes[];
};

void *config_allocate(struct config *config, size_t n, size_t bytes)
{
	struct config_memory *memory = calloc(1, sizeof(*memory) + n * bytes);

	if (!memory)
		return NULL;
	memory->next = config->memory;
	config->memory = memory;
	return memory->bytes;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (struct config_memory *memory = config->memory, *next; memory; memory = next) {
		next = memory->next;
		free(memory);
	}
	free(config);
}

void config_free_chain(struct config *config)
{
	while (config) {
		struct config *older = config->older;

		config_free(config);
		config = older;
	}
}
