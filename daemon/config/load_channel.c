// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/load_channel.h"

#include "daemon/config/check_channel.h"
#include "daemon/config/fields.h"
#include "daemon/config/render.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- a destination ------------------------------------------------------------------------------- */

/* "02:00:00:00:0a:01", nothing else. */
static bool parse_mac(const char *text, uint8_t mac[6])
{
	int n = 0;

	return strlen(text) == 17 && strspn(text, "0123456789abcdefABCDEF:") == 17 &&
	       sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx%n", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
	              &mac[5], &n) == 6 &&
	       n == 17;
}

static int read_mac(const struct reader *reader, const struct value *value, struct config_destination *destination)
{
	static const uint8_t zero[6];
	uint8_t *mac = destination->next_hop_mac;

	if (!value->setting || value->string[0] == '\0')
		return 0;
	if (!parse_mac(value->string, mac) || (mac[0] & 1) || memcmp(mac, zero, sizeof(zero)) == 0)
		return reader_failure(reader, value->setting,
		                      "next_hop_mac = \"%s\": accepted is one station's Ethernet "
		                      "address, \"02:00:00:00:0a:01\"",
		                      value->string);
	destination->has_next_hop_mac = true;
	return 0;
}

static int read_destination(const struct reader *reader, struct config *config, const config_setting_t *setting,
                            struct config_destination *destination)
{
	struct value values[GROUP_KEYS_MAX];
	int r = reader_read_group(reader, setting, &destination_keys, values);

	if (r == 0)
		r = field_read_address(reader, &values[DESTINATION_ADDRESS], "address", &destination->address);
	if (r == 0)
		r = read_mac(reader, &values[DESTINATION_NEXT_HOP_MAC], destination);
	if (r < 0)
		return r;
	destination->port = (uint16_t)values[DESTINATION_PORT].integer;
	destination->line = (int)config_setting_source_line(setting);
	destination->file = field_copy_file(reader, config, setting);
	destination->text = render_group(config, &destination_keys, values);
	if (!destination->file || !destination->text)
		return failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
	return check_destination(reader, values, destination);
}

static int read_destinations(const struct reader *reader, struct config *config, const config_setting_t *list,
                             struct config_channel *channel)
{
	struct config_destination *destinations;
	void *array;
	int n = field_allocate_list(reader, config, list, "destinations", CONFIG_DESTINATIONS_MAX,
	                            sizeof(*destinations), &array);

	if (n < 0)
		return n;
	destinations = array;
	for (int i = 0; i < n; i++) {
		int r = read_destination(reader, config, config_setting_get_elem(list, (unsigned)i), &destinations[i]);

		if (r < 0)
			return r;
	}
	channel->destinations = destinations;
	channel->n_destinations = (uint32_t)n;
	return 0;
}

/* ---- a channel ----------------------------------------------------------------------------------- */

static void read_numbers(const struct value *values, struct config_channel *channel)
{
	static const enum config_udp_checksum checksums[] = {CONFIG_UDP_CHECKSUM_AUTO, CONFIG_UDP_CHECKSUM_DEVICE,
	                                                     CONFIG_UDP_CHECKSUM_ZERO, CONFIG_UDP_CHECKSUM_SOFTWARE};

	channel->backend = CONFIG_BACKEND_VERBS;
	channel->source_port = (uint16_t)values[CHANNEL_SOURCE_PORT].integer;
	channel->vlan = (int32_t)values[CHANNEL_VLAN].integer;
	channel->dscp = (uint8_t)values[CHANNEL_DSCP].integer;
	channel->ttl = (uint8_t)values[CHANNEL_TTL].integer;
	channel->payload_size = (uint32_t)values[CHANNEL_PAYLOAD_SIZE].integer;
	channel->send_queue_slots = (uint32_t)values[CHANNEL_SEND_QUEUE_SLOTS].integer;
	channel->arena_slots = (uint32_t)values[CHANNEL_ARENA_SLOTS].integer;
	channel->page_bytes = field_page_bytes(&values[CHANNEL_PAGE_SIZE]);
	channel->rate_limit_bps = (uint64_t)values[CHANNEL_RATE_LIMIT_MBPS].integer * 1000000;
	channel->burst_bytes = (uint32_t)values[CHANNEL_BURST_BYTES].integer;
	channel->device_pacing = values[CHANNEL_PACING].integer == 1; /* of "software", "device" */
	channel->late_after_us = (uint32_t)values[CHANNEL_LATE_AFTER_US].integer;
	channel->udp_checksum = checksums[values[CHANNEL_UDP_CHECKSUM].integer];
	channel->max_senders = (uint32_t)values[CHANNEL_MAX_SENDERS].integer;
	channel->max_senders_per_user = (uint32_t)values[CHANNEL_MAX_SENDERS_PER_USER].integer;
	channel->poll = field_poll(&values[CHANNEL_POLL]);
	channel->spin_us = (uint32_t)values[CHANNEL_SPIN_US].integer;
	channel->cpu = (int32_t)values[CHANNEL_CPU].integer;
}

static int read_texts(const struct reader *reader, struct config *config, const struct value *values,
                      struct config_channel *channel)
{
	int r = field_copy_string(reader, &values[CHANNEL_NAME], "name", channel->name, sizeof(channel->name));

	if (r == 0)
		r = field_copy_string(reader, &values[CHANNEL_INTERFACE], "interface", channel->interface,
		                      sizeof(channel->interface));
	if (r == 0)
		r = field_read_address(reader, &values[CHANNEL_SOURCE], "source", &channel->source);
	if (r == 0)
		r = field_read_ids(reader, config, &values[CHANNEL_USERS], "users", names_resolve_user, &channel->users,
		                   &channel->n_users);
	if (r == 0)
		r = field_read_ids(reader, config, &values[CHANNEL_GROUPS], "groups", names_resolve_group,
		                   &channel->groups, &channel->n_groups);
	return r;
}

static int read_channel(const struct reader *reader, struct config *config, const config_setting_t *setting,
                        struct config_channel *channel)
{
	struct value values[GROUP_KEYS_MAX];
	int r = reader_read_group(reader, setting, &channel_keys, values);

	if (r < 0)
		return r;
	read_numbers(values, channel);
	channel->line = (int)config_setting_source_line(setting);
	channel->file = field_copy_file(reader, config, setting);
	channel->text = render_group(config, &channel_keys, values);
	if (!channel->file || !channel->text)
		return failure_set(reader->failure, EX_OSERR, ENOMEM, "out of memory");
	r = read_texts(reader, config, values, channel);
	if (r == 0)
		r = read_destinations(reader, config, values[CHANNEL_DESTINATIONS].setting, channel);
	return r < 0 ? r : check_channel(reader, values, channel);
}

int load_channels(const struct reader *reader, struct config *config, const config_setting_t *list)
{
	struct config_channel *channels;
	void *array;
	int n = field_allocate_list(reader, config, list, "channels", CONFIG_CHANNELS_MAX, sizeof(*channels), &array);

	if (n < 0)
		return n;
	channels = array;
	config->channels = channels;
	for (int i = 0; i < n; i++) {
		int r = read_channel(reader, config, config_setting_get_elem(list, (unsigned)i), &channels[i]);

		if (r == 0)
			r = check_channel_among(config, &channels[i], reader->failure);
		if (r < 0)
			return r;
		config->n_channels++;
	}
	return 0;
}
