// SPDX-License-Identifier: Apache-2.0
/* Makes the checks of a start that open no device, and prints what streams and channels take. */
#include "daemon/dry_run.h"

#include "daemon/base/log.h"
#include "lib/base/size.h"
#include "daemon/channel/tx_headers.h"
#include "daemon/net/net.h"
#include "daemon/net/next_hop.h"
#include "daemon/port/interface.h"
#include "daemon/priv/priv.h"
#include "daemon/memory/geometry.h"
#include "daemon/memory/memory_check.h"
#include "daemon/process/preflight.h"
#include "daemon/process/socket_location.h"
#include "daemon/ring/pages.h"
#include "daemon/stream/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- memory -------------------------------------------------------------------------------------- */

/* "96 MiB: 48 hugepages of 2048 kB"; returns text. */
static const char *describe_memory(uint64_t bytes, uint32_t page_bytes, char *text, size_t n)
{
	int used = snprintf(text, n, "%llu MiB", (unsigned long long)((bytes + (1 << 20) - 1) >> 20));

	if (page_bytes != SMALL_PAGE_BYTES)
		snprintf(text + used, n - (size_t)used, ": %llu hugepages of %u kB",
		         (unsigned long long)bytes / page_bytes, page_bytes / 1024);
	return text;
}

static void print_memory(const struct config *config, const uint64_t *ring_bytes)
{
	char text[96];

	for (uint32_t i = 0; i < config->n_streams; i++) {
		const struct config_stream *stream = &config->streams[i];

		printf("stream '%s': a ring of %s\n", stream->name,
		       describe_memory(ring_bytes[i], stream->page_bytes, text, sizeof(text)));
	}
	for (uint32_t i = 0; i < config->n_channels; i++) {
		const struct config_channel *channel = &config->channels[i];

		printf("channel '%s': up to %u senders, each an arena of %s\n", channel->name, channel->max_senders,
		       describe_memory(geometry_arena_bytes(channel), channel->page_bytes, text, sizeof(text)));
	}
}

/* A daemon that runs with this file has its pages already, and gives them back when it is restarted. */
static void try_hugepages(const struct config *config, const uint64_t *ring_bytes, uint32_t page_bytes)
{
	char advice[PAGES_ADVICE_MAX];
	uint64_t wanted = 0;

	for (uint32_t i = 0; i < config->n_streams; i++)
		if (config->streams[i].page_bytes == page_bytes)
			wanted += ring_bytes[i] / page_bytes;
	if (wanted <= pages_count_free(page_bytes))
		return;
	log_warning("the rings take %llu hugepages of %u kB, and so many are not free %s; ignore this if an ibvcapd "
	            "that runs with this file has them",
	            (unsigned long long)wanted, page_bytes / 1024,
	            pages_advice(advice, page_bytes, wanted, "history_blocks"));
}

/* ---- this machine -------------------------------------------------------------------------------- */

/* What the start does with an interface before it opens the device. */
static int try_interface(const struct config *config, const char *name, enum config_backend backend,
                         struct interface *interface, struct failure *failure)
{
	const struct interface_wishes wishes = {
		.leaves_packets = config_interface_leaves_packets(config, name),
		.wants_card_time = config_interface_wants_card_time(config, name),
	};
	int r;

	log_set_level(LOG_WARNING); /* without the reasons of each choice */
	r = interface_init(interface, name, backend, &wishes, failure);
	log_set_level(LOG_INFO);
	return r == 0 && interface->ops->find ? interface->ops->find(name, failure) : r;
}

/* Returns the bytes of its rings. */
static uint64_t try_stream(const struct config *config, const struct config_stream *stream, struct failure *all)
{
	struct interface interface;
	struct failure failure, placed;

	if (try_interface(config, stream->interface, stream->backend, &interface, &failure) < 0) {
		failure_set(&placed, failure.exit_code, 0, "%s:%d: stream '%s': %s", stream->file, stream->line,
		            stream->name, failure.text);
		failure_add(all, &placed);
		return 0;
	}
	if (stream_check_mtu(stream, interface.net.mtu, &failure) < 0)
		failure_add(all, &failure);
	for (uint32_t i = 0; i < stream->n_flows; i++)
		stream_check_destination(stream, &stream->flows[i]);
	return geometry_ring_bytes(stream, !interface.ops->pins_memory);
}

/* No error at the start, either: other destinations of the channel may be right. */
static void warn_of_own_address(const struct config_channel *channel, const struct config_destination *to)
{
	static const struct next_hop next_hop = {.state = NEXT_HOP_NOT_A_HOST};
	struct net_address_location place;
	char why[128];

	if (!to->has_next_hop_mac && net_find_address(&to->address, channel->interface, &place) == 0 &&
	    (place.is_here || place.is_broadcast))
		log_warning("%s:%d: channel '%s': nothing can be sent to this destination: %s", to->file, to->line,
		            channel->name, next_hop_explain(&next_hop, channel->interface, why, sizeof(why)));
}

static void try_channel(const struct config *config, const struct config_channel *channel, struct failure *all)
{
	struct interface interface;
	struct failure failure, placed;

	if (try_interface(config, channel->interface, channel->backend, &interface, &failure) < 0) {
		failure_set(&placed, failure.exit_code, 0, "%s:%d: channel '%s': %s", channel->file, channel->line,
		            channel->name, failure.text);
		failure_add(all, &placed);
		return;
	}
	if (tx_headers_check(channel, &interface.net, &failure) < 0)
		failure_add(all, &failure);
	for (uint32_t i = 0; i < channel->n_destinations; i++)
		warn_of_own_address(channel, &channel->destinations[i]);
}

static void try_socket(const char *path)
{
	if (socket_location_is_temporary(path))
		log_warning("control socket '%s': ibvcapd.service has a directory of its own there (PrivateTmp=), so "
		            "no client of it finds the socket: a path below /run/ibvcapd can be found",
		            path);
}

/* ---- the daemon's user --------------------------------------------------------------------------- */

struct reader {
	const struct config *config;
	const char *user;
};

/* As that user. */
static void try_reading(void *context)
{
	const struct reader *reader = context;
	struct config *config = NULL;
	struct failure failure;
	int r;

	log_set_level(LOG_ERR); /* the first reading gave the file's warnings */
	r = config_load(reader->config->file, &config, &failure);
	log_set_level(LOG_INFO);
	if (r < 0)
		log_warning("user %s, as which the service runs, cannot read what you can: %s", reader->user,
		            failure.text);
	config_free(config);
}

/* root can read every file. The service cannot, nor can a daemon that root starts once it has become its user. */
static void try_user(const struct config *config, const char *name)
{
	struct reader reader = {config, name};
	struct priv_user user;
	struct stat status;
	int r;

	if (geteuid() != 0 || priv_find_user(&user, name, NULL) < 0 || user.uid == 0)
		return;
	if (stat(config->file, &status) < 0 || !S_ISREG(status.st_mode)) /* a pipe has been read */
		return;
	r = priv_call_as(&user, try_reading, &reader);
	if (r < 0)
		log_warning("whether user %s can read the configuration is not known: %s", name, strerror(-r));
}

int dry_run(const struct config *config, const char *user, struct failure *failure)
{
	uint64_t *ring_bytes = calloc(config->n_streams + 1, sizeof(*ring_bytes));
	struct failure found;

	if (!ring_bytes)
		return failure_no_memory(failure);
	preflight_check_cpus(config, NULL, failure);
	if (memory_check_rings(config, &found) < 0)
		failure_add(failure, &found);
	if (preflight_test_seals(config, &found) < 0)
		failure_add(failure, &found);
	for (uint32_t i = 0; i < config->n_streams; i++)
		ring_bytes[i] = try_stream(config, &config->streams[i], failure);
	for (uint32_t i = 0; i < config->n_channels; i++)
		try_channel(config, &config->channels[i], failure);
	try_socket(config->socket_path);
	try_user(config, user);
	if (!failure->text[0]) {
		try_hugepages(config, ring_bytes, 2u << 20);
		try_hugepages(config, ring_bytes, 1u << 30);
		print_memory(config, ring_bytes);
		printf("%s: ok\n", config->file);
	}
	free(ring_bytes);
	return failure->text[0] ? -EINVAL : 0;
}
