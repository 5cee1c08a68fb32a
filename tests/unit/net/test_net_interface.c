// SPDX-License-Identifier: Apache-2.0
/* Reading interfaces, their statistics and local addresses in a network namespace of its own. */
#include "daemon/net/net.h"
#include "tests/support/own_ioctl.h"
#include "tests/unit/net/namespace.h"

#include <arpa/inet.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

TestSuite(interface, .init = enter_namespace, .timeout = 30);

Test(interface, tells_index_mtu_and_mac)
{
	const uint8_t mac[6] = {0x02, 0, 0, 0, 0x0a, 0x01};
	struct net_interface interface;

	cr_assert(eq(int, net_interface_read("test0", &interface, NULL), 0));
	cr_expect(eq(uint, interface.index, if_nametoindex("test0")));
	cr_expect(eq(u32, interface.mtu, 9000));
	cr_expect(memcmp(interface.mac, mac, sizeof(mac)) == 0);
}

Test(interface, up_is_the_administrators_word_and_running_the_carrier)
{
	struct net_interface interface;

	cr_assert(eq(int, net_interface_read("test0", &interface, NULL), 0));
	cr_expect(interface.up);
	cr_expect(not(interface.running), "its peer is down");
	cr_assert(eq(int, net_interface_read("test1", &interface, NULL), 0));
	cr_expect(not(interface.up));
	cr_assert(eq(int, system("ip link set test1 up"), 0));
	/* The operational state follows in a work queue. */
	for (int i = 0; i < 200 && !interface.running; i++) {
		usleep(10000);
		cr_assert(eq(int, net_interface_read("test0", &interface, NULL), 0));
	}
	cr_expect(interface.running);
}

Test(interface, one_that_is_not_there_lists_those_that_are)
{
	struct net_interface interface = {.mtu = 7};
	struct failure failure = {0};

	cr_assert(eq(int, net_interface_read("nonesuch", &interface, &failure), -ENODEV));
	cr_expect(eq(int, failure.exit_code, EX_UNAVAILABLE));
	cr_expect(strstr(failure.text, "nonesuch") && strstr(failure.text, "test0") && strstr(failure.text, "test1") &&
	                  strstr(failure.text, "lo"),
	          "%s", failure.text);
	cr_expect(eq(u32, interface.mtu, 7));
	cr_expect(eq(int, net_interface_read("nonesuch", &interface, NULL), -ENODEV));
}

Test(interface, a_name_too_long_is_not_cut_to_another)
{
	struct net_interface interface;
	struct failure failure = {0};

	cr_assert(eq(int, system("ip link add abcdefghijklmno type veth peer name peer0"), 0));
	cr_assert(eq(int, net_interface_read("abcdefghijklmno", &interface, &failure), 0));
	cr_assert(eq(int, net_interface_read("abcdefghijklmnop", &interface, &failure), -ENODEV));
	cr_expect(strstr(failure.text, "abcdefghijklmnop") != NULL, "%s", failure.text);
}

Test(interface, a_list_of_many_is_cut_and_says_so)
{
	struct net_interface interface;
	struct failure failure = {0};
	char command[128];

	for (int i = 0; i < 40; i++) {
		snprintf(command, sizeof(command), "ip link add long_name_a_%02d type veth peer name long_name_b_%02d",
		         i, i);
		cr_assert(eq(int, system(command), 0));
	}
	cr_assert(eq(int, net_interface_read("nonesuch", &interface, &failure), -ENODEV));
	cr_expect(lt(sz, strlen(failure.text), sizeof(failure.text) - 1));
	cr_expect(strcmp(failure.text + strlen(failure.text) - strlen(", …"), ", …") == 0, "%s", failure.text);
}

Test(interface, statistics_are_found_by_patterns_of_their_names)
{
	uint64_t peer = 0, sum = 7;

	/* veth's own: the index of the other end. */
	cr_assert(eq(int, net_sum_statistics("test0", (const char *[]){"peer_ifindex", NULL}, &peer), 0));
	cr_expect(eq(u64, peer, if_nametoindex("test1")));
	/* Not the first of the list. */
	cr_assert(eq(int, net_sum_statistics("test0", (const char *[]){"rx_queue_*_drops", NULL}, &sum), 0));
	cr_expect(eq(u64, sum, 0));
	/* One that two patterns match counts once; one that none matches does not. */
	cr_assert(eq(int, net_sum_statistics("test0", (const char *[]){"nonesuch", "peer_if*", "[op]eer*", NULL}, &sum),
	             0));
	cr_expect(eq(u64, sum, peer));
	cr_expect(
		eq(int, net_sum_statistics("test0", (const char *[]){"peer", "peer_ifindex_", NULL}, &sum), -ENOTSUP));
	cr_expect(eq(u64, sum, peer));
}

Test(interface, a_driver_without_discards_says_so)
{
	uint64_t discards = 7;

	cr_expect(eq(int, net_port_discards("test0", &discards), -ENOTSUP));
	cr_expect(eq(int, net_port_discards("lo", &discards), -ENOTSUP));
	cr_expect(eq(int, net_port_discards("nonesuch", &discards), -ENODEV));
	cr_expect(eq(u64, discards, 7));
}

/* ---- precision clocks ----------------------------------------------------------------------------- */

/* What test0's driver says in place of its own. */
static struct {
	int clock;         /* -1: its own driver answers */
	bool can_all;      /* it can stamp all packets */
	bool takes_less;   /* asked for all, it stamps some and says so */
	int filter;        /* which it stamps */
	int transmit;      /* likewise of those that are sent */
	unsigned n_writes; /* of the setting */
} card = {.clock = -1};

static int card_take_setting(struct hwtstamp_config *wanted)
{
	card.n_writes++;
	if (card.takes_less && wanted->rx_filter == HWTSTAMP_FILTER_ALL)
		wanted->rx_filter = HWTSTAMP_FILTER_PTP_V2_EVENT;
	card.filter = wanted->rx_filter;
	card.transmit = wanted->tx_type;
	return 0;
}

/* In place of the C library's. */
static int answer_ioctl(int fd, unsigned long request, struct ifreq *argument)
{
	struct ethtool_ts_info *info = asked_ts_info(request, argument);

	if (card.clock >= 0 && request == SIOCSHWTSTAMP)
		return card_take_setting((struct hwtstamp_config *)argument->ifr_data);
	if (card.clock >= 0 && request == SIOCGHWTSTAMP) {
		*(struct hwtstamp_config *)argument->ifr_data =
			(struct hwtstamp_config){.rx_filter = card.filter, .tx_type = card.transmit};
		return 0;
	}
	if (!info || card.clock < 0)
		return real_ioctl(fd, request, argument);
	cr_expect(strcmp(argument->ifr_name, "test0") == 0);
	info->phc_index = card.clock;
	info->so_timestamping = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	info->rx_filters = 1U << HWTSTAMP_FILTER_NONE | (card.can_all ? 1U << HWTSTAMP_FILTER_ALL : 0);
	return 0;
}

/* The test's process has the mount for itself. */
Test(interface, one_of_another_namespace_with_its_name_and_number_is_not_taken_for_it_in_sysfs)
{
	unsigned index = if_nametoindex("test0");

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		cr_skip_test("no mounts of its own to be had here");
	cr_expect_not(net_is_in_sysfs("test0"), "it shows the interfaces of the namespace that this process left");
	if (mount("sysfs", "/sys", "sysfs", 0, NULL) < 0)
		cr_skip_test("no sysfs of its own to be had here");
	cr_expect(net_is_in_sysfs("test0"));
	cr_expect(net_is_in_sysfs("lo"));
	cr_expect_not(net_is_in_sysfs("nonesuch"));
	enter_namespace();
	cr_assert(eq(uint, if_nametoindex("test0"), index));
	cr_assert(eq(int, system("ip link set test0 address 02:00:00:00:0a:02"), 0));
	cr_expect_not(net_is_in_sysfs("test0"));
	cr_assert(eq(int, system("ip link del test0 && ip link add test9 type veth peer name test0"), 0));
	cr_expect_not(net_is_in_sysfs("test0"), "another number");
}

Test(interface, the_driver_names_a_precision_clock_that_sysfs_does_not_have)
{
	char path[NET_CLOCK_PATH_BYTES];

	cr_expect(eq(int, net_precision_clock_open("test0", path), -ENOENT));
	cr_expect(strcmp(path, "") == 0);
	card.clock = 4712;
	cr_expect(eq(int, net_precision_clock_open("test0", path), -ENOENT));
	cr_expect(strcmp(path, "/dev/ptp4712") == 0, "%s", path);
}

Test(interface, a_card_stamps_all_packets_or_can_or_cannot)
{
	cr_expect(eq(int, (int)net_stamping_read("test0"), NET_STAMPING_NONE), "a veth pair");
	card.clock = 4712;
	card.filter = HWTSTAMP_FILTER_PTP_V2_EVENT;
	cr_expect(eq(int, (int)net_stamping_read("test0"), NET_STAMPING_NONE));
	card.can_all = true;
	cr_expect(eq(int, (int)net_stamping_read("test0"), NET_STAMPING_OFF));
	card.filter = HWTSTAMP_FILTER_ALL;
	cr_expect(eq(int, (int)net_stamping_read("test0"), NET_STAMPING_ALL));
}

Test(interface, the_filter_of_another_program_is_widened_or_left_as_it_is)
{
	card.clock = 4712;
	card.can_all = true;
	card.filter = HWTSTAMP_FILTER_PTP_V2_EVENT;
	card.transmit = HWTSTAMP_TX_ON;
	cr_expect(eq(int, net_stamping_switch_on("test0"), 0));
	cr_expect(eq(int, card.filter, HWTSTAMP_FILTER_ALL));
	cr_expect(eq(int, card.transmit, HWTSTAMP_TX_ON), "packets to be sent are stamped as before");
	card.filter = HWTSTAMP_FILTER_PTP_V1_L4_EVENT;
	card.takes_less = true;
	cr_expect(eq(int, net_stamping_switch_on("test0"), -ERANGE));
	cr_expect(eq(int, card.filter, HWTSTAMP_FILTER_PTP_V1_L4_EVENT));
}

/* ---- addresses ------------------------------------------------------------------------------------- */

static struct config_address address_of(const char *text)
{
	struct config_address address = {.family = strchr(text, ':') ? AF_INET6 : AF_INET};

	cr_assert(eq(int, inet_pton(address.family, text, address.address), 1));
	return address;
}

static struct net_address_location find(const char *text)
{
	const struct config_address address = address_of(text);
	struct net_address_location place;

	cr_assert(eq(int, net_find_address(&address, "test0", &place), 0));
	return place;
}

Test(interface, an_address_is_found_on_any_interface_or_on_none)
{
	struct net_address_location place;

	cr_assert(eq(
		int,
		system("ip address add 10.9.0.1/24 dev test0 && ip address add 10.9.0.2/24 dev test0 label test0:b && "
	               "ip address add 10.8.0.1/24 dev test1 && ip address add fd00::1/64 dev test0 nodad"),
		0));
	place = find("10.9.0.1");
	cr_expect(place.is_here);
	cr_expect(eq(str, place.addresses, (char *)"10.9.0.1, 10.9.0.2"));
	cr_expect(find("10.9.0.2").is_here, "an address with a label");
	cr_expect(find("fd00::1").is_here);
	cr_expect(find("127.0.0.1").is_here);
	cr_expect(find("10.8.0.1").is_here, "the kernel answers for it at every interface");
	cr_expect(not(find("10.9.0.77").is_here));
	cr_expect(strstr(find("fd00::2").addresses, "fd00::1") != NULL);
	for (int i = 0; i < 20; i++) {
		char command[64];

		snprintf(command, sizeof(command), "ip address add 10.9.100.%d/24 dev test0", i + 1);
		cr_assert(eq(int, system(command), 0));
	}
	place = find("10.9.100.20");
	cr_expect(place.is_here);
	cr_expect(lt(sz, strlen(place.addresses), sizeof(place.addresses)));
}
