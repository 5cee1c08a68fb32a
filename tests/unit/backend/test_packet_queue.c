// SPDX-License-Identifier: Apache-2.0
/* A receive queue of the packet backend: what it asks of its socket, which of these calls may fail, what it counts. */
#include "tests/unit/backend/packet_kernel.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/net_tstamp.h>
#include <string.h>
#include <sys/socket.h>

static struct af_packet backend;
static struct backend_queue_options options;
static struct backend_queue *queue;
static struct failure failure;

static void set_up(void)
{
	set_up_kernel();
	make_packet_backend(&backend);
	options = packet_queue_options();
	queue = NULL;
}

static void tear_down(void)
{
	kernel_fail_after(-1);
	while (backend.queues)
		af_packet_receive_free(&backend.queues->queue.base);
}

TestSuite(packet_queue, .init = set_up, .fini = tear_down);

static int create(void)
{
	return af_packet_create_queue(&backend.base, &options, &queue, &failure);
}

static void expect_names(const int *names, int n)
{
	cr_assert(eq(int, kernel.n_calls, n));
	for (int i = 0; i < n; i++)
		cr_expect(eq(int, kernel.calls[i].name, names[i]), "call %d", i);
}

/* ---- set-up ----------------------------------------------------------------------------------------- */

Test(packet_queue, no_packet_passes_before_the_filter_and_none_that_this_host_sends)
{
	static const int names[] = {PACKET_VNET_HDR, SO_RCVBUFFORCE,   PACKET_COPY_THRESH,     PACKET_VERSION,
	                            PACKET_RX_RING,  SO_ATTACH_FILTER, PACKET_IGNORE_OUTGOING, KERNEL_BIND};
	static const int n = sizeof(names) / sizeof(names[0]);
	const struct sockaddr_ll *address;

	cr_assert(eq(int, create(), 0), "%s", failure.text);
	expect_names(names, n);
	for (int i = 0; i < n - 1; i++)
		cr_expect(eq(int, kernel.calls[i].level, i == 1 || i == 5 ? SOL_SOCKET : SOL_PACKET), "call %d", i);
	cr_expect(eq(int, kernel.calls[0].value, 1));
	cr_expect(eq(int, kernel.calls[2].value, 1));
	cr_expect(eq(int, kernel.calls[3].value, TPACKET_V2));
	cr_expect(eq(int, kernel.calls[5].filter_n, 1));
	cr_expect(eq(u32, kernel.calls[5].filter_begin[0].k, 0), "without a flow it takes nothing");
	cr_expect(eq(int, kernel.calls[6].value, 1));
	address = (const struct sockaddr_ll *)&kernel.calls[7].address;
	cr_expect(eq(u16, address->sll_family, AF_PACKET));
	cr_expect(eq(u16, address->sll_protocol, htons(ETH_P_ALL)));
	cr_expect(eq(int, address->sll_ifindex, 77));
	cr_expect(eq(ptr, (void *)backend.queues, (void *)queue));
	cr_expect(eq(u32, af_packet_receive(queue)->fanout_index, 0));
}

Test(packet_queue, the_cards_time_is_asked_for_if_the_card_has_one_and_packets_get_a_time)
{
	backend.time.clock_fd = 0;
	cr_assert(eq(int, create(), 0));
	cr_expect(eq(int, kernel_count(-1, PACKET_TIMESTAMP), 0), "the queue has no timestamps");
	cr_expect(eq(u8, af_packet_receive(queue)->flag_of_kernel_time, 0));
	cr_expect(not(af_packet_receive(queue)->timestamps));
	options.timestamps = true;
	cr_assert(eq(int, create(), 0));
	cr_assert(eq(int, kernel_count(-1, PACKET_TIMESTAMP), 1));
	cr_expect(eq(int, kernel_find(-1, PACKET_TIMESTAMP, 0)->value, SOF_TIMESTAMPING_RAW_HARDWARE));
	cr_expect(eq(u8, af_packet_receive(queue)->flag_of_kernel_time, BACKEND_EVENT_KERNEL_TIME));
	cr_expect(af_packet_receive(queue)->timestamps);
	backend.time.clock_fd = -1;
	cr_assert(eq(int, create(), 0));
	cr_expect(eq(int, kernel_count(-1, PACKET_TIMESTAMP), 1), "the card has none");
	cr_expect(eq(u8, af_packet_receive(queue)->flag_of_kernel_time, 0));
}

Test(packet_queue, before_linux_6_2_joined_datagrams_are_not_asked_for)
{
	static const struct {
		const char *release;
		bool has_lengths;
	} kernels[] = {{"5.19.0", false}, {"6.0.1", false},  {"6.1.0-18-amd64", false},
	               {"6.2.0", true},   {"6.12.4", true},  {"7.0-rc1", true},
	               {"5.2", false},    {"unknown", false}};

	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
		kernel.release = kernels[i].release;
		kernel_forget_calls();
		cr_assert(eq(int, create(), 0));
		cr_expect(eq(int, kernel_count(-1, PACKET_VNET_HDR), kernels[i].has_lengths), "%s", kernel.release);
		cr_expect(eq(int, kernel_count(-1, PACKET_COPY_THRESH), kernels[i].has_lengths), "%s", kernel.release);
		cr_expect(eq(int, af_packet_receive(queue)->has_lengths, kernels[i].has_lengths));
	}
	kernel.release = "6.12.0";
	kernel.fail_setsockopt_of = PACKET_VNET_HDR;
	cr_assert(eq(int, create(), 0), "it goes without");
	cr_expect(not(af_packet_receive(queue)->has_lengths));
}

/* Joined packets that do not fit their slots: their memory is the kernel's network stack's, and counts there, too. */
Test(packet_queue, the_socket_has_room_for_whole_packets_as_far_as_the_daemon_may_ask_for_it)
{
	cr_assert(eq(int, create(), 0));
	cr_expect(eq(int, kernel_find(-1, SO_RCVBUFFORCE, 0)->value, 32 << 20));
	cr_expect(eq(int, kernel_count(-1, SO_RCVBUF), 0));
	kernel.fail_setsockopt_of = SO_RCVBUFFORCE;
	kernel.setsockopt_error = EPERM;
	kernel_forget_calls();
	cr_assert(eq(int, create(), 0));
	cr_assert(eq(int, kernel_count(-1, SO_RCVBUF), 1));
	cr_expect(eq(int, kernel_find(-1, SO_RCVBUF, 0)->value, 32 << 20));
}

Test(packet_queue, the_ring_has_room_for_all_slots_and_for_16_mib_of_packets)
{
	static const struct {
		uint32_t slots, frame_bytes, slot_bytes, block_bytes, n_blocks;
	} rings[] = {
		{64, 1042, 1136, 256 << 10, 65},    {64, 100, 352, 256 << 10, 65},
		{64, 256, 352, 256 << 10, 65},      {64, 257, 352, 256 << 10, 65},
		{64, 8108, 8192, 256 << 10, 64},    {64, 8109, 8208, 512 << 10, 33},
		{64, 20000, 20096, 1 << 20, 17},    {64, 32748, 32832, 1 << 20, 17},
		{64, 65535, 65632, 1 << 20, 17},    {65536, 2042, 2128, 256 << 10, 533},
		{65536, 172, 352, 256 << 10, 89},   {14768, 1042, 1136, 256 << 10, 65},
		{16000, 1042, 1136, 256 << 10, 70},
	};

	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		const struct tpacket_req *request;

		options.slots = rings[i].slots;
		options.slot_bytes = rings[i].frame_bytes - options.header_bytes;
		kernel_forget_calls();
		cr_assert(eq(int, create(), 0));
		request = &kernel_find(-1, PACKET_RX_RING, 0)->ring;
		cr_expect(eq(u32, request->tp_frame_size, rings[i].slot_bytes), "ring %zu", i);
		cr_expect(eq(u32, request->tp_block_size, rings[i].block_bytes), "ring %zu", i);
		cr_expect(eq(u32, request->tp_block_nr, rings[i].n_blocks), "ring %zu", i);
		cr_expect(eq(u32, request->tp_frame_nr,
		             rings[i].n_blocks * (rings[i].block_bytes / rings[i].slot_bytes)));
		cr_expect(ge(u32, request->tp_frame_nr, rings[i].slots));
		cr_expect(eq(u64, af_packet_ring_bytes(rings[i].slots, rings[i].frame_bytes),
		             (uint64_t)rings[i].block_bytes * rings[i].n_blocks));
		/* All of it is mapped. */
		memset(af_packet_receive(queue)->ring.blocks, 1, (size_t)rings[i].block_bytes * rings[i].n_blocks);
		af_packet_receive_free(queue);
	}
}

Test(packet_queue, whichever_call_fails_is_reported_and_nothing_stays_open)
{
	unsigned before = count_open_fds();
	bool has_failed = true;
	int n_failed = 0;

	options.timestamps = options.flow_tags = true;
	backend.time.clock_fd = 0;
	for (int i = 0; has_failed; i++) {
		int r;

		queue = NULL;
		failure = (struct failure){0};
		kernel_fail_after(i);
		r = create();
		has_failed = kernel_has_failed();
		kernel_fail_after(-1);
		if (r ==
		    0) { /* without lengths of joined datagrams, or with less room, or no call failed: the last round */
			af_packet_receive_free(queue);
			continue;
		}
		n_failed++;
		cr_expect(lt(int, r, 0), "call %d", i);
		cr_expect(gt(sz, strlen(failure.text), 10), "call %d", i);
		cr_expect(eq(ptr, (void *)queue, NULL));
		cr_expect(eq(ptr, (void *)backend.queues, NULL), "call %d", i);
		cr_expect(eq(uint, count_open_fds(), before), "call %d", i);
	}
	/* queue, socket, slots, tags, claims (2), code, filter, time, whole, copies, version, ring, map, sent, bind */
	cr_expect(eq(int, n_failed, 16));
	cr_expect(eq(uint, count_open_fds(), before));
}

Test(packet_queue, the_failure_says_what_may_help)
{
	kernel.fail_setsockopt_of = PACKET_RX_RING;
	cr_expect(eq(int, create(), -ENOMEM));
	cr_expect(eq(int, failure.exit_code, EX_OSERR));
	cr_expect(strstr(failure.text, "lower receive_queue_slots") != NULL, "%s", failure.text);
	cr_expect(strstr(failure.text, "64 packets of 1042 bytes") != NULL, "%s", failure.text);
	kernel.setsockopt_error = ENODEV;
	cr_expect(eq(int, create(), -ENODEV));
	cr_expect(eq(int, failure.exit_code, EX_UNAVAILABLE));
	cr_expect(eq(ptr, strstr(failure.text, "lower"), NULL), "%s", failure.text);
	kernel.fail_setsockopt_of = PACKET_IGNORE_OUTGOING;
	kernel.setsockopt_error = EINVAL;
	cr_expect(eq(int, create(), -EINVAL));
	kernel.fail_setsockopt_of = PACKET_VERSION;
	cr_expect(eq(int, create(), -EINVAL));
}

Test(packet_queue, a_queue_that_goes_leaves_the_others_in_the_list)
{
	struct backend_queue *queues[3];

	for (int i = 0; i < 3; i++) {
		cr_assert(eq(int, create(), 0));
		queues[i] = queue;
	}
	af_packet_receive_free(queues[1]);
	cr_expect(eq(ptr, (void *)backend.queues, (void *)queues[2]));
	cr_expect(eq(ptr, (void *)backend.queues->next, (void *)queues[0]));
	cr_expect(eq(ptr, (void *)backend.queues->next->next, NULL));
	af_packet_receive_free(queues[2]);
	cr_expect(eq(ptr, (void *)backend.queues, (void *)queues[0]));
}

/* ---- what the kernel counted ------------------------------------------------------------------------- */

static void expect_counts(uint64_t matched, uint64_t dropped)
{
	uint64_t packets = 0;

	cr_assert(eq(int, af_packet_read_matched(queue, &packets), 0));
	cr_expect(eq(u64, packets, matched));
	cr_expect(eq(u64, atomic_load(&queue->n_dropped[BACKEND_DROP_RING_FULL]), dropped));
}

/* tp_packets has those of tp_drops, too. */
Test(packet_queue, each_reading_takes_the_kernels_counts_away_and_they_are_summed)
{
	cr_assert(eq(int, create(), 0));
	expect_counts(0, 0);
	kernel.tp_packets = 100;
	kernel.tp_drops = 40;
	expect_counts(100, 40);
	expect_counts(100, 40);
	kernel.tp_packets = 7;
	expect_counts(107, 40);
	for (enum backend_drop drop = 0; drop < BACKEND_N_DROPS; drop++)
		if (drop != BACKEND_DROP_RING_FULL)
			cr_expect(eq(u64, atomic_load(&queue->n_dropped[drop]), 0));
}

Test(packet_queue, the_sum_goes_beyond_32_bits)
{
	cr_assert(eq(int, create(), 0));
	for (uint64_t i = 1; i <= 3; i++) {
		kernel.tp_packets = UINT32_MAX;
		kernel.tp_drops = UINT32_MAX;
		expect_counts(i * UINT32_MAX, i * UINT32_MAX);
	}
}

Test(packet_queue, a_reading_that_fails_changes_nothing)
{
	uint64_t packets = 5;

	cr_assert(eq(int, create(), 0));
	kernel.tp_packets = 100;
	expect_counts(100, 0);
	kernel.statistics_error = ENETDOWN;
	kernel.tp_packets = 9;
	cr_expect(eq(int, af_packet_read_matched(queue, &packets), -ENETDOWN));
	cr_expect(eq(u64, packets, 5));
	kernel.statistics_error = 0;
	expect_counts(109, 0);
}

static void *read_often(void *unused)
{
	uint64_t packets;

	for (int i = 0; i < 200; i++)
		af_packet_read_matched(queue, &packets);
	return unused;
}

/* Each reading takes the counts away: a second thread would add what the first one has not yet added. */
Test(packet_queue, one_thread_at_a_time_reads_the_counts)
{
	pthread_t other;

	cr_assert(eq(int, create(), 0));
	kernel.statistics_slow = 20;
	cr_assert(eq(int, pthread_create(&other, NULL, read_often, NULL), 0));
	read_often(NULL);
	cr_assert(eq(int, pthread_join(other, NULL), 0));
}

/* ---- sleeping --------------------------------------------------------------------------------------- */

static int post(uint32_t n)
{
	static uint8_t rows[2][4 * 1024];
	const struct backend_run run = {0, n, rows[0], rows[1]};

	return af_packet_post(queue, &run);
}

Test(packet_queue, its_descriptor_is_the_socket_while_a_slot_is_posted)
{
	cr_assert(eq(int, create(), 0));
	cr_expect(eq(int, af_packet_receive_fd(queue), -EAGAIN), "a frame would stay, and the socket readable");
	cr_assert(eq(int, post(2), 2));
	cr_expect(eq(int, af_packet_receive_fd(queue), af_packet_receive(queue)->queue.fd));
	cr_expect(eq(int, af_packet_receive_arm(queue), 0));
	cr_assert(eq(int, af_packet_receive_reset(queue), 0));
	cr_expect(eq(int, af_packet_receive_fd(queue), -EAGAIN));
	cr_expect(eq(int, af_packet_receive_arm(queue), 0));
}

Test(packet_queue, a_frame_that_fills_the_last_slot_takes_the_descriptor_away)
{
	struct backend_event event;
	struct tpacket2_hdr *frame;

	cr_assert(eq(int, create(), 0));
	cr_assert(eq(int, post(1), 1));
	frame = (struct tpacket2_hdr *)af_packet_receive(queue)->ring.next;
	*frame = (struct tpacket2_hdr){
		.tp_status = TP_STATUS_USER, .tp_mac = 96, .tp_net = 96 + 14, .tp_len = 60, .tp_snaplen = 60};
	cr_expect(ge(int, af_packet_receive_fd(queue), 0));
	cr_assert(eq(int, af_packet_poll(queue, &event, 1), 1));
	cr_expect(eq(int, af_packet_receive_fd(queue), -EAGAIN));
}

Test(packet_queue, an_error_of_the_socket_is_read_so_that_it_is_not_readable_for_ever)
{
	cr_assert(eq(int, create(), 0));
	kernel_forget_calls();
	af_packet_receive_clear(queue);
	cr_assert(eq(int, kernel.n_calls, 1));
	cr_expect(eq(int, kernel_count(af_packet_receive(queue)->queue.fd, SO_ERROR), 1));
}

Test(packet_queue, without_completion_events_there_is_no_descriptor)
{
	options.completion_events = false;
	cr_assert(eq(int, create(), 0));
	cr_assert(eq(int, post(1), 1));
	cr_expect(eq(int, af_packet_receive_fd(queue), -ENOTSUP));
	cr_expect(eq(int, af_packet_receive_arm(queue), -ENOTSUP));
}
