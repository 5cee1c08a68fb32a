// SPDX-License-Identifier: Apache-2.0
#include "daemon/channel/tx_headers.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct failure failure;

static struct config *load(const char *channel, const char *destinations)
{
	struct config *config = NULL;
	char text[1024];

	snprintf(text, sizeof(text),
	         "channels = (\n{ name = \"a\"; interface = \"eth0\"; source_port = 9; payload_size = 1472; %s\n"
	         "destinations = ( %s ); } );",
	         channel, destinations);
	cr_assert(eq(int, config_load_text("test.conf", text, &config, &failure), 0), "%s", failure.text);
	return config;
}

#define IPV4 "{ address = \"10.0.0.2\"; port = 7502; }"
#define IPV6 "{ address = \"ff05::1:3\"; port = 7503; }"

static struct next_hop ready(const char *source)
{
	struct next_hop next_hop = {
		.state = NEXT_HOP_READY, .mtu = 1500, .source_mac = {2, 0, 0, 0, 0xa, 1}, .mac = {2, 0, 0, 0, 0xb, 1}};

	next_hop.source.family = strchr(source, ':') ? AF_INET6 : AF_INET;
	cr_assert(eq(int, inet_pton(next_hop.source.family, source, next_hop.source.address), 1));
	return next_hop;
}

/* ---- at start -------------------------------------------------------------------------------------- */

Test(tx_headers, a_payload_that_the_mtu_does_not_allow_is_refused_with_what_would)
{
	struct config *ipv4 = load("fragment = \"off\";", IPV4), *both = load("fragment = \"off\";", IPV4 ", " IPV6);
	struct net_interface interface = {.mtu = 1500};

	cr_expect(eq(int, tx_headers_check(&ipv4->channels[0], &interface, &failure), 0));
	cr_expect(eq(int, tx_headers_check(&both->channels[0], &interface, &failure), -EMSGSIZE));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "test.conf:2: channel 'a': payload_size = 1472") == failure.text, "%s",
	          failure.text);
	cr_expect(strstr(failure.text, "payload_size = 1452 or less, fragment = \"auto\", or 'ip link set eth0 mtu "
	                               "1520'") != NULL,
	          "%s", failure.text);
	interface.mtu = 1499;
	cr_expect(eq(int, tx_headers_check(&ipv4->channels[0], &interface, &failure), -EMSGSIZE));
	interface.mtu = 20;
	cr_expect(eq(int, tx_headers_check(&ipv4->channels[0], &interface, &failure), -EMSGSIZE));
	config_free(ipv4);
	config_free(both);
}

Test(tx_headers, a_payload_that_is_to_be_cut_may_make_64_fragments)
{
	struct config *ipv4 = load("", IPV4), *both = load("", IPV4 ", " IPV6);
	struct net_interface interface = {.mtu = 1500};

	cr_expect(eq(int, tx_headers_check(&both->channels[0], &interface, &failure), 0));
	interface.mtu = 44; /* 24 bytes a fragment: 62 of them */
	cr_expect(eq(int, tx_headers_check(&ipv4->channels[0], &interface, &failure), 0));
	interface.mtu = 43; /* 16 */
	cr_expect(eq(int, tx_headers_check(&ipv4->channels[0], &interface, &failure), -EMSGSIZE));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	cr_expect(strstr(failure.text, "more than 64 IP fragments") &&
	                  strstr(failure.text, "payload_size = 1016 or less, or 'ip link set eth0 mtu 44'"),
	          "%s", failure.text);
	interface.mtu = 20;
	cr_expect(eq(int, tx_headers_check(&ipv4->channels[0], &interface, &failure), -EMSGSIZE));
	config_free(ipv4);
	config_free(both);
}

static int checksums_of(const char *udp_checksum, const char *destinations, bool device, bool cuts)
{
	const struct backend_capabilities capabilities = {.device = "mlx5_7", .send_checksums = device};
	enum packet_checksums checksums = PACKET_CHECKSUMS_DEVICE;
	struct config *config;
	char text[64];
	int r;

	snprintf(text, sizeof(text), "udp_checksum = \"%s\";", udp_checksum);
	config = load(text, destinations);
	r = tx_headers_checksums(&config->channels[0], &capabilities, cuts, &checksums, &failure);
	config_free(config);
	return r < 0 ? r : (int)checksums;
}

Test(tx_headers, checksums_are_the_devices_where_it_can)
{
	cr_expect(eq(int, checksums_of("auto", IPV4, true, false), PACKET_CHECKSUMS_DEVICE));
	cr_expect(eq(int, checksums_of("auto", IPV4, false, false), PACKET_CHECKSUMS_ZERO));
	cr_expect(eq(int, checksums_of("auto", IPV4 ", " IPV6, false, false), PACKET_CHECKSUMS_SOFTWARE));
	cr_expect(eq(int, checksums_of("auto", IPV4, false, true), PACKET_CHECKSUMS_SOFTWARE));
	cr_expect(eq(int, checksums_of("auto", IPV4, true, true), PACKET_CHECKSUMS_DEVICE));
	cr_expect(eq(int, checksums_of("zero", IPV4, false, true), PACKET_CHECKSUMS_ZERO));
	cr_expect(eq(int, checksums_of("software", IPV4, true, false), PACKET_CHECKSUMS_SOFTWARE));
	cr_expect(eq(int, checksums_of("zero", IPV4, true, false), PACKET_CHECKSUMS_ZERO));
	cr_expect(eq(int, checksums_of("device", IPV6, true, false), PACKET_CHECKSUMS_DEVICE));
	cr_expect(eq(int, checksums_of("device", IPV6, false, false), -ENOTSUP));
	cr_expect(strstr(failure.text, "mlx5_7") && strstr(failure.text, "accepted is \"auto\" or \"software\"") &&
	                  !strstr(failure.text, "zero"),
	          "%s", failure.text);
}

/* ---- on each change -------------------------------------------------------------------------------- */

Test(tx_headers, they_are_what_the_channel_says_and_the_kernel_knows)
{
	static const uint8_t expected[] = {
		2,    0,    0,    0,    0xb, 1, 2,    0, 0,  0,  0xa, 1,
		0x81, 0,    0,    5,    8,   0,                          /* to, from, VLAN 5, IPv4 */
		0x45, 0xb8, 0,    0,    0,   0, 0x40, 0, 64, 17, 0,   0, /* DSCP 46, don't fragment, TTL, UDP */
		10,   0,    0,    7,    10,  0, 0,    2,                 /* source, destination */
		0,    9,    0x1d, 0x4e, 0,   0, 0,    0,                 /* ports 9 and 7502 */
	};
	struct config *config = load("vlan = 5; dscp = 46;",
	                             "{ address = \"10.0.0.2\"; port = 7502; next_hop_mac = \"02:00:00:00:0b:01\"; }");
	struct next_hop next_hop = ready("10.0.0.7");
	struct tx_queue_destination made;

	tx_headers_make(&config->channels[0], 0, PACKET_CHECKSUMS_DEVICE, false, &next_hop, &made);
	cr_assert(eq(int, made.error, 0));
	cr_expect(eq(u32, made.headers.header_bytes, sizeof(expected)));
	cr_expect(memcmp(made.headers.bytes, expected, sizeof(expected)) == 0);
	config_free(config);
}

Test(tx_headers, of_each_destination_its_own)
{
	struct config *config = load("", IPV4 ", " IPV6);
	struct next_hop next_hop = ready("fd00::7");
	struct tx_queue_destination made;

	next_hop.mtu = 9000;
	tx_headers_make(&config->channels[0], 1, PACKET_CHECKSUMS_SOFTWARE, false, &next_hop, &made);
	cr_assert(eq(int, made.error, 0));
	cr_expect(made.headers.ipv6);
	cr_expect(eq(u32, made.headers.bytes[14 + 7], 1), "the hop limit to a group");
	cr_expect(eq(u32, made.headers.bytes[14 + 39], 3), "the group");
	config_free(config);
}

static int error_of(const struct config *config, struct next_hop next_hop)
{
	struct tx_queue_destination made;

	tx_headers_make(&config->channels[0], 0, PACKET_CHECKSUMS_ZERO, false, &next_hop, &made);
	return made.error;
}

Test(tx_headers, there_are_none_while_packets_cannot_go_there)
{
	struct config *config = load("", IPV4);
	struct next_hop next_hop = ready("10.0.0.7");
	struct tx_queue_destination made;

	cr_expect(eq(int, error_of(config, next_hop), 0));
	next_hop.mtu = 1499;
	cr_expect(eq(int, error_of(config, next_hop), -EMSGSIZE));
	tx_headers_make(&config->channels[0], 0, PACKET_CHECKSUMS_ZERO, true, &next_hop, &made);
	cr_expect(eq(int, made.error, 0));
	cr_expect(eq(u32, made.mtu, 1499), "by which packets are cut");
	next_hop.state = NEXT_HOP_LINK_DOWN;
	cr_expect(eq(int, error_of(config, next_hop), -ENETDOWN));
	for (enum next_hop_state state = NEXT_HOP_NO_ROUTE; state <= NEXT_HOP_NO_ANSWER; state++) {
		next_hop.state = state;
		cr_expect(eq(int, error_of(config, next_hop), -EHOSTUNREACH));
	}
	config_free(config);
}

Test(tx_headers, what_is_wanted_of_the_kernel_is_what_the_channel_says)
{
	struct config *config = load("source = \"10.0.0.7\";", IPV4 ", { address = \"10.0.0.3\"; port = 1; "
	                                                            "next_hop_mac = \"02:00:00:00:00:09\"; }");
	struct neighbour_wanted wanted;

	tx_headers_want(&config->channels[0], 0, 7, &wanted);
	cr_expect(eq(u32, wanted.interface_index, 7));
	cr_expect(eq(u32, wanted.destination.address[3], 2));
	cr_expect(eq(u32, wanted.source.address[3], 7));
	cr_expect(not(wanted.has_mac));
	tx_headers_want(&config->channels[0], 1, 7, &wanted);
	cr_expect(wanted.has_mac && wanted.mac[5] == 9);
	config_free(config);
}
