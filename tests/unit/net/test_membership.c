// SPDX-License-Identifier: Apache-2.0
/* Joining groups in a network namespace of its own, and the kernel's limits on memberships. */
#include "daemon/net/net.h"
#include "tests/unit/net/namespace.h"
#include "tests/support/flows.h"

#include <arpa/inet.h>
#include <criterion/new/assert.h>
#include <dirent.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/resource.h>

static struct membership *membership;
static unsigned test0;

static void begin(void)
{
	enter_namespace();
	test0 = if_nametoindex("test0");
	cr_assert(eq(int, membership_new(&membership), 0));
}

static void end(void)
{
	membership_free(membership);
}

TestSuite(membership, .init = begin, .fini = end, .timeout = 60);

static struct flow_rule rule_to(const char *group, const char *source, uint16_t port)
{
	struct flow_rule rule = {
		.family = strchr(group, ':') ? AF_INET6 : AF_INET,
		.multicast = true,
		.value = {.protocol = IPPROTO_UDP, .destination_port_be = htons(port)},
	};
	uint8_t from[16];

	rule.mask = rule.family == AF_INET6 ? (struct flow_fields)FLOW_MASK_UDP_IPV6
	                                    : (struct flow_fields)FLOW_MASK_UDP_IPV4;
	cr_assert(eq(int, inet_pton(rule.family, group, rule.value.destination), 1));
	if (source) {
		cr_assert(eq(int, inet_pton(rule.family, source, from), 1));
		rule_set_source(&rule, from);
	}
	return rule;
}

static int join(const char *group, const char *source)
{
	const struct flow_rule rule = rule_to(group, source, 7502);
	struct failure failure = {0};
	int r = membership_join(membership, test0, &rule, &failure);

	cr_expect(r == 0 || failure.text[0]);
	return r;
}

static int count_lines(const char *path, const char *first, const char *second)
{
	FILE *file = fopen(path, "re");
	char line[256];
	int n = 0;

	cr_assert(file != NULL, "%s", path);
	while (fgets(line, sizeof(line), file))
		n += strstr(line, first) && strstr(line, second);
	fclose(file);
	return n;
}

/* /proc/net/igmp has the group as the machine's own integer. */
static int has_group(const char *group)
{
	char text[16];

	snprintf(text, sizeof(text), "%08X", inet_addr(group));
	return count_lines("/proc/net/igmp", text, "");
}

static int has_source(const char *group, const char *source)
{
	char group_text[16], source_text[32];

	snprintf(group_text, sizeof(group_text), "0x%08x", ntohl(inet_addr(group)));
	snprintf(source_text, sizeof(source_text), "0x%08x      1", ntohl(inet_addr(source)));
	return count_lines("/proc/net/mcfilter", group_text, source_text);
}

static uint32_t count_sockets(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	uint32_t n = 0;

	cr_assert(directory != NULL);
	while ((entry = readdir(directory))) {
		char target[64] = "";

		if (readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1) > 0)
			n += strncmp(target, "socket:", 7) == 0;
	}
	closedir(directory);
	return n;
}

Test(membership, a_group_is_joined_and_left)
{
	cr_assert(eq(int, join("239.1.2.3", NULL), 0));
	cr_expect(eq(int, has_group("239.1.2.3"), 1));
	cr_expect(eq(int, count_lines("/proc/net/mcfilter", "0xef010203", ""), 0), "any source");
	membership_free(membership);
	membership = NULL;
	cr_expect(eq(int, has_group("239.1.2.3"), 0));
}

/* As this kernel lists its links; with a VLAN among them: test_vlan.c. */
Test(membership, a_group_of_a_vlan_that_no_interface_has_is_joined_untagged)
{
	struct flow_rule rule = rule_to("239.1.2.3", NULL, 7502);
	struct failure failure = {0};

	rule_set_vlan(&rule, 5);
	cr_expect(eq(int, membership_join(membership, test0, &rule, &failure), MEMBERSHIP_UNTAGGED));
	cr_expect(eq(int, has_group("239.1.2.3"), 1));
}

Test(membership, a_source_is_asked_for)
{
	cr_assert(eq(int, join("232.1.2.3", "10.0.0.1"), 0));
	cr_assert(eq(int, join("232.1.2.3", "10.0.0.2"), 0));
	cr_expect(eq(int, has_source("232.1.2.3", "10.0.0.1"), 1));
	cr_expect(eq(int, has_source("232.1.2.3", "10.0.0.2"), 1));
	cr_expect(eq(int, has_source("232.1.2.3", "10.0.0.3"), 0));
}

Test(membership, ipv6_groups_and_sources)
{
	cr_assert(eq(int, join("ff15::1:2", NULL), 0));
	cr_assert(eq(int, join("ff35::3:4", "2001:db8::1"), 0));
	cr_expect(eq(int, count_lines("/proc/net/igmp6", "test0", "ff150000000000000000000000010002"), 1));
	cr_expect(eq(int, count_lines("/proc/net/igmp6", "test0", "ff350000000000000000000000030004"), 1));
	cr_expect(eq(int,
	             count_lines("/proc/net/mcfilter6", "ff350000000000000000000000030004",
	                         "20010db8000000000000000000000001"),
	             1));
	membership_free(membership);
	membership = NULL;
	cr_expect(eq(int, count_lines("/proc/net/igmp6", "test0", "ff150000000000000000000000010002"), 0));
}

Test(membership, the_same_group_on_another_port_is_one_membership)
{
	const struct flow_rule first = rule_to("239.1.2.3", NULL, 1), second = rule_to("239.1.2.3", NULL, 2);
	const struct flow_rule third = rule_to("232.1.2.3", "10.0.0.1", 1),
			       fourth = rule_to("232.1.2.3", "10.0.0.1", 2);

	cr_expect(eq(int, membership_join(membership, test0, &first, NULL), 0));
	cr_expect(eq(int, membership_join(membership, test0, &second, NULL), 0));
	cr_expect(eq(int, membership_join(membership, test0, &third, NULL), 0));
	cr_expect(eq(int, membership_join(membership, test0, &fourth, NULL), 0));
	cr_expect(eq(int, has_group("239.1.2.3"), 1));
}

/* How many sockets want a group from everybody, by what the kernel says of each. */
static int count_any_source(const char *group)
{
	int n = 0;

	for (int fd = 3; fd < 64; fd++) {
		struct group_filter filter = {.gf_interface = test0};
		socklen_t bytes = sizeof(filter);
		struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(group)};

		memcpy(&filter.gf_group, &address, sizeof(address));
		if (getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &filter, &bytes) == 0)
			n += filter.gf_fmode == MCAST_EXCLUDE && filter.gf_numsrc == 0;
	}
	return n;
}

/* The kernel takes a socket's any-source membership away when a source of that group is asked for. */
Test(membership, a_source_does_not_narrow_a_group_joined_for_any)
{
	cr_assert(eq(int, join("239.1.2.3", NULL), 0));
	cr_assert(eq(int, join("239.1.2.3", "10.0.0.1"), 0));
	cr_expect(eq(int, count_any_source("239.1.2.3"), 1));
	cr_expect(eq(int, has_source("239.1.2.3", "10.0.0.1"), 1));
	membership_free(membership);
	cr_assert(eq(int, membership_new(&membership), 0));
	cr_assert(eq(int, join("239.1.2.3", "10.0.0.1"), 0));
	cr_expect(eq(int, count_any_source("239.1.2.3"), 0));
	cr_assert(eq(int, join("239.1.2.3", NULL), 0));
	cr_expect(eq(int, count_any_source("239.1.2.3"), 1));
}

Test(membership, more_groups_than_a_socket_takes_get_another)
{
	uint32_t before = count_sockets();
	char group[32];

	write_sysctl("/proc/sys/net/ipv4/igmp_max_memberships", "20");
	for (int i = 0; i < 50; i++) {
		snprintf(group, sizeof(group), "239.1.3.%d", i + 1);
		cr_assert(eq(int, join(group, NULL), 0));
	}
	for (int i = 0; i < 50; i++) {
		snprintf(group, sizeof(group), "239.1.3.%d", i + 1);
		cr_expect(eq(int, has_group(group), 1));
	}
	cr_expect(eq(u32, count_sockets() - before, 3));
	membership_free(membership);
	membership = NULL;
	cr_expect(eq(u32, count_sockets(), before));
}

Test(membership, more_sources_than_a_socket_takes_get_another)
{
	char source[32];

	write_sysctl("/proc/sys/net/ipv4/igmp_max_msf", "4");
	for (int i = 0; i < 10; i++) {
		snprintf(source, sizeof(source), "10.0.0.%d", i + 1);
		cr_assert(eq(int, join("232.1.2.3", source), 0));
	}
	for (int i = 0; i < 10; i++) {
		snprintf(source, sizeof(source), "10.0.0.%d", i + 1);
		cr_expect(eq(int, has_source("232.1.2.3", source), 1));
	}
}

Test(membership, many_ipv6_groups_go_past_the_option_memory_of_a_socket)
{
	char group[32], text[40];

	for (int i = 0; i < 3000; i++) {
		snprintf(group, sizeof(group), "ff15::%x", i + 1);
		cr_assert(eq(int, join(group, NULL), 0));
	}
	snprintf(text, sizeof(text), "ff15%028x", 3000);
	cr_expect(eq(int, count_lines("/proc/net/igmp6", "test0", text), 1));
}

Test(membership, a_limit_that_leaves_nothing_is_named)
{
	const struct flow_rule rule = rule_to("239.1.2.3", NULL, 7502);
	struct failure failure = {0};

	write_sysctl("/proc/sys/net/ipv4/igmp_max_memberships", "0");
	cr_assert(eq(int, membership_join(membership, test0, &rule, &failure), -ENOBUFS));
	cr_expect(eq(int, failure.exit_code, EX_OSERR));
	cr_expect(strstr(failure.text, "test0") && strstr(failure.text, "239.1.2.3:7502") &&
	                  strstr(failure.text, "net.ipv4.igmp_max_memberships") &&
	                  strstr(failure.text, "net.ipv4.igmp_max_msf"),
	          "%s", failure.text);
	write_sysctl("/proc/sys/net/ipv4/igmp_max_memberships", "20");
	cr_expect(eq(int, membership_join(membership, test0, &rule, &failure), 0), "a failed join can be tried again");
}

Test(membership, no_descriptor_left_is_named)
{
	const struct flow_rule rule = rule_to("239.1.2.3", NULL, 7502);
	struct rlimit before, none;
	struct failure failure = {0};
	int r;

	cr_assert(eq(int, getrlimit(RLIMIT_NOFILE, &before), 0));
	none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
	cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &none), 0));
	r = membership_join(membership, test0, &rule, &failure);
	cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &before), 0));
	cr_assert(eq(int, r, -EMFILE));
	cr_expect(strstr(failure.text, "LimitNOFILE") != NULL, "%s", failure.text);
}

Test(membership, an_interface_that_went_away_is_unavailable)
{
	const struct flow_rule rule = rule_to("239.1.2.3", NULL, 7502);
	struct failure failure = {0};

	cr_assert(eq(int, system("ip link del test0"), 0));
	cr_assert(eq(int, membership_join(membership, test0, &rule, &failure), -ENODEV));
	cr_expect(eq(int, failure.exit_code, EX_UNAVAILABLE));
}

Test(membership, an_interface_without_ipv6_is_said_to_be)
{
	const struct flow_rule rule = rule_to("ff15::1", NULL, 7502);
	struct failure failure = {0};

	cr_assert(eq(int, system("ip link set test0 mtu 1000"), 0));
	cr_assert(lt(int, membership_join(membership, test0, &rule, &failure), 0));
	cr_expect(strstr(failure.text, "MTU of 1280") != NULL, "%s", failure.text);
}

Test(membership, unicast_joins_nothing)
{
	struct flow_rule rule = rule_to("10.0.0.5", NULL, 7502);
	uint32_t before = count_sockets();

	rule.multicast = false;
	cr_expect(eq(int, membership_join(membership, test0, &rule, NULL), 0));
	cr_expect(eq(u32, count_sockets(), before));
	membership_free(NULL);
}
