// SPDX-License-Identifier: Apache-2.0
/* How the packet backend opens an interface: which it can, what it does without programs, and what it says of both. */
#include "tests/unit/backend/packet_kernel.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_arp.h>
#include <string.h>
#include <sys/ioctl.h>

static struct failure failure;

static const struct backend_open_options open_options = {.interface = "test0"};

TestSuite(packet_open, .init = set_up_kernel);

static struct af_packet *must_open(struct backend_capabilities *capabilities)
{
	struct backend *opened = NULL;

	cr_assert(eq(int, af_packet_ops.open(&open_options, &opened, &failure), 0), "%s", failure.text);
	af_packet_ops.capabilities(opened, capabilities);
	return (struct af_packet *)opened;
}

Test(packet_open, an_interface_carries_ethernet_frames_or_bare_ip_packets)
{
	static const struct {
		unsigned type;
		int result; /* 1: with Ethernet headers */
	} types[] = {
		{ARPHRD_ETHER, 1},
		{ARPHRD_LOOPBACK, 1},
		{ARPHRD_NONE, 0},
		{ARPHRD_RAWIP, 0},
		{ARPHRD_PPP, 0},
		{ARPHRD_TUNNEL, 0},
		{ARPHRD_TUNNEL6, 0},
		{ARPHRD_SIT, 0},
		{ARPHRD_IPGRE, 0},
		{ARPHRD_IP6GRE, 0},
		{ARPHRD_INFINIBAND, -EPROTONOSUPPORT},
		{ARPHRD_CAN, -EPROTONOSUPPORT},
		{ARPHRD_IEEE80211_RADIOTAP, -EPROTONOSUPPORT},
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct backend_capabilities capabilities;
		struct backend *opened = NULL;
		unsigned n_open = count_open_fds();
		int r;

		kernel.hardware_type = types[i].type;
		r = af_packet_ops.open(&open_options, &opened, &failure);
		cr_expect(eq(int, r, types[i].result < 0 ? types[i].result : 0), "type %u", types[i].type);
		if (r < 0) {
			cr_expect(eq(uint, count_open_fds(), n_open), "type %u", types[i].type);
			cr_expect(strstr(failure.text, "neither Ethernet frames nor bare IP") != NULL, "%s",
			          failure.text);
			continue;
		}
		af_packet_ops.capabilities(opened, &capabilities);
		cr_expect(eq(int, capabilities.no_vlans, !types[i].result));
		cr_expect(eq(int, capabilities.send_checksums, types[i].result));
		cr_expect(eq(str, capabilities.device, (char *)"test0"));
		cr_expect(eq(int, ((struct af_packet *)opened)->index, 77));
		cr_expect(eq(u8, ((struct af_packet *)opened)->mac[5], 12));
		af_packet_ops.close(opened);
		cr_expect(eq(uint, count_open_fds(), n_open), "type %u", types[i].type);
	}
}

Test(packet_open, an_interface_that_cannot_be_asked_is_not_opened)
{
	static const unsigned long requests[] = {SIOCGIFHWADDR, SIOCGIFINDEX};

	for (int i = 0; i < 2; i++) {
		struct backend *opened = NULL;
		unsigned n_open = count_open_fds();

		kernel.fail_ioctl = requests[i];
		kernel.ioctl_error = ENODEV;
		cr_expect(eq(int, af_packet_ops.open(&open_options, &opened, &failure), -ENODEV));
		cr_expect(eq(int, failure.exit_code, EX_UNAVAILABLE));
		cr_expect(eq(ptr, (void *)opened, NULL));
		cr_expect(eq(uint, count_open_fds(), n_open));
	}
	kernel.fail_ioctl = 0;
	for (int i = 0; i < 2; i++) {
		struct backend *opened = NULL;

		kernel_fail_after(i);
		cr_expect(eq(int, af_packet_ops.open(&open_options, &opened, &failure), i ? -EMFILE : -ENOMEM));
	}
}

Test(packet_open, whether_the_kernel_handles_the_packets_too_is_said_with_the_reason)
{
	static const struct {
		int load, drop, join;
		const char *words;
		bool has_program, drops;
	} programs[] = {
		{0, 0, 0, "(tcx drop)", true, true},
		{-EPERM, 0, 0, "takes CAP_BPF and CAP_NET_ADMIN", false, false},
		{-ENOMEM, 0, 0, "no program today", false, false},
		{0, -EOPNOTSUPP, 0, "takes Linux 6.6 or later", true, false},
		{0, -EBUSY, 0, "no tcx today", true, false},
		{0, 0, EINVAL, "the interface is down", false, false},
		{0, 0, ENOSPC, "No space left", false, false},
	};

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		struct backend_capabilities capabilities;
		unsigned n_open = count_open_fds();
		struct af_packet *opened;

		kernel.program_load_result = programs[i].load;
		kernel.program_drop_result = programs[i].drop;
		kernel.fail_setsockopt_of = programs[i].join ? PACKET_FANOUT : 0;
		kernel.setsockopt_error = programs[i].join;
		opened = must_open(&capabilities);
		cr_expect(strstr(capabilities.how, programs[i].words) != NULL, "%s", capabilities.how);
		cr_expect(eq(int, opened->program != NULL, programs[i].has_program), "%zu", i);
		cr_expect(eq(int, opened->drops, programs[i].drops), "%zu", i);
		cr_expect(eq(int, opened->fanout.n > 0, programs[i].has_program), "%zu", i);
		cr_expect(eq(int, capabilities.hashes_addresses, programs[i].has_program), "%zu", i);
		cr_expect(eq(int, kernel.n_loaded, programs[i].has_program), "%zu", i);
		af_packet_ops.close(&opened->base);
		cr_expect(eq(int, kernel.n_loaded, 0));
		cr_expect(eq(uint, count_open_fds(), n_open), "%zu", i);
	}
}

Test(packet_open, without_a_program_more_than_two_queues_are_a_group_by_a_classic_filter_if_they_can)
{
	struct backend_open_options options = open_options;
	struct backend *opened;

	kernel.program_load_result = -EPERM;
	memset(options.slots, 0, sizeof(options.slots));
	for (int n = 1; n < 5; n++) {
		options.slots[n - 1] = 64;
		kernel_forget_calls();
		cr_assert(eq(int, af_packet_ops.open(&options, &opened, &failure), 0));
		cr_expect(eq(int, ((struct af_packet *)opened)->fanout.n > 0, n > 2));
		cr_expect(eq(int, kernel_count(-1, PACKET_FANOUT), n > 2));
		af_packet_ops.close(opened);
	}
	kernel.fail_setsockopt_of = PACKET_FANOUT_DATA;
	cr_assert(eq(int, af_packet_ops.open(&options, &opened, &failure), 0));
	cr_expect(eq(u32, ((struct af_packet *)opened)->fanout.n, 0));
	af_packet_ops.close(opened);
}

Test(packet_open, its_capabilities_and_its_port)
{
	struct backend_port_statistics statistics;
	struct backend_capabilities capabilities;
	struct af_packet *opened = must_open(&capabilities);

	cr_expect(eq(ptr, (void *)opened->base.ops, (void *)&af_packet_ops));
	cr_expect(eq(u32, capabilities.max_queue_slots, 65536));
	cr_expect(eq(u32, capabilities.max_send_slots, 65536));
	cr_expect(eq(u32, capabilities.max_group_queues, CONFIG_QUEUES_MAX));
	cr_expect(capabilities.oversize_sink && capabilities.flow_tags && capabilities.counts_drops);
	cr_expect(capabilities.naps);
	cr_expect(not(capabilities.toeplitz));
	cr_expect(ge(u64, capabilities.settle_ns, 11000000), "a clock tick of the kernel");
	cr_expect(eq(int, af_packet_ops.read_port(&opened->base, &statistics), 0));
	cr_expect(statistics.port_active);
	af_packet_ops.close(&opened->base);
}
