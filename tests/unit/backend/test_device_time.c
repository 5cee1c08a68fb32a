// SPDX-License-Identifier: Apache-2.0
/*
 * The card's time of a packet. The card is a veth pair, which says that it stamps all packets, and has a precision
 * clock on TAI. It stamps none: where a test wants a stamp, the test writes it into the kernel's ring before the
 * backend reads it.
 */
#include "daemon/backend/packet/af_packet.h"
#include "daemon/base/log.h"
#include "daemon/clock/clock.h"
#include "daemon/net/net.h"
#include "lib/base/time.h"
#include "tests/support/own_ioctl.h"
#include "tests/unit/backend/xdp_queues.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/net_tstamp.h>
#include <linux/ptp_clock.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CLOCK_PATH "/dev/ptp4711"
#define TAI_NS     (37 * TIME_SECOND_NS)
#define WAIT_MS    5000

static struct {
	int filter;
	bool may_set;
	bool has_clock; /* its device file is there */
	bool is_gone;
} card = {.filter = HWTSTAMP_FILTER_ALL, .may_set = true, .has_clock = true};

/* ---- in place of the C library's ------------------------------------------------------------------- */

int open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return (int)syscall(SYS_openat, AT_FDCWD, card.has_clock && strcmp(path, CLOCK_PATH) == 0 ? "/dev/null" : path,
	                    flags, mode);
}

static struct ptp_clock_time ptp_time(uint64_t ns)
{
	return (struct ptp_clock_time){.sec = (int64_t)(ns / TIME_SECOND_NS), .nsec = (uint32_t)(ns % TIME_SECOND_NS)};
}

static int card_read_clock(struct ptp_sys_offset_extended *sample)
{
	uint64_t now_ns = time_utc_ns();

	if (card.is_gone) {
		errno = ENODEV;
		return -1;
	}
	sample->ts[0][0] = ptp_time(now_ns);
	sample->ts[0][1] = ptp_time(now_ns + TAI_NS);
	sample->ts[0][2] = ptp_time(now_ns);
	return 0;
}

static int card_set(const struct hwtstamp_config *wanted)
{
	if (!card.may_set) {
		errno = EPERM;
		return -1;
	}
	card.filter = wanted->rx_filter;
	return 0;
}

static int answer_ioctl(int fd, unsigned long number, struct ifreq *request)
{
	struct ethtool_ts_info *info = asked_ts_info(number, request);

	if (number == PTP_SYS_OFFSET_EXTENDED)
		return card_read_clock((struct ptp_sys_offset_extended *)request);
	if (number == SIOCSHWTSTAMP)
		return card_set((const struct hwtstamp_config *)request->ifr_data);
	if (number == SIOCGHWTSTAMP) {
		*(struct hwtstamp_config *)request->ifr_data = (struct hwtstamp_config){.rx_filter = card.filter};
		return 0;
	}
	if (!info)
		return real_ioctl(fd, number, request);
	info->phc_index = 4711;
	info->so_timestamping = SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE;
	info->rx_filters = 1U << HWTSTAMP_FILTER_ALL;
	return 0;
}

/* ---- the clock ------------------------------------------------------------------------------------- */

static const struct backend_ops *const ops = &af_packet_ops;

static int read_clock(void *context, struct clock_pair *pair)
{
	struct backend_clock_reading reading;
	int r = ops->read_clock(context, &reading);

	*pair = (struct clock_pair){reading.raw, reading.utc_before_ns, reading.utc_after_ns};
	return r;
}

static uint64_t read_utc(void *context)
{
	(void)context;
	return time_utc_ns();
}

/* The daemon's fit maps the card's time to UTC, within its own bound. */
static void expect_fit(struct backend *of)
{
	const struct clock_reader reader = {read_clock, read_utc, of};
	struct backend_capabilities is;
	struct clock_line line = {0};
	struct clock_pair pair;
	struct clock_fit fit;
	uint64_t utc_ns;

	ops->capabilities(of, &is);
	cr_assert(is.timestamps && is.kernel_times && is.clock_can_step && !is.clock_is_utc);
	cr_expect(eq(u64, is.clock_hz, TIME_SECOND_NS));
	clock_fit_init(&fit, is.clock_hz, is.clock_mask);
	fit.can_step = is.clock_can_step;
	cr_assert(eq(int, clock_read_pair(&reader, 0, &pair), 0));
	clock_fit_add(&fit, &pair, &line);
	utc_ns = clock_utc_ns(&line, pair.raw + 1000000);
	cr_expect(le(u64, utc_ns - (pair.before_ns + 1000000) + line.error_ns, 2 * line.error_ns));
	card.is_gone = true;
	cr_expect(eq(int, clock_read_pair(&reader, 0, &pair), -ENODEV));
	card.is_gone = false;
}

static void expect_why(struct backend *of, const char *why)
{
	struct backend_capabilities is;

	ops->capabilities(of, &is);
	cr_expect(is.timestamps && is.clock_is_utc && !is.kernel_times);
	cr_expect(strstr(is.no_device_time, why) != NULL, "%s", is.no_device_time);
}

static void expect_kernel_time(const struct backend_event *event, uint64_t since_ns)
{
	cr_expect(eq(int, event->flags &BACKEND_EVENT_KERNEL_TIME, BACKEND_EVENT_KERNEL_TIME));
	cr_expect(ge(u64, event->timestamp_raw, since_ns));
	cr_expect(le(u64, event->timestamp_raw, time_utc_ns()));
}

/* ---- packet sockets -------------------------------------------------------------------------------- */

TestSuite(device_time, .init = set_up_xdp, .timeout = 60);

static struct backend *open_packet(bool stamp_packets)
{
	const struct backend_open_options options = {.interface = "test0", .stamp_packets = stamp_packets};
	struct backend *opened;
	int r;

	r = ops->open(&options, &opened, &failure);
	if (r == -EPERM)
		cr_skip_test("this machine lets us use no packet sockets: %s", failure.text);
	cr_assert(eq(int, r, 0), "%s", failure.text);
	return opened;
}

Test(device_time, the_card_is_made_to_stamp_all_packets_only_if_that_is_wanted)
{
	struct backend *opened;

	make_veth("1500", "1");
	card.filter = HWTSTAMP_FILTER_PTP_V2_EVENT;
	opened = open_packet(false);
	cr_expect(eq(int, card.filter, HWTSTAMP_FILTER_PTP_V2_EVENT));
	expect_why(opened, "hwstamp_ctl -i test0 -r 1");
	ops->close(opened);
	card.may_set = false;
	opened = open_packet(true);
	expect_why(opened, "cannot be made to stamp all packets (Operation not permitted)");
	ops->close(opened);
	card.may_set = true;
	opened = open_packet(true);
	cr_expect(eq(int, card.filter, HWTSTAMP_FILTER_ALL));
	expect_fit(opened);
	ops->close(opened);
	card.has_clock = false;
	opened = open_packet(true);
	expect_why(opened, CLOCK_PATH " cannot be read");
	ops->close(opened);
}

static struct tpacket2_hdr *wait_for_packet(const struct af_packet_receive *receive)
{
	for (int i = 0; i < WAIT_MS && !af_packet_ring_next(&receive->ring); i++)
		poll(NULL, 0, 1);
	cr_assert(ne(ptr, (void *)af_packet_ring_next(&receive->ring), NULL));
	return (struct tpacket2_hdr *)receive->ring.next;
}

Test(device_time, the_header_of_a_packet_socket_says_whose_time_it_has)
{
	static uint8_t payload[64 * 64], headers[64 * HEADER_STRIDE];
	const struct backend_queue_options options = {.slots = 64,
	                                              .header_bytes = HEADER_BYTES,
	                                              .header_stride = HEADER_STRIDE,
	                                              .slot_bytes = 64,
	                                              .row_stride = 64,
	                                              .timestamps = true};
	const struct backend_run run = {0, 64, payload, headers};
	const struct flow_rule rule = stream_rule(PORT);
	struct backend_queue *queue;
	struct backend_event event;
	struct backend_flow *flow;
	struct backend *opened;
	struct tpacket2_hdr *header;
	uint64_t since_ns;

	make_veth("1500", "1");
	opened = open_packet(false);
	open_sender();
	cr_assert(eq(int, ops->create_queue(opened, &options, &queue, &failure), 0), "%s", failure.text);
	cr_assert(eq(int, ops->post(queue, &run), 64));
	cr_assert(eq(int, ops->add_flow(queue, &rule, &flow, &failure), 0), "%s", failure.text);
	since_ns = time_utc_ns();
	send_frames(PORT, 1, 60);
	wait_for_packet(af_packet_receive(queue));
	cr_assert(eq(int, ops->poll(queue, &event, 1), 1));
	expect_kernel_time(&event, since_ns);
	send_frames(PORT, 1, 60);
	header = wait_for_packet(af_packet_receive(queue));
	header->tp_status |= TP_STATUS_TS_RAW_HARDWARE;
	header->tp_sec = 4;
	header->tp_nsec = 711;
	cr_assert(eq(int, ops->poll(queue, &event, 1), 1));
	cr_expect(eq(u64, event.timestamp_raw, 4 * TIME_SECOND_NS + 711));
	cr_expect(not(event.flags & BACKEND_EVENT_KERNEL_TIME));
	ops->remove_flow(flow);
	ops->destroy_queue(queue);
	ops->close(opened);
}
