// SPDX-License-Identifier: Apache-2.0
/*
 * Any text as a configuration file: it is refused with a line number, or the result keeps every promise of config.h,
 * its flows can be checked and resolved, and its dump loads again.
 */
#include "daemon/config/config.h"
#include "daemon/flow/flow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
const char *__lsan_default_suppressions(void);

/* libconfig 1.5 loses the string or name it was in the middle of when it finds a syntax error. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so";
}

static void require(bool promise, const char *what, const struct failure *failure)
{
	if (promise)
		return;
	fprintf(stderr, "broken: %s (%s)\n", what, failure->text);
	abort();
}

static void require_flow(const struct config_flow *flow, const struct failure *failure)
{
	static const uint8_t mac[6] = {2};
	struct flow_rule rule;
	char text[FLOW_TEXT_MAX];

	require(flow->source.family == AF_UNSPEC || flow->destination.family == AF_UNSPEC ||
	                flow->source.family == flow->destination.family,
	        "source", failure);
	require(flow->destination_bits <= 128 && flow->source_bits <= 128, "prefixes", failure);
	require(flow->protocol >= CONFIG_ANY && flow->protocol <= 255, "protocol", failure);
	require(flow->dscp >= CONFIG_ANY && flow->dscp <= 63, "dscp", failure);
	require(flow->vlan >= CONFIG_VLAN_UNTAGGED && flow->vlan <= 4094, "vlan", failure);
	require(flow->priority <= FLOW_PRIORITY_MAX, "priority", failure);
	require(flow->line > 0, "line", failure);
	flow_resolve(flow, mac, &rule);
	require(flow_format(&rule, text, sizeof(text))[0] != '\0', "format", failure);
}

static void require_stream(const struct config_stream *stream, const struct failure *failure)
{
	require(stream->name[0] && memchr(stream->name, 0, sizeof(stream->name)), "name", failure);
	require(stream->interface[0] && memchr(stream->interface, 0, sizeof(stream->interface)), "interface", failure);
	require(stream->n_flows >= 1, "flows", failure);
	require(stream->payload_size >= 1 && stream->payload_size <= 65507, "payload_size", failure);
	require(stream->slots_per_block && stream->slots_per_block % IBVCAP_BLOCK_SLOTS_MIN == 0, "slots_per_block",
	        failure);
	require(stream->receive_queue_slots && stream->receive_queue_slots % IBVCAP_BLOCK_SLOTS_MIN == 0 &&
	                stream->receive_queue_slots <= 32768,
	        "receive_queue_slots", failure);
	require((uint64_t)stream->history_blocks * stream->slots_per_block >= stream->receive_queue_slots,
	        "history_blocks", failure);
	require(stream->page_bytes == 4096 || stream->page_bytes == 1u << 21 || stream->page_bytes == 1u << 30,
	        "page_size", failure);
	require(stream->max_consumers >= 1, "max_consumers", failure);
	require(stream->lease_blocks >= 1 && stream->lease_blocks <= IBVCAP_LEASE_SLOTS_MAX, "lease_blocks", failure);
	require(stream->cpu >= -1, "cpu", failure);
	require(stream->lossless_deadline_ms || stream->n_lossless_users + stream->n_lossless_groups == 0, "lossless",
	        failure);
	for (uint32_t i = 0; i < stream->n_flows; i++)
		require_flow(&stream->flows[i], failure);
}

static void require_destination(const struct config_channel *channel, const struct config_destination *destination,
                                const struct failure *failure)
{
	sa_family_t family = destination->address.family;

	require(family == AF_INET || family == AF_INET6, "address", failure);
	require(channel->source.family == AF_UNSPEC || channel->source.family == family, "source", failure);
	require(channel->udp_checksum != CONFIG_UDP_CHECKSUM_ZERO || family == AF_INET, "udp_checksum", failure);
	require(destination->port != 0 && destination->line > 0, "port", failure);
	require(!destination->has_next_hop_mac || !(destination->next_hop_mac[0] & 1), "next_hop_mac", failure);
	require(config_ttl(channel, destination) >= 1, "ttl", failure);
}

static void require_channel(const struct config_channel *channel, const struct failure *failure)
{
	require(channel->name[0] && memchr(channel->name, 0, sizeof(channel->name)), "name", failure);
	require(channel->interface[0] && memchr(channel->interface, 0, sizeof(channel->interface)), "interface",
	        failure);
	require(channel->n_destinations >= 1, "destinations", failure);
	require(channel->payload_size >= 1 && channel->payload_size <= 65507, "payload_size", failure);
	require(channel->arena_slots >= IBVCAP_TX_SLOTS_MIN && channel->arena_slots <= IBVCAP_TX_SLOTS_MAX &&
	                (channel->arena_slots & (channel->arena_slots - 1)) == 0,
	        "arena_slots", failure);
	require(channel->send_queue_slots >= 64 && channel->send_queue_slots <= 32768, "send_queue_slots", failure);
	require(channel->vlan == -1 || (channel->vlan >= 1 && channel->vlan <= 4094), "vlan", failure);
	require(channel->dscp <= 63 && channel->source_port != 0 && channel->max_senders >= 1, "numbers", failure);
	require(channel->rate_limit_bps <= UINT64_C(1000000000000), "rate_limit_mbps", failure);
	require(channel->rate_limit_bps || !channel->device_pacing, "pacing", failure);
	for (uint32_t i = 0; i < channel->n_destinations; i++)
		require_destination(channel, &channel->destinations[i], failure);
}

static char *dump(const struct config *config)
{
	char *text = NULL;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		abort();
	config_dump(config, to);
	fclose(to);
	return text;
}

static void require_dump_is_the_same(const struct config *config, struct failure *failure)
{
	struct config *again = NULL;
	char *text = dump(config), *text_again;

	require(config_load_text("dump", text, &again, failure) == 0, "the dump is accepted", failure);
	text_again = dump(again);
	require(strcmp(text, text_again) == 0, "the dump dumps to itself", failure);
	config_free(again);
	free(text_again);
	free(text);
}

static void require_config(const struct config *config, struct failure *failure)
{
	require(config->n_streams + config->n_channels >= 1, "streams and channels", failure);
	require(config->socket_path[0] == '/' && memchr(config->socket_path, 0, sizeof(config->socket_path)), "socket",
	        failure);
	require((config->socket_mode & ~(mode_t)0777) == 0, "mode", failure);
	for (uint32_t i = 0; i < config->n_streams; i++)
		require_stream(&config->streams[i], failure);
	for (uint32_t i = 0; i < config->n_channels; i++)
		require_channel(&config->channels[i], failure);
	flow_check(config, failure);
	require_dump_is_the_same(config, failure);
}

static void require_refusal(const char *path, const struct failure *failure)
{
	size_t n = strlen(path);

	require(failure->exit_code == EX_CONFIG, "exit code", failure);
	require(strncmp(failure->text, path, n) == 0 && failure->text[n] == ':' && failure->text[n + 1] >= '0' &&
	                failure->text[n + 1] <= '9',
	        "file:line", failure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct config *config = NULL;
	struct failure failure = {0};
	char path[32];
	int fd;

	/*
	 * Other files are not this one's input, and what has a NUL byte is no text: refused before a line is looked
	 * at.
	 */
	if (bytes > BYTES_MAX || memchr(data, 0, bytes) || memmem(data, bytes, "@include", 8))
		return -1;
	fd = memfd_create("config", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (config_load(path, &config, &failure) == 0)
		require_config(config, &failure);
	else
		require_refusal(path, &failure);
	config_free(config);
	close(fd);
	return 0;
}
