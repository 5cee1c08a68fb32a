// SPDX-License-Identifier: Apache-2.0
/* Look-ups in the facts that several checks need. */
#include "tools/doctor/facts.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/memory/geometry.h"

#include <linux/capability.h>
#include <string.h>

const struct doctor_interface *facts_find_interface(const struct doctor_facts *facts, const char *name)
{
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		if (facts->interfaces[i].exists && strcmp(facts->interfaces[i].name, name) == 0)
			return &facts->interfaces[i];
	return NULL;
}

const struct doctor_device *facts_find_device(const struct doctor_facts *facts, const char *interface)
{
	for (unsigned int i = 0; i < facts->n_devices; i++)
		for (unsigned int j = 0; j < facts->devices[i].n_ports; j++)
			if (strcmp(facts->devices[i].ports[j].netdev, interface) == 0)
				return &facts->devices[i];
	return NULL;
}

struct backend_choice_facts facts_for_choice(const struct doctor_facts *facts, const struct doctor_interface *interface)
{
	const uint64_t capabilities = facts->process.effective_capabilities;
	struct backend_choice_facts known = interface->choice;

	known.has_rdma_device = facts_find_device(facts, interface->name) != NULL;
	known.has_bpf = capabilities >> CAP_BPF & 1;
	known.has_net_admin = capabilities >> CAP_NET_ADMIN & 1;
	known.leaves_packets = facts->config && config_interface_leaves_packets(facts->config, interface->name);
	known.wants_card_time = facts->config && config_interface_wants_card_time(facts->config, interface->name);
	return known;
}

void facts_choose_backend(const struct doctor_facts *facts, const struct doctor_interface *interface,
                          struct backend_choice *choice)
{
	const struct backend_choice_facts known = facts_for_choice(facts, interface);

	for (unsigned int i = 0; i < facts->n_taken; i++)
		if (strcmp(facts->taken[i].interface, interface->name) == 0) {
			*choice = facts->taken[i].choice;
			return;
		}
	backend_choice_make(&known, choice);
}

enum config_backend facts_find_backend(const struct doctor_facts *facts, const char *name, enum config_backend backend)
{
	const struct doctor_interface *interface = facts_find_interface(facts, name);
	struct backend_choice choice;

	if (backend != CONFIG_BACKEND_AUTO || !interface)
		return backend == CONFIG_BACKEND_AUTO ? CONFIG_BACKEND_VERBS : backend;
	facts_choose_backend(facts, interface, &choice);
	for (enum config_backend known = CONFIG_BACKEND_AUTO; config_backend_name(known); known++)
		if (strcmp(config_backend_name(known), choice.backend) == 0)
			backend = known;
	return backend;
}

/* With the backend that it has or AUTO takes. */
static uint64_t bytes_of_rings(const struct doctor_facts *facts, const struct config_stream *stream)
{
	enum config_backend backend = facts_find_backend(facts, stream->interface, stream->backend);
	const struct backend_ops *ops = backend_find(config_backend_name(backend));

	return geometry_ring_bytes(stream, !ops || !ops->pins_memory);
}

/* What a stream and a channel both have. */
#define SERVICE_OF(of)                                                                            \
	.name = (of)->name, .interface = (of)->interface, .file = (of)->file, .line = (of)->line, \
	.backend = (of)->backend, .poll = (of)->poll, .cpu = (of)->cpu, .page_bytes = (of)->page_bytes

static struct doctor_service service_of_stream(const struct doctor_facts *facts, const struct config_stream *stream)
{
	return (struct doctor_service){.kind = "stream",
	                               SERVICE_OF(stream),
	                               .slots = stream->receive_queue_slots,
	                               .slots_key = "receive_queue_slots",
	                               .memory_bytes = bytes_of_rings(facts, stream),
	                               .stream = stream};
}

static struct doctor_service service_of_channel(const struct config_channel *channel)
{
	return (struct doctor_service){.kind = "channel",
	                               SERVICE_OF(channel),
	                               .slots = channel->send_queue_slots,
	                               .slots_key = "send_queue_slots",
	                               .memory_bytes = channel->max_senders * geometry_arena_bytes(channel)};
}

bool facts_service(const struct doctor_facts *facts, uint32_t i, struct doctor_service *service)
{
	const struct config *config = facts->config;

	if (!config || i >= config->n_streams + config->n_channels)
		return false;
	*service = i < config->n_streams ? service_of_stream(facts, &config->streams[i])
	                                 : service_of_channel(&config->channels[i - config->n_streams]);
	return true;
}
