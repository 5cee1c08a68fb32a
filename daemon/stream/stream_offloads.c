// SPDX-License-Identifier: Apache-2.0
/* What a stream asks of its card beyond plain receiving: whether the device can, and what the status says of it. */
#include "daemon/stream/stream.h"

#include "daemon/memory/geometry.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int offloads_refuse(const struct stream *stream, const char *key, const char *why, const char *instead,
                           struct failure *failure)
{
	const struct config_stream *wanted = stream->config;

	return failure_set(failure, EX_CONFIG, ENOTSUP, "%s:%d: stream '%s': %s: device %s, backend %s, %s: %s",
	                   wanted->file, wanted->line, wanted->name, key, stream->interface->capabilities.device,
	                   stream->interface->ops->name, why, instead);
}

static int offloads_check_moderation(const struct stream *stream, struct failure *failure)
{
	const struct config_stream *wanted = stream->config;
	uint32_t max_us = stream->interface->capabilities.max_moderation_us;
	char key[40], why[64], instead[96];
	int n;

	if (wanted->moderation_us <= max_us)
		return 0;
	snprintf(key, sizeof(key), "moderation_us = %" PRIu32, wanted->moderation_us);
	if (max_us) {
		snprintf(why, sizeof(why), "lets an event wait for %" PRIu32 " us at most", max_us);
		snprintf(instead, sizeof(instead), "accepted is that, or less");
	} else {
		snprintf(why, sizeof(why), "has no events of its own that could wait");
		n = snprintf(instead, sizeof(instead), "set moderation_us = 0");
		if (net_has_rx_usecs(wanted->interface))
			snprintf(instead + n, sizeof(instead) - (size_t)n, ", and: ethtool -C %s rx-usecs %" PRIu32,
			         wanted->interface, wanted->moderation_us);
	}
	return offloads_refuse(stream, key, why, instead, failure);
}

/* The other reasons are found without a device: check_stream.c. */
static int offloads_check_lent(const struct stream *stream, struct failure *failure)
{
	const struct config_stream *wanted = stream->config;
	const struct backend_ops *ops = stream->interface->ops;

	if (!wanted->payload_is_lent || (ops->register_dmabuf && !stream->reassembles))
		return 0;
	if (!ops->register_dmabuf)
		return failure_set(failure, EX_CONFIG, ENOTSUP,
		                   "%s:%d: stream '%s': payload_memory = \"consumer\": interface %s has backend %s, "
		                   "with which the CPU copies packets to the rows, and cannot reach memory of a "
		                   "device: only backend verbs can do without",
		                   wanted->file, wanted->line, wanted->name, wanted->interface, ops->name);
	return failure_set(failure, EX_CONFIG, ENOTSUP,
	                   "%s:%d: stream '%s': payload_memory = \"consumer\": payload_size %u is above what the MTU "
	                   "%u leaves for it, and the worker cannot copy fragments to the rows: raise the MTU, or set "
	                   "a smaller payload_size",
	                   wanted->file, wanted->line, wanted->name, wanted->payload_size, stream->interface->net.mtu);
}

static int offloads_check_hash(const struct stream *stream, struct failure *failure)
{
	const struct config_stream *wanted = stream->config;
	const struct backend_capabilities *device = &stream->interface->capabilities;

	if (wanted->queues == 1 || wanted->hash != CONFIG_HASH_TOEPLITZ || device->toeplitz)
		return 0;
	return failure_set(failure, EX_CONFIG, ENOTSUP,
	                   "%s:%d: stream '%s': hash = \"toeplitz\": device %s has no such hash; set "
	                   "hash = \"symmetric\"",
	                   wanted->file, wanted->line, wanted->name, device->device);
}

int stream_check_offloads(const struct stream *stream, struct failure *failure)
{
	int r = offloads_check_lent(stream, failure);

	if (r == 0)
		r = offloads_check_hash(stream, failure);
	if (r < 0)
		return r;
	if (stream->config->delay_drop && !stream->interface->capabilities.delay_drop)
		return offloads_refuse(stream, "delay_drop = true", "cannot hold packets of a full queue",
		                       "set delay_drop = false", failure);
	return offloads_check_moderation(stream, failure);
}

/* A backend that copies packets names its device by the interface, and has no offloads on any. */
int stream_check_offloads_unopened(const struct config_stream *config, const struct interface *interface,
                                   struct failure *failure)
{
	struct interface closed = *interface;
	const struct stream stream = {
		.config = config,
		.interface = &closed,
		.reassembles = geometry_reassembles(config, interface->net.mtu),
	};

	if (interface->ops->pins_memory)
		return offloads_check_lent(&stream, failure);
	snprintf(closed.capabilities.device, sizeof(closed.capabilities.device), "%s", interface->name);
	return stream_check_offloads(&stream, failure);
}

static void offloads_add(char text[STREAM_OFFLOADS_BYTES], const char *part)
{
	size_t n = strlen(text);

	snprintf(text + n, STREAM_OFFLOADS_BYTES - n, "%s%s", n ? "; " : "", part);
}

/* The queues exist, and so the device has given what they asked for. */
void stream_describe_offloads(const struct stream *stream, char text[STREAM_OFFLOADS_BYTES])
{
	const struct config_stream *config = stream->config;
	const struct backend_queue *queue = stream->queues[0].queue;
	char part[96];

	text[0] = '\0';
	if (config->verify_checksums)
		offloads_add(text, (queue->device ? queue->device : queue)->checks_checksums
		                           ? "checksums are verified by the card, or by the worker where it does not"
		                           : "checksums are verified by the worker: the card tells nothing of them");
	if (config->moderation_us) {
		snprintf(part, sizeof(part), "an event waits for %" PRIu32 " packets or %" PRIu32 " us",
		         config->receive_queue_slots / 4, config->moderation_us);
		offloads_add(text, part);
	}
	if (config->delay_drop)
		offloads_add(text, "delay_drop: without a free row the card holds the packets of all of its port");
}
