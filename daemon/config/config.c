// SPDX-License-Identifier: Apache-2.0
/* Questions that the structs of a configuration answer, and the list of all memory that a configuration points at. */
#include "daemon/config/config.h"

#include <stdlib.h>
#include <string.h>

#define TTL_OF_GROUPS 1
#define TTL_OF_HOSTS  64

bool config_is_same_address(const struct config_address *a, const struct config_address *b)
{
	return a->family == b->family && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

bool config_is_user_in(const uid_t *users, uint32_t n_users, uid_t user)
{
	for (uint32_t i = 0; i < n_users; i++)
		if (users[i] == user)
			return true;
	return false;
}

bool config_is_multicast(const struct config_address *address)
{
	return address->family == AF_INET ? address->address[0] >> 4 == 0xe : address->address[0] == 0xff;
}

uint8_t config_ttl(const struct config_channel *channel, const struct config_destination *destination)
{
	if (channel->ttl)
		return channel->ttl;
	return config_is_multicast(&destination->address) ? TTL_OF_GROUPS : TTL_OF_HOSTS;
}

int32_t config_queue_cpu(const struct config_stream *stream, uint32_t queue)
{
	return stream->n_cpus ? (int32_t)stream->cpus[queue] : stream->cpu;
}

uint64_t config_spin_ns(enum config_poll poll, uint32_t spin_us)
{
	switch (poll) {
	case CONFIG_POLL_BUSY:
		return UINT64_MAX;
	case CONFIG_POLL_ADAPTIVE:
		return (uint64_t)spin_us * 1000;
	case CONFIG_POLL_EVENT:
		break;
	}
	return 0;
}

bool config_flow_leaves_packets(const struct config_flow *flow)
{
	return flow->copy || flow->match == CONFIG_MATCH_DEFAULT;
}

static bool config_stream_leaves_packets(const struct config_stream *stream)
{
	for (uint32_t i = 0; i < stream->n_flows; i++)
		if (config_flow_leaves_packets(&stream->flows[i]))
			return true;
	return false;
}

bool config_interface_leaves_packets(const struct config *config, const char *interface)
{
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (strcmp(config->streams[i].interface, interface) == 0 &&
		    config->streams[i].backend == CONFIG_BACKEND_AUTO &&
		    config_stream_leaves_packets(&config->streams[i]))
			return true;
	return false;
}

bool config_interface_wants_card_time(const struct config *config, const char *interface)
{
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (strcmp(config->streams[i].interface, interface) == 0 &&
		    config->streams[i].backend == CONFIG_BACKEND_AUTO &&
		    config->streams[i].timestamps == CONFIG_TIMESTAMPS_HARDWARE)
			return true;
	return false;
}

bool config_may_share_backend(enum config_backend a, enum config_backend b)
{
	return a == b || a == CONFIG_BACKEND_AUTO || b == CONFIG_BACKEND_AUTO;
}

const struct config_stream *config_find_stream(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (strcmp(config->streams[i].name, name) == 0)
			return &config->streams[i];
	return NULL;
}

const struct config_channel *config_find_channel(const struct config *config, const char *name)
{
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (strcmp(config->channels[i].name, name) == 0)
			return &config->channels[i];
	return NULL;
}

/* Changes a name and the alias of an interface. */
typedef void config_renaming(char interface[IFNAMSIZ], char alias[INTERFACE_NAME_BYTES], const char *from,
                             const char *to);

static void config_take_name(char interface[IFNAMSIZ], char alias[INTERFACE_NAME_BYTES], const char *from,
                             const char *to)
{
	if (strcmp(interface, from) != 0)
		return;
	snprintf(alias, INTERFACE_NAME_BYTES, "%s", from);
	snprintf(interface, IFNAMSIZ, "%s", to);
}

static void config_take_name_back(char interface[IFNAMSIZ], char alias[INTERFACE_NAME_BYTES], const char *from,
                                  const char *to)
{
	if (strcmp(interface, to) != 0 || strcmp(alias, from) != 0)
		return;
	snprintf(interface, IFNAMSIZ, "%s", from);
	alias[0] = '\0';
}

static void config_rename_all(struct config *config, config_renaming *rename, const char *from, const char *to)
{
	for (uint32_t i = 0; i < config->n_streams; i++) {
		struct config_stream *stream = (struct config_stream *)&config->streams[i];

		rename(stream->interface, stream->interface_alias, from, to);
	}
	for (uint32_t i = 0; i < config->n_channels; i++) {
		struct config_channel *channel = (struct config_channel *)&config->channels[i];

		rename(channel->interface, channel->interface_alias, from, to);
	}
}

void config_rename_interface(struct config *config, const char *from, const char *to)
{
	config_rename_all(config, config_take_name, from, to);
}

void config_undo_rename(struct config *config, const char *from, const char *to)
{
	config_rename_all(config, config_take_name_back, from, to);
}

/* ---- memory ------------------------------------------------------------------------------------- */

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
