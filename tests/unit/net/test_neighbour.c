// SPDX-License-Identifier: Apache-2.0
/* Next hops with a real kernel: a namespace of this process, and one with the other end of a veth pair. */
#include "daemon/net/neighbour.h"
#include "daemon/net/net.h"
#include "tests/unit/net/namespace.h"

#include <arpa/inet.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define PEER_MAC "02:00:00:00:0b:01"
#define WAIT_S   25

static pid_t peer_pid;
static int peer_hold;
static sd_event *event;
static struct neighbours *neighbours;
static struct neighbour *neighbour;
static struct next_hop now, worst; /* as told last; the last that was told and not ready */
static unsigned n_told;

__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char command[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	cr_assert(eq(int, system(command), 0), "%s", command);
}

#define run_peer(command, ...) run("nsenter -t %d -n " command, peer_pid, ##__VA_ARGS__)

/* A process that keeps the other namespace until the pipe's end here is closed, however this one ends. */
static void begin_peer(void)
{
	int hold[2], ready[2];
	char byte;

	cr_assert(eq(int, pipe(hold) | pipe(ready), 0));
	peer_pid = fork();
	cr_assert(ge(int, peer_pid, 0));
	if (peer_pid == 0) {
		close(hold[1]);
		if (unshare(CLONE_NEWNET) == 0 && write(ready[1], "x", 1) == 1)
			_exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
		_exit(1);
	}
	close(hold[0]);
	close(ready[1]);
	cr_assert(eq(sz, (size_t)read(ready[0], &byte, 1), 1));
	close(ready[0]);
	peer_hold = hold[1];
	fcntl(peer_hold, F_SETFD, FD_CLOEXEC);
}

static void begin(void)
{
	struct failure failure = {0};

	enter_namespace();
	begin_peer();
	run("ip link set test1 netns %d", peer_pid);
	run("ip address add 10.0.0.1/24 dev test0 && ip -6 address add fd00::1/64 dev test0 nodad");
	run_peer("ip link set test1 address " PEER_MAC " mtu 9000 up");
	run_peer("ip address add 10.0.0.2/24 dev test1");
	run_peer("ip -6 address add fd00::2/64 dev test1 nodad");
	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, neighbours_new(&neighbours, event, &failure), 0), "%s", failure.text);
}

static void end(void)
{
	neighbours_remove(neighbour);
	neighbours_free(neighbours);
	sd_event_unref(event);
	if (peer_pid > 0) {
		close(peer_hold);
		waitpid(peer_pid, NULL, 0);
	}
}

TestSuite(neighbour, .init = begin, .fini = end, .timeout = 120);

static void changed(void *context, const struct next_hop *next_hop)
{
	cr_expect(eq(ptr, context, &now));
	now = *next_hop;
	n_told++;
	if (now.state != NEXT_HOP_READY)
		worst = now;
}

static struct config_address address_of(const char *text)
{
	struct config_address address = {.family = strchr(text, ':') ? AF_INET6 : AF_INET};

	cr_assert(eq(int, inet_pton(address.family, text, address.address), 1));
	return address;
}

static void want(const char *destination, const char *source, const uint8_t *mac)
{
	struct neighbour_wanted wanted = {
		.interface_index = if_nametoindex("test0"),
		.destination = address_of(destination),
		.source = source ? address_of(source) : (struct config_address){.family = AF_UNSPEC},
		.has_mac = mac != NULL,
		.changed = changed,
		.context = &now,
	};

	if (mac)
		memcpy(wanted.mac, mac, sizeof(wanted.mac));
	cr_assert(eq(int, neighbours_add(neighbours, &wanted, &neighbour), 0));
	now = *neighbour_next_hop(neighbour);
}

static bool has_mac(const char *mac)
{
	uint8_t bytes[6];

	cr_assert(eq(int,
	             sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &bytes[0], &bytes[1], &bytes[2], &bytes[3], &bytes[4],
	                    &bytes[5]),
	             6));
	return now.state == NEXT_HOP_READY && memcmp(now.mac, bytes, sizeof(bytes)) == 0;
}

static bool is_from(const char *source)
{
	struct config_address address = address_of(source);

	return memcmp(&now.source, &address, sizeof(address)) == 0;
}

static bool is_state(enum next_hop_state state)
{
	return now.state == state;
}

static double seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void expect_in_time(bool is_so, const char *what)
{
	char text[256];

	cr_assert(is_so, "not so: %s: %s", what, next_hop_explain(&now, "test0", text, sizeof(text)));
}

/* Run the loop until it is so. */
#define wait_for(condition)                                                \
	do {                                                               \
		double deadline = seconds() + WAIT_S;                      \
		while (!(condition) && seconds() < deadline)               \
			cr_assert(ge(int, sd_event_run(event, 50000), 0)); \
		expect_in_time(condition, #condition);                     \
	} while (0)

/* ---- who is asked for ------------------------------------------------------------------------------ */

Test(neighbour, on_the_link_is_asked_for_itself)
{
	struct config_address address = address_of("10.0.0.2");

	want("10.0.0.2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	cr_expect(is_from("10.0.0.1"));
	cr_expect(memcmp(&now.address, &address, sizeof(address)) == 0);
	cr_expect(eq(u32, now.mtu, 9000));
	cr_expect(eq(u32, now.source_mac[5], 0x01));
	cr_expect(eq(u32, now.source_mac[4], 0x0a));
}

Test(neighbour, ipv6_on_the_link_is_asked_for_itself)
{
	want("fd00::2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	cr_expect(is_from("fd00::1"));
}

Test(neighbour, behind_a_gateway_the_gateway_is_and_a_change_of_route_is_followed)
{
	struct config_address gateway = address_of("10.0.0.2");

	run("ip route add 192.168.0.0/16 via 10.0.0.2");
	want("192.168.7.7", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	cr_expect(memcmp(&now.address, &gateway, sizeof(gateway)) == 0);
	run("ip neigh replace 10.0.0.3 lladdr 02:00:00:00:33:33 nud permanent dev test0");
	run("ip route replace 192.168.0.0/16 via 10.0.0.3");
	wait_for(has_mac("02:00:00:00:33:33"));
	run("ip route replace 192.168.0.0/16 via inet6 fd00::2 dev test0");
	wait_for(has_mac(PEER_MAC));
	cr_expect(eq(int, now.address.family, AF_INET6));
}

Test(neighbour, a_mac_that_changes_is_followed)
{
	want("10.0.0.2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	run_peer("ip link set test1 address 02:00:00:00:0b:02");
	/* The kernel takes a new one from an ARP request, but not within a second of the last. */
	for (int i = 0; i < 20 && !has_mac("02:00:00:00:0b:02"); i++) {
		double until = seconds() + 0.5;

		run_peer("sh -c 'ip neigh flush dev test1; ping -q -c 1 -W 1 10.0.0.1 >/dev/null || true'");
		while (!has_mac("02:00:00:00:0b:02") && seconds() < until)
			cr_assert(ge(int, sd_event_run(event, 50000), 0));
	}
	cr_expect(has_mac("02:00:00:00:0b:02"));
}

Test(neighbour, one_that_never_answers_is_said_to_and_asked_for_again_without_a_busy_loop)
{
	struct rusage before, after;
	unsigned rounds = 0;
	char text[256];

	want("10.0.0.99", NULL, NULL);
	wait_for(is_state(NEXT_HOP_ASKED_FOR));
	wait_for(is_state(NEXT_HOP_NO_ANSWER));
	next_hop_explain(&now, "test0", text, sizeof(text));
	cr_expect(strstr(text, "10.0.0.99") && strstr(text, "next_hop_mac"), "%s", text);
	n_told = 0;
	getrusage(RUSAGE_SELF, &before);
	for (double until = seconds() + 7; seconds() < until; rounds++)
		cr_assert(ge(int, sd_event_run(event, 1000000), 0));
	getrusage(RUSAGE_SELF, &after);
	cr_expect(lt(u32, rounds, 200));
	cr_expect(lt(int, (int)(after.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_utime.tv_sec), 2));
	cr_expect(eq(u32, n_told, 0), "it is the same as before");
	run_peer("ip address add 10.0.0.99/24 dev test1");
	wait_for(has_mac(PEER_MAC));
}

Test(neighbour, one_that_the_kernel_forgets_stays_in_use_while_it_is_asked_for_again)
{
	want("10.0.0.2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	memset(&worst, 0, sizeof(worst));
	run("ip neigh del 10.0.0.2 dev test0");
	for (int i = 0; i < 100 && system("ip neigh show 10.0.0.2 dev test0 | grep -q " PEER_MAC) != 0; i++)
		cr_assert(ge(int, sd_event_run(event, 50000), 0));
	run("ip neigh show 10.0.0.2 dev test0 | grep -q " PEER_MAC);
	cr_expect(eq(int, worst.state, NEXT_HOP_READY));
	cr_expect(has_mac(PEER_MAC));
}

Test(neighbour, one_that_the_kernel_cannot_be_made_to_ask_for_is_given_up)
{
	if (system("nft add table inet t && nft 'add chain inet t out { type filter hook output priority 0; }' && "
	           "nft add rule inet t out udp dport 9 drop") != 0)
		cr_skip_test("no packet filter to be had here");
	run("ip neigh replace 10.0.0.2 lladdr " PEER_MAC " nud reachable dev test0");
	want("10.0.0.2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	run("ip neigh del 10.0.0.2 dev test0");
	for (double until = seconds() + 3; seconds() < until;)
		cr_assert(ge(int, sd_event_run(event, 100000), 0));
	cr_expect(has_mac(PEER_MAC));
	wait_for(is_state(NEXT_HOP_NO_ANSWER));
	run("nft delete table inet t");
	wait_for(has_mac(PEER_MAC));
}

/* ---- the link, addresses, routes ------------------------------------------------------------------- */

Test(neighbour, a_link_that_goes_down_and_comes_back_is_followed)
{
	want("10.0.0.2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	run("ip link set test0 down");
	wait_for(is_state(NEXT_HOP_LINK_DOWN));
	run("ip link set test0 up");
	wait_for(has_mac(PEER_MAC));
	run_peer("ip link set test1 down");
	wait_for(is_state(NEXT_HOP_LINK_DOWN));
	run_peer("ip link set test1 up");
	wait_for(has_mac(PEER_MAC));
	run("ip link del test0");
	wait_for(is_state(NEXT_HOP_LINK_DOWN));
}

Test(neighbour, the_interfaces_address_mac_and_mtu_are_followed)
{
	want("239.1.2.3", NULL, NULL);
	wait_for(has_mac("01:00:5e:01:02:03"));
	cr_expect(is_from("10.0.0.1"));
	run("ip address add 10.0.9.1/24 dev test0 && ip address del 10.0.0.1/24 dev test0");
	wait_for(is_from("10.0.9.1"));
	run("ip link set test0 mtu 1400");
	wait_for(now.mtu == 1400);
	run("ip link set test0 address 02:00:00:00:0a:77");
	wait_for(now.source_mac[5] == 0x77);
	run("ip address flush dev test0");
	wait_for(!is_state(NEXT_HOP_READY));
	cr_expect(is_state(NEXT_HOP_NO_SOURCE) || is_state(NEXT_HOP_NO_ROUTE));
	run("ip address add 10.0.8.1/24 dev test0");
	wait_for(is_from("10.0.8.1"));
}

Test(neighbour, a_route_that_goes_and_comes_is_followed)
{
	run("ip -6 route add 2001:db8::/64 via fd00::2");
	want("2001:db8::1", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	run("ip -6 route del 2001:db8::/64");
	wait_for(is_state(NEXT_HOP_NO_ROUTE));
	run("ip -6 route add 2001:db8::/64 via fd00::2");
	wait_for(has_mac(PEER_MAC));
}

Test(neighbour, what_is_no_other_host_is_refused)
{
	want("10.0.0.255", NULL, NULL);
	wait_for(is_state(NEXT_HOP_NOT_A_HOST));
	neighbours_remove(neighbour);
	want("10.0.0.1", NULL, NULL);
	wait_for(is_state(NEXT_HOP_NOT_A_HOST));
}

/* ---- nobody is asked for ---------------------------------------------------------------------------- */

Test(neighbour, groups_and_a_given_mac_need_none)
{
	static const uint8_t mac[6] = {0x02, 0, 0, 0, 0x0c, 0x01};

	run("ip address flush dev test0");
	want("ff15::1:2", "fd00::7", NULL);
	wait_for(has_mac("33:33:00:01:00:02"));
	cr_expect(is_from("fd00::7"));
	neighbours_remove(neighbour);
	want("239.129.2.3", "10.0.0.7", NULL);
	wait_for(has_mac("01:00:5e:01:02:03"));
	neighbours_remove(neighbour);
	want("172.16.0.1", "10.0.0.7", mac);
	wait_for(has_mac("02:00:00:00:0c:01"));
	run("test -z \"$(ip neigh show dev test0 172.16.0.1)\"");
	run("ip link set test0 down");
	wait_for(is_state(NEXT_HOP_LINK_DOWN));
	run("ip link set test0 up");
	wait_for(has_mac("02:00:00:00:0c:01"));
}

/* ---- bounds ----------------------------------------------------------------------------------------- */

Test(neighbour, no_privilege_is_needed)
{
	cr_assert(eq(int, setresgid(65534, 65534, 65534), 0));
	cr_assert(eq(int, setresuid(65534, 65534, 65534), 0));
	struct neighbours *own;

	cr_assert(eq(int, neighbours_new(&own, event, NULL), 0));
	neighbours_free(neighbours);
	neighbours = own;
	want("10.0.0.2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
}

Test(neighbour, many_are_looked_up_in_rounds_and_a_storm_of_events_is_not_looked_up_each)
{
	struct neighbour_wanted wanted = {.interface_index = if_nametoindex("test0"),
	                                  .destination = address_of("10.0.0.2"),
	                                  .changed = changed,
	                                  .context = &now};
	struct neighbour *many[300];
	unsigned rounds = 0;
	double until;

	for (int i = 0; i < 300; i++)
		cr_assert(eq(int, neighbours_add(neighbours, &wanted, &many[i]), 0));
	for (int i = 0; i < 300; i++)
		wait_for(neighbour_next_hop(many[i])->state == NEXT_HOP_READY);
	run("for i in $(seq 100); do echo route add 172.16.$i.0/24 via 10.0.0.2; done | ip -batch -");
	for (until = seconds() + 1; seconds() < until; rounds++)
		cr_assert(ge(int, sd_event_run(event, 100000), 0));
	cr_expect(lt(u32, rounds, 150));
	run("ip link set test0 down");
	for (int i = 0; i < 300; i++)
		wait_for(neighbour_next_hop(many[i])->state == NEXT_HOP_LINK_DOWN);
	for (int i = 0; i < 300; i++)
		neighbours_remove(many[i]);
}

Test(neighbour, an_address_of_this_machine_is_known_for_one)
{
	const struct config_address own = address_of("10.0.0.1"), other = address_of("10.0.0.2"),
				    own6 = address_of("fd00::1"), other6 = address_of("fd00::2");
	unsigned index = if_nametoindex("test0");

	cr_expect(net_has_address(index, &own) && net_has_address(index, &own6));
	cr_expect(not(net_has_address(index, &other) || net_has_address(index, &other6)));
}

/* ---- rtnl is held ---------------------------------------------------------------------------------- */

static _Atomic bool is_rtnl_held, waits_for_rtnl;

/* A request of another thread waits, as in the kernel, which takes rtnl within sendmsg(). */
ssize_t mnl_socket_sendto(const struct mnl_socket *socket, const void *bytes, size_t n)
{
	ssize_t (*real)(const struct mnl_socket *, const void *, size_t) = dlsym(RTLD_NEXT, "mnl_socket_sendto");

	for (; is_rtnl_held; usleep(1000)) {
		cr_assert(ne(int, gettid(), getpid()), "the event loop waits for rtnl");
		waits_for_rtnl = true;
	}
	return real(socket, bytes, n);
}

Test(neighbour, the_event_loop_goes_on_while_rtnl_is_held)
{
	want("10.0.0.2", NULL, NULL);
	wait_for(has_mac(PEER_MAC));
	is_rtnl_held = true;
	run("ip link set test0 mtu 1400");
	wait_for(waits_for_rtnl);
	cr_expect(has_mac(PEER_MAC) && now.mtu != 1400, "what was known stays");
	is_rtnl_held = false;
	wait_for(now.mtu == 1400);

	waits_for_rtnl = false;
	is_rtnl_held = true;
	run("ip link set test0 mtu 1300");
	wait_for(waits_for_rtnl);
	neighbours_remove(neighbour);
	neighbour = NULL;
	is_rtnl_held = false;
	n_told = 0;
	for (double until = seconds() + 0.3; seconds() < until;)
		cr_assert(ge(int, sd_event_run(event, 50000), 0));
	cr_expect(eq(u32, n_told, 0), "of one that was removed");
}
