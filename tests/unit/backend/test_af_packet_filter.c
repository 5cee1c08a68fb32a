// SPDX-License-Identifier: Apache-2.0
/*
 * The filter of the packet backend, run by the kernel: it is attached to one end of a socket pair, and frames are sent
 * to that end as datagrams.
 */
#include "daemon/backend/bpf/flow_table.h"
#include "daemon/backend/packet/af_packet.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_RULES_MAX 256

static struct af_packet_claim claim_of(sa_family_t family, uint16_t port)
{
	struct flow_rule rule = {
		.family = family,
		.value = {.destination_mac = {0x02, 0, 0, 0, 0, 0x01},
	                  .destination = {10, 0, 0, 1},
	                  .protocol = IPPROTO_UDP,
	                  .destination_port_be = htons(port)},
		.mask = FLOW_MASK_UDP_IPV4,
	};

	rule.mask.destination_port_be = 0xffff;
	if (family == AF_INET6) {
		memcpy(rule.value.destination, (uint8_t[16]){0xfd, [15] = 1}, 16);
		memset(rule.mask.destination, 0xff, 16);
	}
	return (struct af_packet_claim){flow_table_condition(&rule, true), .takes = AF_PACKET_WHOLE_FRAME};
}

/* A frame of UDP from 10.0.0.9:4000 to 10.0.0.1:port, with n_options words of IP options. Returns its length. */
static size_t ipv4_frame(uint8_t frame[128], uint16_t port, size_t n_options)
{
	uint8_t *ip = frame + 14, *udp = ip + 20 + 4 * n_options;

	memset(frame, 0, 128);
	memcpy(frame, (uint8_t[]){0x02, 0, 0, 0, 0, 0x01}, 6);
	frame[12] = 0x08;
	ip[0] = (uint8_t)(0x45 + n_options);
	ip[9] = IPPROTO_UDP;
	memcpy(ip + 12, (uint8_t[]){10, 0, 0, 9}, 4);
	memcpy(ip + 16, (uint8_t[]){10, 0, 0, 1}, 4);
	udp[0] = 4000 >> 8;
	udp[1] = 4000 & 0xff;
	udp[2] = (uint8_t)(port >> 8);
	udp[3] = (uint8_t)port;
	return (size_t)(udp + 8 - frame);
}

static size_t ipv6_frame(uint8_t frame[128], uint16_t port)
{
	memset(frame, 0, 128);
	memcpy(frame, (uint8_t[]){0x02, 0, 0, 0, 0, 0x01}, 6);
	frame[12] = 0x86;
	frame[13] = 0xdd;
	frame[14] = 0x60;
	frame[20] = IPPROTO_UDP;
	frame[38] = 0xfd;
	frame[53] = 1;
	frame[56] = (uint8_t)(port >> 8);
	frame[57] = (uint8_t)port;
	return 62;
}

/* Does the filter of these rules take the frame? */
static bool takes(const struct af_packet_claim *rules, uint32_t n, const uint8_t *frame, size_t bytes)
{
	static struct sock_filter code[AF_PACKET_FILTER_MAX];
	struct sock_fprog program = {.filter = code};
	int pair[2], r = af_packet_filter_build(rules, n, true, 0, code);
	char buffer[128];
	bool taken;

	cr_assert(r > 0, "%d", r);
	program.len = (unsigned short)r;
	cr_assert_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	cr_assert_eq(setsockopt(pair[1], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0, "%s",
	             strerror(errno));
	cr_assert_eq(send(pair[0], frame, bytes, 0), (ssize_t)bytes);
	taken = recv(pair[1], buffer, sizeof(buffer), MSG_DONTWAIT) == (ssize_t)bytes;
	close(pair[0]);
	close(pair[1]);
	return taken;
}

Test(af_packet_filter, without_rules_nothing_is_taken)
{
	uint8_t frame[128];

	cr_expect_not(takes(NULL, 0, frame, ipv4_frame(frame, 1, 0)));
}

Test(af_packet_filter, each_rule_takes_its_own_port)
{
	struct af_packet_claim rules[] = {claim_of(AF_INET, 7502), claim_of(AF_INET, 7503)};
	uint8_t frame[128];

	cr_expect(takes(rules, 2, frame, ipv4_frame(frame, 7502, 0)));
	cr_expect(takes(rules, 2, frame, ipv4_frame(frame, 7503, 0)));
	cr_expect_not(takes(rules, 2, frame, ipv4_frame(frame, 7504, 0)));
}

Test(af_packet_filter, ip_options_do_not_hide_the_ports)
{
	struct af_packet_claim rule = claim_of(AF_INET, 7502);
	uint8_t frame[128];

	cr_expect(takes(&rule, 1, frame, ipv4_frame(frame, 7502, 3)));
	cr_expect_not(takes(&rule, 1, frame, ipv4_frame(frame, 7503, 3)));
}

Test(af_packet_filter, each_field_of_a_rule_counts)
{
	static const size_t fields[] = {0, 5, 12, 23, 26, 30, 34, 37}; /* MAC, ethertype, protocol, addresses, ports */
	struct af_packet_claim rule = claim_of(AF_INET, 7502);
	uint8_t frame[128];

	memcpy(rule.condition.value.key.source, (uint8_t[]){10, 0, 0, 9}, 4);
	memset(rule.condition.mask.key.source, 0xff, 4);
	rule.condition.value.key.source_port_be = htons(4000);
	rule.condition.mask.key.source_port_be = 0xffff;
	cr_expect(takes(&rule, 1, frame, ipv4_frame(frame, 7502, 0)));
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		size_t bytes = ipv4_frame(frame, 7502, 0);

		frame[fields[i]] ^= 1;
		cr_expect_not(takes(&rule, 1, frame, bytes), "byte %zu", fields[i]);
	}
}

Test(af_packet_filter, a_later_fragment_has_no_ports_and_the_first_one_has)
{
	struct af_packet_claim rule = claim_of(AF_INET, 7502);
	uint8_t frame[128];
	size_t bytes = ipv4_frame(frame, 7502, 0);

	frame[20] = 0x20; /* more fragments */
	cr_expect(takes(&rule, 1, frame, bytes));
	frame[21] = 1;
	cr_expect_not(takes(&rule, 1, frame, bytes));
}

Test(af_packet_filter, ipv6_compares_the_whole_address)
{
	struct af_packet_claim rule = claim_of(AF_INET6, 7502);
	uint8_t frame[128];
	size_t bytes = ipv6_frame(frame, 7502);

	cr_expect(takes(&rule, 1, frame, bytes));
	for (size_t at = 38; at < 54; at++) {
		bytes = ipv6_frame(frame, 7502);
		frame[at] ^= 1;
		cr_expect_not(takes(&rule, 1, frame, bytes), "byte %zu", at);
	}
	cr_expect_not(takes(&rule, 1, frame, ipv4_frame(frame, 7502, 0)));
}

Test(af_packet_filter, ipv6_compares_the_whole_source)
{
	struct af_packet_claim rule = claim_of(AF_INET6, 7502);
	uint8_t frame[128];
	size_t bytes;

	for (uint8_t i = 0; i < 16; i++)
		rule.condition.value.key.source[i] = (uint8_t)(0x10 + i);
	memset(rule.condition.mask.key.source, 0xff, 16);
	for (size_t at = 22; at < 39; at++) { /* the last round changes no byte */
		bytes = ipv6_frame(frame, 7502);
		memcpy(frame + 22, rule.condition.value.key.source, 16);
		frame[at] ^= at < 38 ? 1 : 0;
		cr_expect_eq(takes(&rule, 1, frame, bytes), at == 38, "byte %zu", at);
	}
}

/* A field that all rules ask the same of is compared once, when it is read. */
Test(af_packet_filter, a_field_that_one_rule_leaves_open_is_compared_for_the_others_only)
{
	struct af_packet_claim rules[] = {claim_of(AF_INET, 7502), claim_of(AF_INET, 7502)};
	uint8_t frame[128];
	size_t bytes;

	rules[1].condition.value.key.destination[3] = 2;
	rules[1].condition.value.key.destination_port_be = rules[1].condition.mask.key.destination_port_be = 0;
	bytes = ipv4_frame(frame, 9, 0);
	cr_expect_not(takes(rules, 2, frame, bytes));
	frame[33] = 2;
	cr_expect(takes(rules, 2, frame, bytes));
}

Test(af_packet_filter, a_rule_of_another_queue_may_leave_a_common_field_open)
{
	struct af_packet_claim rules[] = {claim_of(AF_INET, 7502), claim_of(AF_INET, 7502)};
	uint8_t frame[128];
	size_t bytes;

	rules[0].takes = 0; /* all of UDP from 10.0.0.8, ahead of the queue's own rule */
	memset(&rules[0].condition.mask.key.destination, 0, 16);
	memset(&rules[0].condition.value.key.destination, 0, 16);
	rules[0].condition.value.key.destination_port_be = rules[0].condition.mask.key.destination_port_be = 0;
	memcpy(rules[0].condition.value.key.source, (uint8_t[]){10, 0, 0, 8}, 4);
	memset(rules[0].condition.mask.key.source, 0xff, 4);
	bytes = ipv4_frame(frame, 7502, 0);
	cr_expect(takes(rules, 2, frame, bytes));
	frame[29] = 8;
	cr_expect_not(takes(rules, 2, frame, bytes), "it is the other queue's");
	bytes = ipv4_frame(frame, 7503, 0);
	cr_expect_not(takes(rules, 2, frame, bytes), "another port");
	bytes = ipv4_frame(frame, 7502, 0);
	frame[33] = 2;
	cr_expect_not(takes(rules, 2, frame, bytes), "another address");
}

Test(af_packet_filter, a_frame_that_is_too_short_for_ports_may_be_of_a_rule_without_them)
{
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		sa_family_t family = ipv6 ? AF_INET6 : AF_INET;
		struct af_packet_claim rules[] = {claim_of(family, 7502), claim_of(family, 7502)};
		uint8_t frame[128];
		size_t bytes = (ipv6 ? ipv6_frame(frame, 7502) : ipv4_frame(frame, 7502, 0)) - 8;

		rules[1].condition.value.key.destination_port_be = 0;
		rules[1].condition.mask.key.destination_port_be = 0;
		for (size_t n = 0; n <= 8; n++) {
			cr_expect(takes(rules, 2, frame, bytes + n), "%zu bytes of UDP", n);
			cr_expect_eq(takes(rules, 1, frame, bytes + n), n >= 4, "%zu bytes of UDP", n);
		}
		for (size_t n = 1; n <= 4; n++) /* the IP header is not whole */
			cr_expect_not(takes(rules, 2, frame, bytes - n), "%zu bytes less", n);
	}
}

Test(af_packet_filter, a_frame_that_is_too_short_for_an_ip_header_may_be_of_a_rule_without_one)
{
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		struct af_packet_claim rules[] = {claim_of(ipv6 ? AF_INET6 : AF_INET, 7502),
		                                  {.takes = AF_PACKET_WHOLE_FRAME}};
		uint8_t frame[128];
		size_t bytes = ipv6 ? ipv6_frame(frame, 7502) : ipv4_frame(frame, 7502, 0);

		memset(rules[1].condition.mask.key.destination_mac, 0xff, 6);
		memcpy(rules[1].condition.value.key.destination_mac, frame, 6);
		for (size_t n = 14; n <= bytes; n++)
			cr_expect(takes(rules, 2, frame, n), "%zu bytes", n);
		frame[5] ^= 1;
		cr_expect_not(takes(rules, 2, frame, bytes));
	}
}

Test(af_packet_filter, an_inner_tag_is_passed_over_if_it_is_whole)
{
	struct af_packet_claim rule = claim_of(AF_INET, 7502);
	uint8_t frame[128], tagged[132];
	size_t bytes = ipv4_frame(frame, 7502, 0);

	memcpy(tagged, frame, 12);
	memcpy(tagged + 16, frame + 12, bytes - 12);
	for (int service = 0; service < 2; service++) {
		memcpy(tagged + 12, service ? "\x88\xa8\x00\x05" : "\x81\x00\x00\x05", 4);
		cr_expect(takes(&rule, 1, tagged, bytes + 4));
		cr_expect_not(takes(&rule, 1, tagged, 17));
	}
	memcpy(tagged + 12, "\x91\x00\x00\x05", 4);
	cr_expect_not(takes(&rule, 1, tagged, bytes + 4), "another type of tag");
}

Test(af_packet_filter, the_version_in_the_ip_header_counts_too)
{
	struct af_packet_claim rules[] = {claim_of(AF_INET, 7502), claim_of(AF_INET6, 7502)};
	static const uint8_t wrong[2][3] = {{0x44, 0x50, 0x35}, {0x5f, 0x70, 0x45}};
	uint8_t frame[128];

	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		size_t bytes = ipv6 ? ipv6_frame(frame, 7502) : ipv4_frame(frame, 7502, 0);

		cr_expect(takes(&rules[ipv6], 1, frame, bytes));
		cr_expect(takes(rules, 2, frame, bytes));
		for (int i = 0; i < 3; i++) {
			frame[14] = wrong[ipv6][i];
			cr_expect_not(takes(&rules[ipv6], 1, frame, bytes), "%#x", frame[14]);
			cr_expect_not(takes(rules, 2, frame, bytes), "%#x", frame[14]);
		}
	}
}

/* The filter has 16 words, and there are 19 fields. */
Test(af_packet_filter, rules_that_differ_in_more_fields_than_there_are_words_are_refused)
{
	static struct sock_filter code[AF_PACKET_FILTER_MAX];
	struct af_packet_claim rules[2] = {{.takes = AF_PACKET_WHOLE_FRAME}, {.takes = AF_PACKET_WHOLE_FRAME}};

	memset(&rules[0].condition.mask, 0xff, sizeof(rules[0].condition.mask));
	memset(&rules[1].condition.mask, 0xff, sizeof(rules[1].condition.mask));
	memset(&rules[1].condition.value, 0x01, sizeof(rules[1].condition.value));
	cr_expect_eq(af_packet_filter_build(rules, 2, true, 0, code), -E2BIG);
	memset(&rules[1].condition.value, 0, sizeof(rules[1].condition.value));
	cr_expect_gt(af_packet_filter_build(rules, 2, true, 0, code), 0, "they differ in none");
}

Test(af_packet_filter, as_many_rules_as_a_stream_may_have_or_an_error)
{
	static struct sock_filter code[AF_PACKET_FILTER_MAX];
	static struct af_packet_claim rules[N_RULES_MAX];
	uint8_t frame[128];

	for (int i = 0; i < N_RULES_MAX; i++)
		rules[i] = claim_of(AF_INET, (uint16_t)(1000 + i));
	cr_expect(takes(rules, N_RULES_MAX, frame, ipv4_frame(frame, 1000 + N_RULES_MAX - 1, 0)));
	for (int i = 0; i < N_RULES_MAX; i++) {
		rules[i] = claim_of(AF_INET6, (uint16_t)(1000 + i));
		memset(rules[i].condition.mask.key.source, 0xff, 16);
		for (int byte = 3; byte < 16; byte += 4) /* no field is the same in all rules */
			rules[i].condition.value.key.source[byte] = rules[i].condition.value.key.destination[byte] =
				(uint8_t)i;
	}
	cr_expect_eq(af_packet_filter_build(rules, N_RULES_MAX, true, 0, code), -E2BIG);
}
