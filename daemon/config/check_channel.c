// SPDX-License-Identifier: Apache-2.0
/* Checks of channels and destinations that concern several keys, or several channels, at once. */
#include "daemon/config/config_reader.h"

#include <errno.h>
#include <string.h>

int config_check_destination(const struct config_reader *reader, const config_setting_t *setting, const void *entry)
{
	const struct config_destination *destination = entry;

	if (!destination->has_next_hop_mac || !config_is_multicast(&destination->address))
		return 0;
	return config_reader_failure(
		reader, config_reader_find(setting, "next_hop_mac"),
		"next_hop_mac with the group %s, whose Ethernet address follows from its IP address: accepted is "
		"next_hop_mac with a unicast address",
		config_setting_get_string(config_reader_find(setting, "address")));
}

static const struct config_destination *find_destination_of_family(const struct config_channel *channel,
                                                                   sa_family_t family)
{
	for (uint32_t i = 0; i < channel->n_destinations; i++)
		if (channel->destinations[i].address.family == family)
			return &channel->destinations[i];
	return NULL;
}

static int check_channel_source(const struct config_reader *reader, const config_setting_t *setting,
                                const struct config_channel *channel)
{
	const struct config_destination *other;

	if (channel->source.family == AF_UNSPEC)
		return 0;
	other = find_destination_of_family(channel, channel->source.family == AF_INET ? AF_INET6 : AF_INET);
	if (!other)
		return 0;
	return config_reader_failure(reader, setting,
	                             "source = \"%s\" is of another family than the destination at %s:%d: accepted is "
	                             "one of its family, or \"\"",
	                             config_setting_get_string(setting), other->file, other->line);
}

/* The kernel resolves next hops on the untagged link only. */
static int check_channel_vlan(const struct config_reader *reader, const config_setting_t *setting,
                              const struct config_channel *channel)
{
	if (channel->vlan == 0)
		return config_reader_failure(reader, setting,
		                             "vlan = 0: accepted is 1 to 4094, or -1 for packets without a tag");
	for (uint32_t i = 0; i < channel->n_destinations && channel->vlan > 0; i++) {
		const struct config_destination *to = &channel->destinations[i];

		if (!config_is_multicast(&to->address) && !to->has_next_hop_mac)
			return config_reader_failure(
				reader, setting,
				"vlan = %d with the unicast destination at %s:%d: the daemon does not resolve next "
				"hops in a VLAN: accepted is a destination with next_hop_mac, or a group",
				channel->vlan, to->file, to->line);
	}
	return 0;
}

int config_check_channel(const struct config_reader *reader, const config_setting_t *setting, const void *entry)
{
	const struct config_channel *channel = entry;
	const struct config_destination *ipv4 = find_destination_of_family(channel, AF_INET);
	const struct config_destination *ipv6 = find_destination_of_family(channel, AF_INET6);
	int r;

	if (channel->payload_size > CONFIG_PAYLOAD_IPV4_MAX && ipv4)
		return config_reader_failure(reader, config_reader_find(setting, "payload_size"),
		                             "payload_size = %u with the IPv4 destination at %s:%d, whose packets have "
		                             "room for %u: accepted "
		                             "is payload_size = %u or less, or IPv6 destinations only",
		                             channel->payload_size, ipv4->file, ipv4->line, CONFIG_PAYLOAD_IPV4_MAX,
		                             CONFIG_PAYLOAD_IPV4_MAX);
	if (channel->udp_checksum == CONFIG_UDP_CHECKSUM_ZERO && ipv6)
		return config_reader_failure(
			reader, config_reader_find(setting, "udp_checksum"),
			"udp_checksum = \"zero\" with the IPv6 destination at %s:%d, whose receivers would drop the "
			"packets (RFC 8200): accepted is \"auto\", \"device\" or \"software\"",
			ipv6->file, ipv6->line);
	if (channel->device_pacing && channel->rate_limit_bps == 0)
		return config_reader_failure(
			reader, config_reader_find(setting, "pacing"),
			"pacing = \"device\" without a limit to keep to: accepted is rate_limit_mbps with it, or "
			"pacing = \"software\"");
	if (channel->send_time == CONFIG_SEND_TIME_QDISC && channel->rate_limit_bps && !channel->device_pacing)
		return config_reader_failure(
			reader, config_reader_find(setting, "send_time"),
			"send_time = \"qdisc\" with a rate_limit_mbps that the worker keeps: accepted is \"auto\" or "
			"\"worker\", or no limit");
	r = check_channel_vlan(reader, config_reader_find(setting, "vlan"), channel);
	return r < 0 ? r : check_channel_source(reader, config_reader_find(setting, "source"), channel);
}

/* One worker thread serves all channels of an interface and a backend. */
static int check_shared_worker(const struct config_channel *channel, const struct config_channel *other,
                               struct failure *failure)
{
	const char *key = channel->poll != other->poll         ? "poll"
	                  : channel->spin_us != other->spin_us ? "spin_us"
	                  : channel->cpu != other->cpu         ? "cpu"
	                                                       : NULL;

	if (!key)
		return 0;
	return failure_set(failure, EX_CONFIG, EINVAL,
	                   "%s:%d: %s of channel '%s' is not that of the channel at %s:%d, and one worker serves all "
	                   "channels that %s has with one backend: accepted is the same in both",
	                   channel->file, channel->line, key, channel->name, other->file, other->line,
	                   channel->interface);
}

int config_check_channel_among(const struct config *config, const void *entry, struct failure *failure)
{
	const struct config_channel *channel = entry, *other = config_find_channel(config, channel->name);
	int r = 0;

	if (other)
		return failure_set(failure, EX_CONFIG, EEXIST,
		                   "%s:%d: name = \"%s\" is that of the channel at %s:%d too: accepted is a name of "
		                   "its own",
		                   channel->file, channel->line, channel->name, other->file, other->line);
	for (uint32_t i = 0; i < config->n_channels && r == 0; i++)
		if (strcmp(config->channels[i].interface, channel->interface) == 0 &&
		    config_may_share_backend(config->channels[i].backend, channel->backend))
			r = check_shared_worker(channel, &config->channels[i], failure);
	return r;
}
