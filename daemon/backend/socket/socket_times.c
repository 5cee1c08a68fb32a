// SPDX-License-Identifier: Apache-2.0
/*
 * Times of packets (SO_TXTIME) and the kernel's reports on them. Every packet that has a time gets one report: a
 * timestamp when the driver has it (SO_TIMESTAMPING), or the discipline's that it was dropped (SO_EE_ORIGIN_TXTIME).
 * Both carry the frame, by whose headers the packet is found.
 */
#include "daemon/backend/socket/socket_times.h"

#include "lib/base/min.h"
#include "lib/base/time.h"

#include <errno.h>
#include <linux/errqueue.h>
#include <linux/if_ether.h>
#include <linux/net_tstamp.h>
#include <stdlib.h>
#include <string.h>

/*
 * sch_etf.c refuses a packet whose time is over, or is before that of a packet which it let go. So a packet that is to
 * leave at once gets a time that is so much later.
 */
#define ENQUEUE_NS 50000
/* A packet without a report ends in error so long after its time. Without a link the kernel drops packets silently. */
#define REPORT_NS TIME_SECOND_NS
#define REPORTS   32
/* Of a report: an extended error, its offender, and three timestamps. */
#define CONTROL_BYTES 256

#define IP_CHECKSUM_AT  10
#define IP_ADDRESSES_AT 12

/* A packet that the kernel has, or that has ended and is not reaped. */
struct flight {
	const uint8_t *headers;
	uint64_t not_before_ns; /* UTC; 0: it had no time of its own */
	uint64_t time_ns;       /* of the discipline's clock */
	uint32_t header_bytes;
	uint32_t late_ns;
	bool is_measured;
	bool has_ended;
	uint8_t status; /* enum backend_status */
};

struct stamp {
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(uint64_t))];
	uint64_t time_ns;
};

struct socket_times {
	int fd;
	uint32_t slots;
	uint64_t first; /* flights [first, next) are with the kernel, or not reaped; by number % slots */
	uint64_t next;
	struct flight *flights;
	struct stamp stamps[SOCKET_BATCH_PACKETS];
};

/* ---- life ---------------------------------------------------------------------------------------- */

/* Each packet may have a report that holds the whole packet, and a report that finds no room is lost. */
static int times_set_options(int fd, uint32_t slots, uint32_t mtu)
{
	const struct sock_txtime txtime = {.clockid = CLOCK_TAI, .flags = SOF_TXTIME_REPORT_ERRORS};
	const int stamping = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
	const uint64_t room = u64_min((uint64_t)slots * 2 * (mtu + 4096), INT32_MAX / 2);
	const int bytes = (int)room;
	const struct {
		int name;
		const void *value;
		socklen_t length;
	} options[] = {{SO_TXTIME, &txtime, sizeof(txtime)},
	               {SO_SNDBUFFORCE, &bytes, sizeof(bytes)},
	               {SO_RCVBUFFORCE, &bytes, sizeof(bytes)},
	               {SO_TIMESTAMPING, &stamping, sizeof(stamping)}};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (setsockopt(fd, SOL_SOCKET, options[i].name, options[i].value, options[i].length) < 0)
			return -errno;
	return 0;
}

int socket_times_new(struct socket_times **times, int fd, uint32_t slots, uint32_t mtu)
{
	struct socket_times *new;
	int r = times_set_options(fd, slots, mtu);

	if (r < 0)
		return r;
	new = calloc(1, sizeof(*new));
	if (!new)
		return -ENOMEM;
	*new = (struct socket_times){.fd = fd, .slots = slots, .flights = calloc(slots, sizeof(*new->flights))};
	if (!new->flights) {
		free(new);
		return -ENOMEM;
	}
	*times = new;
	return 0;
}

void socket_times_free(struct socket_times *times)
{
	if (!times)
		return;
	free(times->flights);
	free(times);
}

void socket_times_reset(struct socket_times *times)
{
	times->first = times->next;
}

/* ---- giving packets to the kernel ------------------------------------------------------------------ */

/*
 * etf releases a packet delta before the packet's time, because the driver of a card that waits for the time needs that
 * long. Without such a card the packet would leave too early, so this adds delta to the time. etf drops a packet that
 * it cannot release before that time.
 */
uint64_t socket_times_choose(const struct net_etf *etf, uint64_t not_before_ns, uint64_t now_ns)
{
	uint64_t early_ns = etf->flags & NET_ETF_OFFLOAD ? etf->delta_ns : 0;
	uint64_t go_ns = not_before_ns > early_ns ? not_before_ns - early_ns : 0;

	return u64_max(go_ns, now_ns + ENQUEUE_NS) + etf->delta_ns;
}

/* CLOCK_TAI is ahead of UTC by whole seconds. A pause between the two readings must not add one. */
static uint64_t times_tai_offset_ns(uint64_t *tai_ns)
{
	uint64_t utc_ns, after_ns;

	do {
		utc_ns = time_utc_ns();
		*tai_ns = time_tai_ns();
		after_ns = time_utc_ns();
	} while (after_ns - utc_ns > TIME_SECOND_NS / 4);
	return (*tai_ns - utc_ns + TIME_SECOND_NS / 2) / TIME_SECOND_NS * TIME_SECOND_NS;
}

void socket_times_stamp(struct socket_times *times, const struct net_etf *etf, struct socket_batch *batch,
                        const struct backend_packet *packets)
{
	uint64_t now_ns, offset_ns = times_tai_offset_ns(&now_ns);

	for (uint32_t i = 0; i < batch->n; i++) {
		uint64_t not_before_ns = packets[i].not_before_ns ? packets[i].not_before_ns + offset_ns : 0;
		struct msghdr *message = &batch->messages[i].msg_hdr;
		struct stamp *stamp = &times->stamps[i];
		struct cmsghdr *control;

		stamp->time_ns = socket_times_choose(etf, not_before_ns, now_ns);
		message->msg_control = stamp->control;
		message->msg_controllen = sizeof(stamp->control);
		control = CMSG_FIRSTHDR(message);
		*control = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(stamp->time_ns)),
		                            .cmsg_level = SOL_SOCKET,
		                            .cmsg_type = SCM_TXTIME};
		memcpy(CMSG_DATA(control), &stamp->time_ns, sizeof(stamp->time_ns));
	}
}

void socket_times_note(struct socket_times *times, const struct backend_packet *packets, uint32_t n, bool is_stamped,
                       enum backend_status status)
{
	for (uint32_t i = 0; i < n; i++)
		times->flights[times->next++ % times->slots] = (struct flight){
			.headers = packets[i].headers,
			.not_before_ns = packets[i].not_before_ns,
			.time_ns = is_stamped ? times->stamps[i].time_ns : 0,
			.header_bytes = packets[i].header_bytes,
			.has_ended = !is_stamped || status != BACKEND_OK,
			.status = (uint8_t)status,
		};
}

/* ---- reports -------------------------------------------------------------------------------------- */

/*
 * Are these the headers of the packet, but for the checksums, which the kernel or the driver fills in? In IPv4, with
 * or without a VLAN tag, the identification is among them. Of IPv6 packets with the same headers, which are as long and
 * have the same destination, any may be meant: the first one is taken.
 */
static bool flight_is_of(const struct flight *flight, const uint8_t *frame, uint32_t bytes)
{
	const uint8_t *headers = flight->headers;
	uint32_t l3 = headers[ETH_HLEN - 2] == ETH_P_8021Q >> 8 && headers[ETH_HLEN - 1] == (ETH_P_8021Q & 0xff)
	                      ? ETH_HLEN + 4
	                      : ETH_HLEN;
	uint32_t rest = l3 + IP_ADDRESSES_AT, n = flight->header_bytes;

	return bytes >= n && memcmp(headers, frame, l3 + IP_CHECKSUM_AT) == 0 &&
	       memcmp(headers + rest, frame + rest, n - sizeof(uint16_t) - rest) == 0;
}

/*
 * The report on a packet that ended, with the first bytes of its frame. left_ns: when it left, UTC, or 0: it was
 * dropped, and dropped_ns was its time. A report on no packet that the kernel has is ignored.
 */
static void socket_times_take_report(struct socket_times *times, const uint8_t *frame, uint32_t bytes, uint64_t left_ns,
                                     uint64_t dropped_ns)
{
	for (uint64_t i = times->first; i != times->next; i++) {
		struct flight *flight = &times->flights[i % times->slots];

		if (flight->has_ended || (left_ns == 0 && flight->time_ns != dropped_ns) ||
		    !flight_is_of(flight, frame, bytes))
			continue;
		flight->has_ended = true;
		flight->status = left_ns ? BACKEND_OK : BACKEND_LATE;
		flight->is_measured = left_ns && flight->not_before_ns;
		if (flight->is_measured && left_ns > flight->not_before_ns)
			flight->late_ns = (uint32_t)u64_min(left_ns - flight->not_before_ns, UINT32_MAX);
		return;
	}
}

static void times_take_message(struct socket_times *times, const struct mmsghdr *report, const uint8_t *frame)
{
	struct msghdr *message = (struct msghdr *)&report->msg_hdr;
	struct sock_extended_err what = {0};
	struct scm_timestamping when = {0};

	for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
		if (control->cmsg_level == SOL_PACKET && control->cmsg_type == PACKET_TX_TIMESTAMP)
			memcpy(&what, CMSG_DATA(control), sizeof(what));
		if (control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_TIMESTAMPING)
			memcpy(&when, CMSG_DATA(control), sizeof(when));
	}
	/* One that the discipline refuses at once is an error of the call, and the packet is tried again. */
	if (what.ee_origin == SO_EE_ORIGIN_TXTIME && what.ee_code == SO_EE_CODE_TXTIME_MISSED)
		socket_times_take_report(times, frame, report->msg_len, 0, (uint64_t)what.ee_data << 32 | what.ee_info);
	if (what.ee_origin == SO_EE_ORIGIN_TIMESTAMPING && what.ee_info == SCM_TSTAMP_SND)
		socket_times_take_report(times, frame, report->msg_len,
		                         (uint64_t)when.ts[0].tv_sec * TIME_SECOND_NS + (uint64_t)when.ts[0].tv_nsec,
		                         0);
}

static void times_read_reports(struct socket_times *times)
{
	_Alignas(struct cmsghdr) char controls[REPORTS][CONTROL_BYTES];
	uint8_t frames[REPORTS][PACKET_FRAGMENT_HEADERS_MAX];
	struct mmsghdr reports[REPORTS];
	struct iovec parts[REPORTS];
	int n;

	do {
		for (uint32_t i = 0; i < REPORTS; i++) {
			parts[i] = (struct iovec){frames[i], sizeof(frames[i])};
			reports[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i],
			                                     .msg_iovlen = 1,
			                                     .msg_control = controls[i],
			                                     .msg_controllen = CONTROL_BYTES};
		}
		n = recvmmsg(times->fd, reports, REPORTS, MSG_ERRQUEUE | MSG_DONTWAIT, NULL);
		for (int i = 0; i < n; i++)
			times_take_message(times, &reports[i], frames[i]);
	} while (n == REPORTS);
}

bool socket_times_waits(const struct socket_times *times)
{
	return times->first != times->next;
}

int socket_times_reap(struct socket_times *times, struct backend_sent *sent, uint32_t max)
{
	uint32_t n = 0;

	if (!socket_times_waits(times))
		return 0;
	times_read_reports(times);
	for (; n < max && times->first != times->next; times->first++) {
		struct flight *flight = &times->flights[times->first % times->slots];

		if (!flight->has_ended && time_tai_ns() < flight->time_ns + REPORT_NS)
			break;
		sent[n++] = (struct backend_sent){
			.n = 1,
			.status = flight->has_ended ? flight->status : BACKEND_SLOT_ERROR,
			.is_measured = flight->is_measured,
			.late_ns = flight->late_ns,
		};
	}
	return (int)n;
}
