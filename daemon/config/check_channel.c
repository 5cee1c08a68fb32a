// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/check_channel.h"

#include "daemon/config/check.h"

#include <errno.h>
#include <string.h>

#define TTL_OF_GROUPS 1
#define TTL_OF_HOSTS  64

uint8_t config_ttl(const struct config_channel *channel, const struct config_destination *destination)
{
	if (channel->ttl)
		return channel->ttl;
	return config_is_multicast(&destination->address) ? TTL_OF_GROUPS : TTL_OF_HOSTS;
}

int check_destination(const struct reader *reader, const struct value *values,
                      const struct config_destination *destination)
{
	const struct value *address = &values[DESTINATION_ADDRESS];

	if (!check_is_one(&destination->address) && !config_is_multicast(&destination->address))
		return reader_failure(reader, address->setting,
		                      "address = \"%s\": accepted is one unicast or multicast "
		                      "address, and IPv4 as \"10.0.0.1\"",
		                      address->string);
	if (destination->has_next_hop_mac && config_is_multicast(&destination->address))
		return reader_failure(
			reader, values[DESTINATION_NEXT_HOP_MAC].setting,
			"next_hop_mac with the group %s: its Ethernet address is given: accepted is next_hop_mac "
			"with a unicast address",
			address->string);
	return 0;
}

static const struct config_destination *find_family(const struct config_channel *channel, sa_family_t family)
{
	for (uint32_t i = 0; i < channel->n_destinations; i++)
		if (channel->destinations[i].address.family == family)
			return &channel->destinations[i];
	return NULL;
}

static int check_source(const struct reader *reader, const struct value *value, const struct config_channel *channel)
{
	const struct config_destination *other;

	if (channel->source.family == AF_UNSPEC)
		return 0;
	if (!check_is_one(&channel->source))
		return reader_failure(reader, value->setting,
		                      "source = \"%s\": accepted is one unicast address, and IPv4 as \"10.0.0.1\"",
		                      value->string);
	other = find_family(channel, channel->source.family == AF_INET ? AF_INET6 : AF_INET);
	if (other)
		return reader_failure(reader, value->setting,
		                      "source = \"%s\" is of another family than the destination at "
		                      "%s:%d: accepted is one of its family, or \"\"",
		                      value->string, other->file, other->line);
	return 0;
}

/* The kernel would be asked who it is on the untagged link. */
static int check_vlan(const struct reader *reader, const struct value *value, const struct config_channel *channel)
{
	if (channel->vlan == 0)
		return reader_failure(reader, value->setting,
		                      "vlan = 0: accepted is 1 to 4094, or -1 for packets without a tag");
	for (uint32_t i = 0; i < channel->n_destinations && channel->vlan > 0; i++) {
		const struct config_destination *to = &channel->destinations[i];

		if (!config_is_multicast(&to->address) && !to->has_next_hop_mac)
			return reader_failure(
				reader, value->setting,
				"vlan = %d with the unicast destination at %s:%d: who it is in a VLAN is not asked "
				"of the kernel: accepted is a destination with next_hop_mac, or a group",
				channel->vlan, to->file, to->line);
	}
	return 0;
}

int check_channel(const struct reader *reader, const struct value *values, const struct config_channel *channel)
{
	const struct config_destination *ipv6 = find_family(channel, AF_INET6);
	int r;

	if (!check_is_name(channel->name))
		return reader_failure(reader, values[CHANNEL_NAME].setting,
		                      "name = \"%s\": accepted are letters, digits, '.', '_' and '-'", channel->name);
	if (values[CHANNEL_LOOPBACK].integer)
		return reader_failure(
			reader, values[CHANNEL_LOOPBACK].setting,
			"loopback = true: a device hands back what it sends to all channels' groups or to none, and "
			"not "
			"to the kernel's sockets: accepted is false; programs of this machine get it by a stream on "
			"another port of the same switch");
	if (channel->udp_checksum == CONFIG_UDP_CHECKSUM_ZERO && ipv6)
		return reader_failure(
			reader, values[CHANNEL_UDP_CHECKSUM].setting,
			"udp_checksum = \"zero\" with the IPv6 destination at %s:%d, whose receivers would drop it "
			"(RFC 8200): accepted is \"auto\", \"device\" or \"software\"",
			ipv6->file, ipv6->line);
	if (channel->device_pacing && channel->rate_limit_bps == 0)
		return reader_failure(
			reader, values[CHANNEL_PACING].setting,
			"pacing = \"device\" without a limit to keep to: accepted is rate_limit_mbps with it, or "
			"pacing = \"software\"");
	r = check_vlan(reader, &values[CHANNEL_VLAN], channel);
	return r < 0 ? r : check_source(reader, &values[CHANNEL_SOURCE], channel);
}

static int check_worker(const struct config_channel *channel, const struct config_channel *other,
                        struct failure *failure)
{
	const struct {
		unsigned key;
		bool differs;
	} shared[] = {
		{CHANNEL_POLL, channel->poll != other->poll},
		{CHANNEL_SPIN_US, channel->spin_us != other->spin_us},
		{CHANNEL_CPU, channel->cpu != other->cpu},
	};

	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++)
		if (shared[i].differs)
			return failure_set(failure, EX_CONFIG, EINVAL,
			                   "%s:%d: %s of channel '%s' is not that of the channel at %s:%d, and one "
			                   "worker serves all "
			                   "channels of %s: accepted is the same in both",
			                   channel->file, channel->line, channel_keys.keys[shared[i].key].name,
			                   channel->name, other->file, other->line, channel->interface);
	return 0;
}

int check_channel_among(const struct config *config, const struct config_channel *channel, struct failure *failure)
{
	int r = 0;

	for (uint32_t i = 0; i < config->n_channels && r == 0; i++) {
		const struct config_channel *other = &config->channels[i];

		if (strcmp(other->name, channel->name) == 0)
			return failure_set(failure, EX_CONFIG, EEXIST,
			                   "%s:%d: name = \"%s\" is that of the channel at %s:%d too: "
			                   "accepted is a name of its own",
			                   channel->file, channel->line, channel->name, other->file, other->line);
		if (strcmp(other->interface, channel->interface) == 0)
			r = check_worker(channel, other, failure);
	}
	return r;
}
