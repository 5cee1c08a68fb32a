// SPDX-License-Identifier: Apache-2.0
/* Times of packets for etf, and the kernel's reports on them. The kernel's calls are the test's own (--wrap). */
#include "daemon/backend/socket/socket_times.h"

#include "lib/base/time.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>
#include <string.h>
#include <sys/socket.h>

#define SLOTS     8
#define TAI_AHEAD 37 /* s */
#define UTC_NS    UINT64_C(1700000000000000000)
#define DELTA_NS  200000
#define MARGIN_NS 50000 /* of a packet that leaves at once */

TestSuite(socket_times, .timeout = 30);

static uint64_t utc_ns;
static const struct net_etf software = {.delta_ns = DELTA_NS, .flags = NET_ETF_THERE};
static const struct net_etf card = {.delta_ns = DELTA_NS, .flags = NET_ETF_THERE | NET_ETF_OFFLOAD};
static uint8_t headers[SLOTS][PACKET_HEADERS_MAX];
static struct backend_packet packets[SLOTS];
static struct socket_batch batch;
static struct socket_times *times;

/* ---- the kernel ---------------------------------------------------------------------------------- */

struct report {
	uint8_t frame[PACKET_HEADERS_MAX];
	struct sock_extended_err what;
	uint64_t when_ns;
};

static struct report reports[2 * SLOTS];
static int n_reports;

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_setsockopt(int, int, int, const void *, socklen_t)
{
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	*now = (struct timespec){.tv_sec = (time_t)(utc_ns / TIME_SECOND_NS) + (clock == CLOCK_TAI ? TAI_AHEAD : 0),
	                         .tv_nsec = (long)(utc_ns % TIME_SECOND_NS)};
	return 0;
}

static void put_control(struct msghdr *message, struct cmsghdr **at, int level, int type, const void *data, size_t n)
{
	(*at)->cmsg_level = level;
	(*at)->cmsg_type = type;
	(*at)->cmsg_len = CMSG_LEN(n);
	memcpy(CMSG_DATA(*at), data, n);
	*at = CMSG_NXTHDR(message, *at);
}

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned n, int flags, struct timespec *timeout);
int __wrap_recvmmsg(int, struct mmsghdr *messages, unsigned n, int flags, struct timespec *)
{
	int taken = n_reports < (int)n ? n_reports : (int)n;

	cr_assert(eq(int, flags, MSG_ERRQUEUE | MSG_DONTWAIT));
	for (int i = 0; i < taken; i++) {
		struct msghdr *message = &messages[i].msg_hdr;
		struct cmsghdr *at = CMSG_FIRSTHDR(message);
		struct scm_timestamping when = {.ts[0] = {.tv_sec = (time_t)(reports[i].when_ns / TIME_SECOND_NS),
		                                          .tv_nsec = (long)(reports[i].when_ns % TIME_SECOND_NS)}};

		memset(message->msg_control, 0, message->msg_controllen);
		put_control(message, &at, SOL_SOCKET, SCM_TIMESTAMPING, &when, sizeof(when));
		put_control(message, &at, SOL_PACKET, PACKET_TX_TIMESTAMP, &reports[i].what, sizeof(reports[i].what));
		memcpy(message->msg_iov->iov_base, reports[i].frame, sizeof(reports[i].frame));
		messages[i].msg_len = sizeof(reports[i].frame);
	}
	n_reports = 0;
	return taken ? taken : -1;
}

/* ---- what it is asked to send ------------------------------------------------------------------------ */

static void set_up(int family)
{
	struct packet_route route = {.family = family, .vlan = -1, .hop_limit = 7, .destination_port = 7502};
	struct packet_template template;

	utc_ns = UTC_NS;
	cr_assert(packet_template_init(&template, &route, PACKET_CHECKSUMS_DEVICE));
	for (uint32_t i = 0; i < SLOTS; i++) {
		packet_write_headers(&template, headers[i], NULL, 0, (uint16_t)i);
		packets[i] = (struct backend_packet){.headers = headers[i],
		                                     .header_bytes = template.header_bytes,
		                                     .not_before_ns = UTC_NS + (i + 1) * 1000000};
	}
	cr_assert(zero(int, socket_times_new(&times, -1, SLOTS, 1500)));
}

static void tear_down(void)
{
	socket_times_free(times);
}

static void send_all(const struct net_etf *etf)
{
	const struct socket_batch_rules rules = {.checksums = true};

	socket_batch_fill(&batch, &rules, packets, SLOTS);
	socket_times_stamp(times, etf, &batch, packets);
	socket_times_note(times, packets, SLOTS, true, BACKEND_OK);
}

static uint64_t time_of(uint32_t i)
{
	const struct cmsghdr *control = CMSG_FIRSTHDR(&batch.messages[i].msg_hdr);
	uint64_t time_ns;

	cr_assert(eq(int, control->cmsg_type, SCM_TXTIME));
	memcpy(&time_ns, CMSG_DATA(control), sizeof(time_ns));
	return time_ns;
}

static struct report *report(uint32_t i)
{
	struct report *new = &reports[n_reports++];

	*new = (struct report){0};
	memcpy(new->frame, headers[i], packets[i].header_bytes);
	/* The driver has filled in the checksums. */
	memset(new->frame + 24, 0xaa, 2);
	memset(new->frame + packets[i].header_bytes - 2, 0xaa, 2);
	return new;
}

static void report_sent(uint32_t i, uint64_t late_ns)
{
	struct report *new = report(i);

	new->what = (struct sock_extended_err){.ee_origin = SO_EE_ORIGIN_TIMESTAMPING, .ee_info = SCM_TSTAMP_SND};
	new->when_ns = packets[i].not_before_ns + late_ns;
}

static void report_dropped(uint32_t i, uint8_t code, uint64_t time_ns)
{
	report(i)->what = (struct sock_extended_err){.ee_origin = SO_EE_ORIGIN_TXTIME,
	                                             .ee_code = code,
	                                             .ee_data = (uint32_t)(time_ns >> 32),
	                                             .ee_info = (uint32_t)time_ns};
}

static void expect_ended(uint32_t n, const uint8_t *statuses)
{
	struct backend_sent sent[SLOTS];
	int reaped = socket_times_reap(times, sent, SLOTS);

	cr_assert(eq(int, reaped, (int)n));
	for (uint32_t i = 0; i < n; i++) {
		cr_expect(eq(u32, sent[i].n, 1));
		cr_expect(eq(u8, sent[i].status, statuses[i]));
	}
}

#define EXPECT_ENDED(...) expect_ended(sizeof((uint8_t[]){__VA_ARGS__}), (const uint8_t[]){__VA_ARGS__})

/* ---- times --------------------------------------------------------------------------------------- */

Test(socket_times, no_packet_leaves_the_discipline_before_its_time_nor_the_card_after_it)
{
	cr_expect(eq(u64, socket_times_choose(&software, UTC_NS + 1000000, UTC_NS), UTC_NS + 1000000 + DELTA_NS));
	cr_expect(eq(u64, socket_times_choose(&card, UTC_NS + 1000000, UTC_NS), UTC_NS + 1000000));
}

Test(socket_times, a_packet_that_is_late_or_has_no_time_leaves_at_once)
{
	const uint64_t at_once = UTC_NS + MARGIN_NS + DELTA_NS;

	cr_expect(eq(u64, socket_times_choose(&software, 0, UTC_NS), at_once));
	cr_expect(eq(u64, socket_times_choose(&card, 0, UTC_NS), at_once));
	cr_expect(eq(u64, socket_times_choose(&software, UTC_NS - 1, UTC_NS), at_once));
	cr_expect(eq(u64, socket_times_choose(&card, UTC_NS + DELTA_NS, UTC_NS), at_once), "the card gets it too late");
}

Test(socket_times, the_kernel_gets_tai)
{
	set_up(AF_INET);
	send_all(&card);
	for (uint32_t i = 0; i < SLOTS; i++)
		cr_expect(eq(u64, time_of(i), packets[i].not_before_ns + TAI_AHEAD * TIME_SECOND_NS));
	tear_down();
}

/* ---- reports ------------------------------------------------------------------------------------- */

Test(socket_times, a_packet_ends_in_its_turn_as_its_report_says)
{
	struct backend_sent sent[SLOTS];

	set_up(AF_INET);
	send_all(&software);
	report_sent(1, 0);
	report_dropped(2, SO_EE_CODE_TXTIME_MISSED, time_of(2));
	cr_expect(zero(int, socket_times_reap(times, sent, SLOTS)), "the first has no report");
	report_sent(0, 300);
	cr_assert(eq(int, socket_times_reap(times, sent, 2), 2));
	cr_expect(eq(u8, sent[0].status, BACKEND_OK));
	cr_expect(sent[0].is_measured && sent[1].is_measured);
	cr_expect(eq(u32, sent[0].late_ns, 300));
	cr_expect(eq(u32, sent[1].late_ns, 0));
	cr_assert(eq(int, socket_times_reap(times, sent, SLOTS), 1));
	cr_expect(eq(u8, sent[0].status, BACKEND_LATE));
	cr_expect(not(sent[0].is_measured));
	tear_down();
}

Test(socket_times, a_report_that_is_of_no_packet_there_ends_none)
{
	set_up(AF_INET);
	send_all(&software);
	report_dropped(0, SO_EE_CODE_TXTIME_INVALID_PARAM, time_of(0));
	report_dropped(0, SO_EE_CODE_TXTIME_MISSED, time_of(1));
	headers[7][18]++; /* another identification */
	report_sent(7, 0);
	headers[7][18]--;
	expect_ended(0, NULL);
	report_sent(0, 0);
	EXPECT_ENDED(BACKEND_OK);
	report_sent(0, 0); /* again */
	expect_ended(0, NULL);
	tear_down();
}

Test(socket_times, ipv6_packets_that_are_alike_end_each_with_a_report)
{
	set_up(AF_INET6);
	send_all(&software);
	for (uint32_t i = 0; i < 4; i++)
		report_sent(i, 0);
	report_dropped(5, SO_EE_CODE_TXTIME_MISSED, time_of(5));
	EXPECT_ENDED(BACKEND_OK, BACKEND_OK, BACKEND_OK, BACKEND_OK);
	report_sent(4, 0);
	EXPECT_ENDED(BACKEND_OK, BACKEND_LATE);
	tear_down();
}

Test(socket_times, a_packet_without_a_report_is_an_error_a_second_after_its_time)
{
	set_up(AF_INET);
	send_all(&software);
	report_sent(1, 0);
	utc_ns = packets[0].not_before_ns + DELTA_NS + TIME_SECOND_NS - 1;
	expect_ended(0, NULL);
	utc_ns++;
	EXPECT_ENDED(BACKEND_SLOT_ERROR, BACKEND_OK);
	cr_expect(socket_times_waits(times));
	tear_down();
}

Test(socket_times, packets_that_no_discipline_holds_have_ended_when_the_kernel_took_them)
{
	set_up(AF_INET);
	socket_times_note(times, packets, 2, false, BACKEND_OK);
	socket_times_note(times, packets + 2, 1, true, BACKEND_SLOT_ERROR);
	EXPECT_ENDED(BACKEND_OK, BACKEND_OK, BACKEND_SLOT_ERROR);
	cr_expect(not(socket_times_waits(times)));
	tear_down();
}
