// SPDX-License-Identifier: Apache-2.0
/*
 * The xdp backend on a veth interface: several streams that share the frames of a card queue. Whatever becomes of a
 * packet, it is counted once; whatever becomes of a stream, its frames come back.
 */
#include "lib/base/time.h"
#include "tests/unit/backend/xdp_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <string.h>

TestSuite(xdp_backend, .init = set_up_xdp, .fini = tear_down_xdp);

static void poll_one_of_two(const char *queues)
{
	struct stream polled, idle;

	open_backend("1500", queues);
	stream_open(&polled, PORT, 60);
	stream_open(&idle, PORT + 1, 60);
	for (int round = 0; round < 200; round++) {
		send_frames(PORT + 1, 100, 60);
		send_frames(PORT, 32, 60);
		while (stream_poll(&polled) > 0)
			;
	}
	stream_take_all(&polled);
	cr_expect(gt(u64, expect_sum(&polled), 6000));
	cr_expect(eq(u64, stream_all_drops(&polled), 0));
	stream_take_all(&idle);
	expect_sum(&idle);
	cr_expect(ge(u64, idle.n_received, 2048));
	cr_expect(gt(u64, stream_drops(&idle, BACKEND_DROP_RING_FULL), 0));
	cr_expect(eq(u64, stream_drops(&idle, BACKEND_DROP_NO_FRAME), 0));
	cr_expect(lt(u32, n_frames_lost(), 64));
	stream_close(&polled);
	stream_close(&idle);
}

Test(xdp_backend, a_stream_that_nobody_polls_costs_the_others_nothing)
{
	poll_one_of_two("1");
}

Test(xdp_backend, the_same_on_four_card_queues)
{
	poll_one_of_two("4");
}

Test(xdp_backend, streams_that_come_and_go_cost_the_others_nothing_and_no_frame)
{
	struct stream stays;

	open_backend("1500", "4");
	stream_open(&stays, PORT, 60);
	for (int round = 0; round < 30; round++) {
		struct stream passing;

		stream_open(&passing, PORT + 1, 60);
		for (int i = 0; i < 10; i++) {
			send_frames(PORT + 1, 100, 60);
			send_frames(PORT, 10, 60);
			if (i == round % 10)
				stream_poll(&passing);
			while (stream_poll(&stays) > 0)
				;
		}
		xdp_backend_ops.remove_flow(passing.flow);
		passing.flow = NULL;
		send_frames(PORT + 1, 10, 60);
		if (round % 2) {
			stream_take_all(&passing);
			expect_sum(&passing);
		}
		stream_close(&passing);
	}
	stream_take_all(&stays);
	cr_expect(gt(u64, expect_sum(&stays), 2900));
	cr_expect(eq(u64, stream_all_drops(&stays), 0));
	cr_expect(eq(u32, n_frames_lost(), 0));
	stream_close(&stays);
}

static void expect_datagrams(const char *mtu, uint32_t payload_bytes, uint32_t n_descriptors)
{
	struct stream stream;

	open_backend(mtu, "1");
	stream_open(&stream, PORT, payload_bytes);
	/* More descriptors than poll() takes at once, and than the socket has frames in hand. */
	for (uint32_t i = 0; i < 20; i++) {
		send_frames(PORT, 10, payload_bytes);
		stream_take_all(&stream);
	}
	cr_expect(eq(u64, expect_sum(&stream), 200));
	cr_expect(eq(u64, stream.n_received, 200));
	cr_expect(eq(u32, *xdp_backend(backend)->sockets[0].receive.producer, 200 * n_descriptors));
	cr_expect(eq(u32, n_frames_lost(), 0));
	stream_close(&stream);
}

Test(xdp_backend, datagrams_of_8_kb_take_three_frames)
{
	expect_datagrams("9000", 8192, 3);
}

Test(xdp_backend, datagrams_of_24_kb_take_seven_frames)
{
	expect_datagrams("26000", 24000, 7);
}

Test(xdp_backend, datagrams_of_60_kb_take_sixteen_frames)
{
	expect_datagrams("65535", 60000, 16);
}

Test(xdp_backend, an_interface_whose_mtu_grows_goes_on)
{
	struct stream stream;

	open_backend("1500", "1");
	stream_open(&stream, PORT, 24000);
	stream.payload_bytes = 1000;
	send_frames(PORT, 50, 1000);
	stream_take_all(&stream);
	cr_assert(system("ip link set test0 mtu 26000 && ip link set test1 mtu 26000") == 0);
	stream.payload_bytes = 24000;
	send_frames(PORT, 50, 24000);
	stream_take_all(&stream);
	cr_expect(eq(u64, expect_sum(&stream), 100));
	cr_expect(eq(u64, stream.n_received, 100));
	stream_close(&stream);
}

Test(xdp_backend, a_packet_has_the_time_at_which_the_kernel_got_it_and_the_remedy_is_named)
{
	struct backend_capabilities is;
	struct backend_event event;
	struct stream stream;
	uint64_t before_ns, after_ns;

	queue_timestamps = true;
	open_backend("1500", "1");
	xdp_backend_ops.capabilities(backend, &is);
	cr_expect(is.timestamps && is.clock_is_utc && !is.kernel_times);
	cr_expect(strstr(is.no_device_time, "backend = \"packet\"") != NULL, "%s", is.no_device_time);
	stream_open(&stream, PORT, 60);
	before_ns = time_utc_ns();
	send_frames(PORT, 1, 60);
	after_ns = time_utc_ns();
	poll(NULL, 0, 50);
	cr_assert(eq(int, xdp_backend_ops.poll(stream.queue, &event, 1), 1));
	cr_expect(ge(u64, event.timestamp_raw, before_ns));
	cr_expect(lt(u64, event.timestamp_raw, after_ns + 25000000));
	cr_expect(eq(int, event.flags, 0));
	stream_close(&stream);
}

Test(xdp_backend, without_posted_slots_packets_wait_and_then_are_dropped)
{
	struct stream stream;
	struct backend_event event;
	uint64_t matched;

	open_backend("1500", "1");
	stream_open(&stream, PORT, 60);
	for (int round = 0; round < 50; round++)
		send_frames(PORT, 100, 60);
	for (uint32_t i = 0; i < SLOTS; i++)
		cr_assert(eq(int, xdp_backend_ops.poll(stream.queue, &event, 1), 1));
	cr_expect(eq(int, xdp_backend_ops.poll(stream.queue, &event, 1), 0));
	cr_expect(eq(int, xdp_backend_ops.read_matched(stream.queue, &matched), 0));
	cr_expect(eq(u64, stream_drops(&stream, BACKEND_DROP_RING_FULL), matched - 2048));
	stream.n_received = SLOTS;
	stream_post(&stream, 0, SLOTS);
	stream_take_all(&stream);
	expect_sum(&stream);
	cr_expect(eq(u64, stream.n_received, 2048));
	stream_close(&stream);
}

Test(xdp_backend, a_stream_with_a_deeper_queue_has_room_for_as_many_packets)
{
	const struct backend_open_options options = {.interface = "test0", .queues = N_QUEUES, .slots = {256, 4096}};
	struct stream deep, other;

	open_backend("1500", "1");
	xdp_backend_ops.close(backend);
	cr_assert(eq(int, xdp_backend_ops.open(&options, &backend, &failure), 0), "%s", failure.text);
	queue_slots = 4096;
	stream_open(&deep, PORT, 60);
	queue_slots = SLOTS;
	stream_open(&other, PORT + 1, 60);
	for (int round = 0; round < 41; round++) {
		send_frames(PORT, 100, 60);
		send_frames(PORT + 1, 100, 60);
	}
	stream_take_all(&deep);
	stream_take_all(&other);
	cr_expect(eq(u64, deep.n_received, 4096));
	cr_expect(eq(u64, other.n_received, 2048));
	cr_expect(eq(u64, expect_sum(&deep), 4100));
	expect_sum(&other);
	cr_expect(eq(u64, stream_drops(&other, BACKEND_DROP_NO_FRAME), 0));
	stream_close(&deep);
	stream_close(&other);
	cr_expect(lt(u32, n_frames_lost(), 64));
}

Test(xdp_backend, packets_matched_after_the_interface_has_left_are_counted_as_unbound)
{
	struct stream stream;
	uint64_t matched;

	open_backend("1500", "1");
	stream_open(&stream, PORT, 60);
	send_frames(PORT, 100, 60);
	cr_assert(system("unshare -n sleep 10 & while [ $(readlink /proc/$!/ns/net) = $(readlink /proc/self/ns/net) ]; "
	                 "do sleep 0.01; done; ip link set test0 netns $! && nsenter -t $! -n ip link set test0 up") ==
	          0);
	for (int i = 0; i < 200; i++) { /* the link is not up at once */
		send_frames(PORT, 1, 60);
		poll(NULL, 0, 2);
	}
	stream_take_all(&stream);
	cr_expect(eq(u64, stream.n_received, 100));
	matched = expect_sum(&stream);
	cr_expect(gt(u64, matched, 100));
	cr_expect(eq(u64, stream_drops(&stream, BACKEND_DROP_UNBOUND), matched - 100));
	/* The program has left the interface, which is another namespace's now. */
	send_frames(PORT, 50, 60);
	cr_expect(eq(u64, expect_sum(&stream), matched));
	stream_close(&stream);
}

Test(xdp_backend, an_interface_can_be_opened_again_at_once)
{
	struct stream stream;

	open_backend("1500", "4");
	for (int i = 0; i < 3; i++) {
		xdp_backend_ops.close(backend);
		cr_assert(eq(int, open_with(BACKEND_XDP_COPY, &backend), 0), "%s", failure.text);
	}
	stream_open(&stream, PORT, 60);
	send_frames(PORT, 100, 60);
	stream_take_all(&stream);
	cr_expect(eq(u64, expect_sum(&stream), 100));
	stream_close(&stream);
}
