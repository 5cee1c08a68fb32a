// SPDX-License-Identifier: Apache-2.0
/* Channels: values that have to fit together. test_keys.c tests each key by itself. Errors name the line. */
#include "daemon/config/config.h"
#include "daemon/config/key.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

static struct failure failure;

static struct config *load(const char *text)
{
	struct config *config = NULL;

	memset(&failure, 0, sizeof(failure));
	if (config_load_text("test.conf", text, &config, &failure) < 0)
		cr_expect(eq(ptr, (void *)config, NULL));
	return config;
}

/* A file with one channel: keys of it stand in line 2, of its destination in line 3. */
static struct config *load_with(const char *channel, const char *address, const char *destination)
{
	char text[2048];

	snprintf(text, sizeof(text),
	         "channels = ( { name = \"a\"; interface = \"eth0\"; source_port = 9; payload_size = 1000;\n"
	         "%s\n"
	         "destinations = ( { address = \"%s\"; port = 1; %s } ); } );\n",
	         channel, address, destination);
	return load(text);
}

static void expect_accepted(struct config *config)
{
	cr_expect(config != NULL, "%s", failure.text);
	config_free(config);
}

static void expect_refused(struct config *config, const char *line, const char *accepted)
{
	cr_assert(eq(ptr, (void *)config, NULL), "accepted, but should be refused for: %s", accepted);
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strncmp(failure.text, line, strlen(line)) == 0, "'%s' does not begin with %s", failure.text, line);
	cr_expect(strstr(failure.text, accepted) != NULL, "'%s' does not say '%s'", failure.text, accepted);
	cr_expect(eq(ptr, strchr(failure.text, '\n'), NULL));
}

Test(channel, a_file_of_channels_alone_is_one_and_defaults_are_those_of_the_key_table)
{
	struct config *config = load_with("", "10.0.0.1", "");

	cr_assert(config != NULL, "%s", failure.text);
	const struct config_channel *channel = &config->channels[0];

	cr_expect(eq(u32, config->n_streams, 0));
	cr_expect(eq(u32, config->n_channels, 1));
	cr_expect(eq(str, (char *)channel->name, (char *)"a"));
	cr_expect(eq(str, (char *)channel->file, (char *)"test.conf"));
	cr_expect(eq(int, channel->line, 1));
	cr_expect(eq(int, channel->destinations[0].line, 3));
	cr_expect(eq(u32, channel->destinations[0].port, 1));
	cr_expect(not(channel->destinations[0].has_next_hop_mac));
	cr_expect(eq(int, channel->source.family, AF_UNSPEC));
	cr_expect(eq(u32, channel->source_port, 9));
	cr_expect(eq(int, channel->vlan, -1));
	cr_expect(eq(u32, channel->payload_size, 1000));
	cr_expect(eq(u32, channel->send_queue_slots, key_find(&channel_keys, "send_queue_slots")->number));
	cr_expect(eq(u32, channel->arena_slots, key_find(&channel_keys, "arena_slots")->number));
	cr_expect(eq(u32, channel->page_bytes, 2u << 20));
	cr_expect(eq(u64, channel->rate_limit_bps, 0));
	cr_expect(eq(int, channel->udp_checksum, CONFIG_UDP_CHECKSUM_AUTO));
	cr_expect(eq(u32, channel->n_users + channel->n_groups, 0));
	cr_expect(eq(int, channel->poll, CONFIG_POLL_ADAPTIVE));
	cr_expect(eq(int, channel->cpu, -1));
	config_free(config);
}

Test(channel, a_file_has_streams_channels_or_both)
{
	struct config *config =
		load("streams = ( { name = \"a\"; interface = \"e\"; payload_size = 100;\n"
	             "flows = ( { destination = \"10.0.0.1\"; port = 1; } ); } );\n"
	             "channels = ( { name = \"a\"; interface = \"e\"; source_port = 9; payload_size = 1;\n"
	             "destinations = ( { address = \"ff05::1\"; port = 2; } ); } );\n");

	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(u32, config->n_streams, 1));
	cr_expect(eq(u32, config->n_channels, 1));
	config_free(config);
	expect_refused(load("control = {};"), "test.conf:1: ", "needs 'streams' or 'channels'");
	expect_refused(load("channels = ();"), "test.conf:1: ", "channels has 0 entries: accepted are 1 to 64");
	expect_refused(load("channels = 5;"), "test.conf:1: ", "channels is an integer");
}

Test(channel, what_no_packet_can_have_is_refused)
{
	const char *const addresses[] = {"0.0.0.0", "255.255.255.255", "::", "10.0.0.0/8", "::ffff:10.0.0.1", ""};

	for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
		expect_refused(load_with("", addresses[i], ""), "test.conf:3: ", "accepted is");
	expect_refused(load_with("payload_size = 65508;", "10.0.0.1", ""), "test.conf:2: ", "duplicate");
	expect_refused(load("channels = ( { name = \"a\"; interface = \"e\"; source_port = 1; payload_size = 65508;"
	                    " destinations = ( { address = \"10.0.0.1\"; port = 1; } ); } );"),
	               "test.conf:1: ", "payload_size = 65508 with the IPv4 destination");
	expect_refused(load("channels = ( { name = \"a\"; interface = \"e\"; source_port = 1; payload_size = 65528;"
	                    " destinations = ( { address = \"ff15::1\"; port = 1; } ); } );"),
	               "test.conf:1: ", "payload_size = 65528: accepted is an integer from 1 to 65527");
	expect_accepted(load("channels = ( { name = \"a\"; interface = \"e\"; source_port = 1; payload_size = 65527;"
	                     " destinations = ( { address = \"ff15::1\"; port = 1; } ); } );"));
	expect_refused(load("channels = ( { name = \"a\"; interface = \"e\"; source_port = 0; payload_size = 1;"
	                    " destinations = ( { address = \"10.0.0.1\"; port = 1; } ); } );"),
	               "test.conf:1: ", "source_port = 0: accepted is an integer from 1 to 65535");
	expect_refused(load_with("", "10.0.0.1", "vlan = 1;"),
	               "test.conf:3: ", "it is a key of a channel: put it before 'destinations'");
	expect_refused(load_with("vlan = 0;", "10.0.0.1", ""), "test.conf:2: ", "vlan = 0: accepted is 1 to 4094");
	expect_refused(load_with("rate_limit_mbps = 1.5;", "10.0.0.1", ""), "test.conf:2: ", "a decimal fraction");
	expect_refused(load_with("arena_slots = 96;", "10.0.0.1", ""),
	               "test.conf:2: ", "from 64 to 1048576, a power of two");
}

Test(channel, in_a_vlan_nobody_is_asked_for)
{
	expect_refused(load_with("vlan = 5;", "10.0.0.1", ""),
	               "test.conf:2: ", "accepted is a destination with next_hop_mac");
	expect_accepted(load_with("vlan = 5;", "10.0.0.1", "next_hop_mac = \"02:00:00:00:0a:01\";"));
	expect_accepted(load_with("vlan = 5;", "ff05::1", ""));
}

Test(channel, the_source_is_one_address_of_the_destinations_family)
{
	expect_refused(load_with("source = \"239.0.0.1\";", "10.0.0.1", ""), "test.conf:2: ", "unicast");
	expect_refused(load_with("source = \"0.0.0.0\";", "10.0.0.1", ""), "test.conf:2: ", "unicast");
	expect_refused(load_with("source = \"::ffff:10.0.0.1\";", "fe80::1", ""), "test.conf:2: ", "unicast");
	expect_refused(load_with("source = \"fe80::1\";", "10.0.0.1", ""),
	               "test.conf:2: ", "of another family than the destination at test.conf:3");
}

Test(channel, a_device_paces_to_a_limit)
{
	struct config *config;

	expect_refused(load_with("pacing = \"device\";", "10.0.0.1", ""),
	               "test.conf:2: ", "accepted is rate_limit_mbps with it, or pacing = \"software\"");
	config = load_with("pacing = \"device\"; rate_limit_mbps = 5;", "10.0.0.1", "");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(config->channels[0].device_pacing);
	config_free(config);
	config = load_with("rate_limit_mbps = 5;", "10.0.0.1", "");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(not(config->channels[0].device_pacing));
	config_free(config);
}

Test(channel, ipv6_has_a_checksum)
{
	struct config *config;

	expect_refused(load_with("udp_checksum = \"zero\";", "ff05::1", ""),
	               "test.conf:2: ", "accepted is \"auto\", \"device\" or \"software\"");
	expect_refused(load_with("udp_checksum = \"zero\";", "10.0.0.1", "}, { address = \"ff05::1\"; port = 2;"),
	               "test.conf:2: ", "the IPv6 destination at test.conf:3");
	config = load_with("udp_checksum = \"software\";", "ff05::1", "");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(int, config->channels[0].udp_checksum, CONFIG_UDP_CHECKSUM_SOFTWARE));
	config_free(config);
}

Test(channel, a_next_hop_is_one_station)
{
	static const uint8_t mac[6] = {0x02, 0, 0, 0xff, 0x0a, 0x01};
	const char *const bad[] = {"00:00:00:00:00:00", "01:00:5e:00:00:01",  "ff:ff:ff:ff:ff:ff",
	                           "2:0:0:0:a:1",       "02:00:00:00:0a",     "02:00:00:00:0a:1",
	                           "02:00:00:00:0a:0g", "02:00:00:00:0a:01 ", "x"};
	struct config *config = load_with("", "10.0.0.1", "next_hop_mac = \"02:00:00:fF:0a:01\";");
	char text[64];

	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(config->channels[0].destinations[0].has_next_hop_mac);
	cr_expect(memcmp(config->channels[0].destinations[0].next_hop_mac, mac, sizeof(mac)) == 0);
	config_free(config);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "next_hop_mac = \"%s\";", bad[i]);
		expect_refused(load_with("", "10.0.0.1", text), "test.conf:3: ", "one station's");
	}
	expect_refused(load_with("", "239.0.0.1", "next_hop_mac = \"02:00:00:00:0a:01\";"),
	               "test.conf:3: ", "with the group 239.0.0.1");
}

Test(channel, packets_to_groups_go_no_further_than_the_link_unless_told)
{
	struct config *config = load_with("", "239.0.0.1", "}, { address = \"10.0.0.1\"; port = 2;");

	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(u32, config_ttl(&config->channels[0], &config->channels[0].destinations[0]), 1));
	cr_expect(eq(u32, config_ttl(&config->channels[0], &config->channels[0].destinations[1]), 64));
	config_free(config);
	config = load_with("ttl = 7;", "ff05::1", "");
	cr_assert(config != NULL, "%s", failure.text);
	cr_expect(eq(u32, config_ttl(&config->channels[0], &config->channels[0].destinations[0]), 7));
	config_free(config);
}

/* ---- channels against each other ---------------------------------------------------------------- */

static struct config *load_two(const char *first, const char *second)
{
	char text[2048];

	snprintf(
		text, sizeof(text),
		"channels = (\n"
		"{ source_port = 9; payload_size = 1; destinations = ( { address = \"10.0.0.1\"; port = 1; } ); %s },\n"
		"{ source_port = 9; payload_size = 1; destinations = ( { address = \"10.0.0.1\"; port = 1; } ); %s } "
		");\n",
		first, second);
	return load(text);
}

Test(channel, names_are_distinct_and_printable)
{
	expect_refused(load_two("name = \"a\"; interface = \"e\";", "name = \"a\"; interface = \"f\";"),
	               "test.conf:3: ", "that of the channel at test.conf:2 too");
	expect_refused(load_two("name = \"a b\"; interface = \"e\";", "name = \"b\"; interface = \"f\";"),
	               "test.conf:2: ", "letters");
}

Test(channel, those_of_one_interface_want_the_same_of_its_worker)
{
	struct config *config;

	expect_refused(
		load_two("name = \"a\"; interface = \"e\";", "name = \"b\"; interface = \"e\"; poll = \"busy\";"),
		"test.conf:3: ", "poll of channel 'b' is not that of the channel at test.conf:2");
	expect_refused(load_two("name = \"a\"; interface = \"e\"; cpu = 1;", "name = \"b\"; interface = \"e\";"),
	               "test.conf:3: ", "cpu of channel 'b'");
	config = load_two("name = \"a\"; interface = \"e\"; cpu = 1;", "name = \"b\"; interface = \"f\";");
	cr_expect(config != NULL, "%s", failure.text);
	config_free(config);
}
