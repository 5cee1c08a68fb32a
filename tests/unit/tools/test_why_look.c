// SPDX-License-Identifier: Apache-2.0
/* What arrives is counted by destination, and compared with the flow that is nearest to it. */
#include "tools/status/why_look.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <net/ethernet.h>
#include <stdlib.h>
#include <string.h>

#define PACKET_BYTES 28

static struct ibvcap_status_stream stream = {.name = "s", .interface = "eth0", .slot_bytes = 1000};
static struct ibvcap_status_flow flows[] = {
	{.stream = "other", .destination = "10.0.0.9", .destination_port = 9, .vlan = -1},
	{.stream = "s", .destination = "10.0.0.1", .destination_port = 7502, .vlan = -1, .text = "10.0.0.1:7502"},
	{.stream = "s", .destination = "10.1.0.0/15", .destination_port = 0, .vlan = 5, .source = "10.9.0.0/16"},
};
static const struct status_view view = {.flows = flows, .n_flows = 3};
static struct why_look look;

/* An IPv4 packet of UDP with 100 bytes of payload, cut behind its headers. */
static void make_packet(uint8_t packet[PACKET_BYTES], const char *source, const char *destination, uint16_t port)
{
	memset(packet, 0, PACKET_BYTES);
	packet[0] = 0x45;
	packet[3] = 128;
	packet[9] = IPPROTO_UDP;
	inet_pton(AF_INET, source, packet + 12);
	inet_pton(AF_INET, destination, packet + 16);
	packet[20] = 0x10; /* source port 4096 */
	packet[22] = (uint8_t)(port >> 8);
	packet[23] = (uint8_t)port;
	packet[25] = 108;
}

static void arrive(unsigned interface, int vlan, const char *source, const char *destination, uint16_t port)
{
	const struct arrival where = {.interface = interface, .vlan = vlan};
	uint8_t packet[PACKET_BYTES];

	make_packet(packet, source, destination, port);
	arrivals_add(&look.arrivals, &where, ETHERTYPE_IP, packet, PACKET_BYTES, 128);
}

static void compare(void)
{
	look.stream = &stream;
	look.interface = stream.interface;
	look.interface_index = 7;
	look.n_nearest = 0;
	why_look_compare(&view, &look);
}

static void expect_difference(unsigned i, const char *difference, const char *keys)
{
	char text[WHY_TEXT_BYTES];

	cr_assert(lt(uint, i, look.n_nearest));
	why_look_write_difference(&look, &look.nearest[i], text);
	cr_expect_str_eq(text, difference);
	why_look_write_keys(&look, &look.nearest[i], text);
	cr_expect_str_eq(text, keys);
}

static void forget(void)
{
	memset(&look, 0, sizeof(look));
}

TestSuite(why_look, .init = forget);

Test(why_look, the_nearest_comes_first_with_what_differs_and_the_keys_for_it)
{
	arrive(7, -1, "10.0.0.7", "10.0.0.1", 9000);
	arrive(7, -1, "10.0.0.7", "10.0.0.1", 7503);
	arrive(7, -1, "10.0.0.7", "255.255.255.255", 7502);
	look.arrivals.at[2].is_broadcast = true;
	compare();
	cr_assert(eq(uint, look.n_nearest, 3));
	expect_difference(0, "broadcast 255.255.255.255 and not 10.0.0.1",
	                  "flows = ({ destination = \"255.255.255.255\"; port = 7502; });");
	expect_difference(1, "port 7503 and not 7502", "flows = ({ destination = \"10.0.0.1\"; port = 7503; });");
	expect_difference(2, "port 9000 and not 7502", "flows = ({ destination = \"10.0.0.1\"; port = 9000; });");
}

Test(why_look, vlans_prefixes_and_sources_are_compared)
{
	arrive(7, 12, "10.9.8.7", "10.2.0.1", 1);
	arrive(7, 5, "10.8.8.7", "10.1.0.1", 1);
	arrive(7, 5, "10.8.8.7", "10.1.0.1", 1);
	arrive(7, 12, "10.9.8.7", "10.1.0.1", 1);
	compare();
	cr_assert(eq(uint, look.n_nearest, 3));
	cr_expect(eq(uint, look.nearest[0].differs, WHY_SOURCE));
	expect_difference(1, "VLAN 12 and not 5", "flows = ({ destination = \"10.1.0.1\"; port = 1; vlan = 12; });");
	cr_expect(eq(uint, look.nearest[2].differs, WHY_VLAN | WHY_DESTINATION));
	cr_expect(eq(ptr, (void *)look.nearest[2].flow, &flows[2]));
}

Test(why_look, other_interfaces_are_shown_if_little_else_differs)
{
	arrive(8, -1, "10.0.0.7", "10.0.0.1", 53);
	arrive(8, -1, "10.0.0.7", "10.0.0.3", 53);
	arrive(8, -1, "10.0.0.7", "10.0.0.1", 7502);
	compare();
	cr_assert(eq(uint, look.n_nearest, 2), "one differs in all");
	cr_expect(eq(uint, look.nearest[0].differs, WHY_INTERFACE));
	cr_expect(eq(uint, look.nearest[1].differs, WHY_INTERFACE | WHY_PORT));
}

Test(why_look, datagrams_longer_than_a_row_are_said)
{
	arrive(7, -1, "10.0.0.7", "10.0.0.1", 7502);
	look.arrivals.at[0].bytes_max = 12608;
	look.arrivals.at[0].is_fragmented = true;
	compare();
	expect_difference(0, "fragments of datagrams of 12608 bytes, and payload_size is 1000",
	                  "payload_size = 12608; flows = ({ destination = \"10.0.0.1\"; port = 7502; });");
}

Test(why_look, nothing_that_arrives_has_an_advice)
{
	compare();
	cr_expect(
		ne(ptr, (void *)strstr(look.advice, "no UDP for this machine arrives on eth0: check the cable"), NULL));
	look.advice[0] = '\0';
	strcpy(stream.interface, "lo");
	compare();
	cr_expect(ne(ptr, (void *)strstr(look.advice, "no UDP arrives on lo: check the sender's destination"), NULL));
	cr_expect(eq(ptr, (void *)strstr(look.advice, "cable"), NULL));
}

Test(why_look, a_flood_of_destinations_does_not_hide_one_that_has_many_datagrams)
{
	char source[INET_ADDRSTRLEN];

	for (unsigned i = 0; i < 100000; i++) {
		snprintf(source, sizeof(source), "10.%u.%u.1", i >> 8 & 0xff, i & 0xff);
		arrive(7, -1, source, "10.0.0.2", (uint16_t)i);
		if (i % 1000 == 0)
			arrive(7, -1, "10.0.0.7", "10.0.0.1", 7503);
	}
	compare();
	cr_expect(eq(uint, look.arrivals.n, ARRIVALS_MAX));
	cr_expect(eq(u64, look.arrivals.n_datagrams, 100100));
	cr_expect(gt(u64, look.arrivals.n_forgotten, 0));
	cr_expect(eq(u64, look.nearest[0].arrival->n_datagrams, 100));
	expect_difference(0, "port 7503 and not 7502", "flows = ({ destination = \"10.0.0.1\"; port = 7503; });");
	for (unsigned i = 0; i < look.arrivals.n; i++)
		cr_expect(le(uint, look.arrivals.at[i].n_sources, ARRIVAL_SOURCES_MAX));
}

/* Each beginning of the packet in memory of its own, so that a sanitizer sees a read behind it. */
Test(why_look, packets_that_are_cut_are_not_counted)
{
	const struct arrival where = {.interface = 7, .vlan = -1};
	uint8_t packet[PACKET_BYTES];

	make_packet(packet, "10.0.0.7", "10.0.0.1", 7502);
	for (uint32_t n = 0; n < PACKET_BYTES; n++) {
		uint8_t *cut = malloc(n + !n);

		cr_assert(ne(ptr, cut, NULL));
		memcpy(cut, packet, n);
		arrivals_add(&look.arrivals, &where, ETHERTYPE_IP, cut, n, 128);
		arrivals_add(&look.arrivals, &where, ETHERTYPE_IPV6, cut, n, 128);
		arrivals_add(&look.arrivals, &where, ETHERTYPE_VLAN, cut, n, 128);
		free(cut);
	}
	cr_expect(eq(u64, look.arrivals.n_datagrams, 0));
}

/* No payload_size takes such a packet, so the look does not propose one. */
Test(why_look, packets_whose_lengths_are_wrong_are_not_counted)
{
	static const uint16_t udp_lengths[] = {0, 4, 7, 900};
	const struct arrival where = {.interface = 7, .vlan = -1};
	uint8_t packet[PACKET_BYTES];

	make_packet(packet, "10.0.0.7", "10.0.0.1", 7502);
	for (unsigned i = 0; i < sizeof(udp_lengths) / sizeof(udp_lengths[0]); i++) {
		packet[24] = (uint8_t)(udp_lengths[i] >> 8);
		packet[25] = (uint8_t)udp_lengths[i];
		arrivals_add(&look.arrivals, &where, ETHERTYPE_IP, packet, PACKET_BYTES, 128);
	}
	cr_expect(eq(u64, look.arrivals.n_datagrams, 0));
}
