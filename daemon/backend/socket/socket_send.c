// SPDX-License-Identifier: Apache-2.0
/*
 * Sends with a packet socket: one sendmmsg() takes up to 64 packets from the worker's headers and the senders' payloads
 * to the interface's queueing discipline. The kernel copies them, so they have ended when the call returns. Only those
 * that a discipline is to send at a time end later (socket_times.h).
 */
#include "daemon/backend/socket/kernel_path.h"
#include "daemon/backend/socket/socket_batch.h"
#include "daemon/backend/socket/socket_times.h"
#include "daemon/net/net.h"
#include "lib/base/time.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* The driver had no room: try again after this time, which doubles. Without a link there is none for hours. */
#define ROOM_AGAIN_NS_MIN 50000
#define ROOM_AGAIN_NS_MAX 1000000
/* An ioctl() costs half as much as sending a packet. Two packets cost the same merged or one by one. */
#define LOOK_NS         1000000
#define GSO_PACKETS_MIN 4
/*
 * A discipline that keeps times gets a packet so much earlier than it lets it go, so that a worker that has no CPU for
 * some ms delays none. Packets that wait there have places in the queue.
 */
#define AHEAD_NS         10000000
#define REPORTS_AGAIN_NS 1000000
#define NO_REPORTS \
	"the driver does not report when a packet leaves (ethtool -T), and etf drops all packets of the channel"

struct socket_send {
	struct backend_queue base;
	char interface[IFNAMSIZ];
	union socket_batch_protocol protocols[2]; /* IPv4, IPv6 */
	struct socket_batch_rules rules;          /* of the batch that is sent */
	bool checksums;                           /* the kernel fills them in, but for packets that have them */
	bool may_use_gso;
	const struct socket_discipline *discipline;
	uint32_t priority;
	enum backend_send_time send_time; /* as asked for */
	struct socket_times *times;       /* NULL: its packets have no times */
	const char *no_times;             /* why */
	struct net_etf etf;               /* that its packets pass now */
	bool has_link;                    /* as it was then */
	uint64_t looked_ns;
	struct socket_batch batch;
	int fd;
	int timer_fd; /* wakes the worker; -1: none */
	uint32_t slots;
	uint32_t n_posted; /* and not reaped */
	bool waits_for_room;
	uint32_t room_again_ns; /* how long it waits for room, longer each time */
	/* How posted packets ended that are not reaped yet, in runs. */
	struct backend_sent *ended;
	uint32_t n_ended;
	uint32_t first_ended;
};

static struct socket_send *socket_send(const struct backend_queue *base)
{
	return (struct socket_send *)base;
}

/* Run i of those that ended and are not reaped. There are at most as many as slots. */
static struct backend_sent *send_ended(struct socket_send *send, uint32_t i)
{
	return &send->ended[(send->first_ended + i) % send->slots];
}

/* etf (tc-etf(8)) refuses a packet without a time, also where the worker sends each packet at its time. */
static bool send_stamps(const struct socket_send *send)
{
	return send->times && send->etf.flags & NET_ETF_THERE;
}

/* The kernel has taken the next n packets: they ended with this status, or will end after their time. */
static void send_note_taken(struct socket_send *send, const struct backend_packet *packets, uint32_t n,
                            enum backend_status status)
{
	struct backend_sent *last = send_ended(send, send->n_ended + send->slots - 1);

	send->n_posted += n;
	if (send->times)
		socket_times_note(send->times, packets, n, send_stamps(send), status);
	else if (send->n_ended > 0 && last->status == (uint8_t)status)
		last->n += n;
	else
		*send_ended(send, send->n_ended++) = (struct backend_sent){.n = n, .status = (uint8_t)status};
}

/* Without a link the kernel drops packets silently, so without a link the queue reports no room. */
static bool send_has_link(struct socket_send *send)
{
	uint64_t now_ns = time_monotonic_ns();
	struct ifreq request;

	if (now_ns - send->looked_ns < LOOK_NS)
		return send->has_link;
	memcpy(request.ifr_name, send->interface, sizeof(request.ifr_name));
	send->has_link = ioctl(send->fd, SIOCGIFFLAGS, &request) < 0 || !(request.ifr_flags & IFF_UP) ||
	                 request.ifr_flags & IFF_RUNNING;
	send->looked_ns = now_ns;
	return send->has_link;
}

/* The kernel does not compare the parts of a message that it will cut with the MTU. */
static uint32_t send_gso_mtu(const struct socket_send *send, uint32_t n)
{
	struct ifreq request;

	if (!send->may_use_gso || n < GSO_PACKETS_MIN || send_stamps(send) ||
	    !atomic_load_explicit(&send->discipline->is_whole, memory_order_relaxed))
		return 0;
	memcpy(request.ifr_name, send->interface, sizeof(request.ifr_name));
	return ioctl(send->fd, SIOCGIFMTU, &request) < 0 ? 0 : (uint32_t)request.ifr_mtu;
}

/*
 * Send up to SOCKET_BATCH_PACKETS. is_summed: they have their checksums, and are not merged. Returns how many ended,
 * sent or in error; 0: there is no room.
 */
static uint32_t send_batch(struct socket_send *send, const struct backend_packet *packets, uint32_t n, bool is_summed)
{
	uint32_t n_sent = 0;
	int n_messages;

	if (!send_has_link(send))
		return 0;
	send->rules.checksums = send->checksums && !is_summed;
	send->rules.gso_mtu = is_summed ? 0 : send_gso_mtu(send, n);
	socket_batch_fill(&send->batch, &send->rules, packets, n);
	if (send_stamps(send))
		socket_times_stamp(send->times, &send->etf, &send->batch, packets);
	n_messages = sendmmsg(send->fd, send->batch.messages, send->batch.n, MSG_DONTWAIT);
	for (int i = 0; i < n_messages; i++)
		n_sent += send->batch.n_packets[i];
	if (n_sent > 0) {
		send->room_again_ns = ROOM_AGAIN_NS_MIN;
		send_note_taken(send, packets, n_sent, BACKEND_OK);
		return n_sent;
	}
	if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR)
		return 0;
	if (errno == EINVAL && send->batch.n_packets[0] > 1) {
		send->may_use_gso = false; /* a kernel before 6.2 */
		return send_batch(send, packets, n, is_summed);
	}
	atomic_store_explicit(&send->base.error, strerrorname_np(errno), memory_order_relaxed);
	send_note_taken(send, packets, 1, BACKEND_SLOT_ERROR);
	return 1;
}

static int send_packets(struct socket_send *send, const struct backend_packet *packets, uint32_t n, bool is_summed)
{
	uint32_t n_free = send->slots - send->n_posted, done = 0;

	if (n > n_free)
		n = n_free;
	send->waits_for_room = false;
	while (done < n) {
		uint32_t left = n - done;
		uint32_t taken = send_batch(send, packets + done,
		                            left < SOCKET_BATCH_PACKETS ? left : SOCKET_BATCH_PACKETS, is_summed);

		done += taken;
		if (taken == 0) {
			send->waits_for_room = true;
			break;
		}
	}
	return (int)done;
}

/* Why the discipline does not keep the times of packets. NULL: it does. no_times: why packets have none, or NULL. */
static const char *etf_refusal(const struct net_etf *etf, const char *no_times)
{
	if (!(etf->flags & NET_ETF_THERE))
		return "no queueing discipline on the way of its packets keeps times (tc-etf(8))";
	if (no_times)
		return no_times;
	if (etf->flags & NET_ETF_DEADLINE)
		return "etf has deadline_mode, and drops all packets of the channel: set it up without deadline_mode";
	return etf->flags & NET_ETF_PARTIAL ? "only some of the queues of the channel's priority have etf" : NULL;
}

/* The same for the packets of a queue. Any thread. */
static const char *times_refusal(const struct socket_send *send, const struct net_etf *etf)
{
	const char *refusal = etf_refusal(etf, send->times ? NULL : send->no_times);

	if (refusal || send->send_time != BACKEND_SEND_TIME_WORKER)
		return refusal;
	return "asked for by send_time, or by a rate_limit_mbps that the worker keeps";
}

/* An interface without the discipline is nothing to tell of. */
static const char *socket_send_read_time(const struct backend_queue *base, const char **why)
{
	const struct socket_send *send = (const struct socket_send *)base;
	const struct net_etf etf = socket_discipline_etf(send->discipline, send->priority);
	const char *refusal = times_refusal(send, &etf);

	*why = etf.flags == 0 ? "" : refusal ? refusal : "etf sends each packet at its time";
	return refusal ? "worker" : etf.flags & NET_ETF_OFFLOAD ? "card" : "qdisc";
}

/* The discipline may have changed since the last round. */
static void send_follow_etf(struct socket_send *send)
{
	send->etf = socket_discipline_etf(send->discipline, send->priority);
	send->base.send_ahead_ns =
		send->etf.flags && !times_refusal(send, &send->etf) ? AHEAD_NS + send->etf.delta_ns : 0;
}

static int socket_send_post(struct backend_queue *base, const struct backend_packet *packets, uint32_t n)
{
	return send_packets(socket_send(base), packets, n, false);
}

static int socket_send_post_summed(struct backend_queue *base, const struct backend_packet *packets, uint32_t n)
{
	return send_packets(socket_send(base), packets, n, true);
}

static int send_reap_times(struct socket_send *send, struct backend_sent *sent, uint32_t max)
{
	int n = socket_times_reap(send->times, sent, max);

	send->n_posted -= (uint32_t)n;
	return n;
}

static int socket_send_reap(struct backend_queue *base, struct backend_sent *sent, uint32_t max)
{
	struct socket_send *send = socket_send(base);
	uint32_t n = send->n_ended < max ? send->n_ended : max;

	send_follow_etf(send);
	if (send->times)
		return send_reap_times(send, sent, max);
	for (uint32_t i = 0; i < n; i++) {
		sent[i] = *send_ended(send, i);
		send->n_posted -= sent[i].n;
	}
	send->first_ended = (send->first_ended + n) % send->slots;
	send->n_ended -= n;
	return (int)n;
}

/* ---- sleep --------------------------------------------------------------------------------------- */

static int socket_send_fd(const struct backend_queue *base)
{
	int fd = socket_send(base)->timer_fd;

	return fd >= 0 ? fd : -ENOTSUP;
}

static uint32_t send_nap_ns(const struct socket_send *send)
{
	if (send->waits_for_room)
		return send->room_again_ns;
	if (send->times)
		return socket_times_waits(send->times) ? REPORTS_AGAIN_NS : 0;
	return send->n_ended ? ROOM_AGAIN_NS_MIN : 0;
}

/* A worker waits for room only: packets have ended before send_post() returns, but for those that have a time. */
static int socket_send_arm(struct backend_queue *base)
{
	const struct socket_send *send = socket_send(base);
	const struct itimerspec soon = {.it_value.tv_nsec = send_nap_ns(send)};

	if (send->timer_fd < 0)
		return -ENOTSUP;
	return timerfd_settime(send->timer_fd, 0, &soon, NULL) == 0 ? 0 : -errno;
}

static void socket_send_clear(struct backend_queue *base)
{
	struct socket_send *send = socket_send(base);
	uint64_t n;

	if (read(send->timer_fd, &n, sizeof(n)) < 0)
		return; /* the timer has not run out */
	if (send->waits_for_room && send->room_again_ns < ROOM_AGAIN_NS_MAX)
		send->room_again_ns *= 2;
	send->waits_for_room = false;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* A socket sends at once. */
static int socket_send_start(struct backend_queue *)
{
	return 0;
}

static int socket_send_reset(struct backend_queue *base)
{
	struct socket_send *send = socket_send(base);

	send->n_posted = send->n_ended = send->first_ended = 0;
	if (send->times)
		socket_times_reset(send->times);
	send->waits_for_room = false;
	return 0;
}

/* Any state. */
static void socket_send_free(struct backend_queue *base)
{
	struct socket_send *send = socket_send(base);

	if (send->timer_fd >= 0)
		close(send->timer_fd);
	if (send->fd >= 0)
		close(send->fd);
	socket_times_free(send->times);
	free(send->ended);
	free(send);
}

static const struct backend_ops socket_send_ops = {
	.name = "packet socket",
	.start = socket_send_start,
	.fd = socket_send_fd,
	.arm = socket_send_arm,
	.clear = socket_send_clear,
	.reset = socket_send_reset,
	.send_post = socket_send_post,
	.send_post_summed = socket_send_post_summed,
	.send_reap = socket_send_reap,
	.read_send_time = socket_send_read_time,
	.destroy_queue = socket_send_free,
};

static int send_bind(struct socket_send *send, const struct socket_send_device *device)
{
	const struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = device->index};
	int on = 1;

	if (device->has_ethernet && setsockopt(send->fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)) < 0)
		return -errno;
	for (int i = 0; i < 2 && !device->has_ethernet; i++) {
		send->protocols[i].address = address;
		send->protocols[i].address.sll_protocol = htons(i ? ETH_P_IPV6 : ETH_P_IP);
		send->rules.protocols = send->protocols;
	}
	return bind(send->fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
}

static int send_set_up(struct socket_send *send, const struct socket_send_device *device,
                       const struct backend_send_options *options)
{
	send->checksums = options->checksums;
	send->may_use_gso = options->checksums;
	send->discipline = device->discipline;
	send->priority = options->priority;
	send->send_time = options->send_time;
	device->discipline->is_asked = true;
	socket_discipline_follow(device->discipline, device->interface, device->index);
	send->ended = calloc(options->slots, sizeof(*send->ended));
	if (!send->ended)
		return -ENOMEM;
	if (options->completion_events) {
		send->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
		if (send->timer_fd < 0)
			return -errno;
	}
	return send_bind(send, device);
}

/* Before Linux 6.1 a priority above 6 needs CAP_NET_ADMIN. */
static int send_set_priority(struct socket_send *send)
{
	if (send->priority == 0)
		return 0;
	return setsockopt(send->fd, SOL_SOCKET, SO_PRIORITY, &send->priority, sizeof(send->priority)) < 0 ? -errno : 0;
}

/* A discipline that drops packets without times may come later, when the daemon has given up the rights for times. */
static int send_set_up_times(struct socket_send *send, const struct socket_send_device *device)
{
	struct net_etf etf = socket_discipline_etf(device->discipline, send->priority);
	struct ifreq request;
	int r;

	memcpy(request.ifr_name, send->interface, sizeof(request.ifr_name));
	if (!(etf.flags & NET_ETF_THERE)) {
		send->no_times = "etf is newer than the channel, and drops its packets: restart ibvcapd";
	} else if (!device->has_ethernet) {
		send->no_times = "the interface has no Ethernet headers, and etf drops all packets of the channel";
	} else if (!net_reports_sends(device->interface)) {
		send->no_times = NO_REPORTS;
	} else {
		r = ioctl(send->fd, SIOCGIFMTU, &request) < 0
		            ? -errno
		            : socket_times_new(&send->times, send->fd, send->slots, (uint32_t)request.ifr_mtu);
		if (r < 0 && r != -EPERM)
			return r;
		send->no_times = "CAP_NET_ADMIN was missing when the channel was made, and etf drops all of its "
				 "packets: restart ibvcapd, with xdp.conf in its unit";
	}
	send_follow_etf(send);
	return 0;
}

static int send_refuse_qdisc(const char *interface, uint32_t priority, const char *refusal, struct failure *failure)
{
	return failure_set(failure, EX_UNAVAILABLE, ENOTSUP,
	                   "interface %s: send_time = \"qdisc\" for packets of priority %u: %s; accepted is \"auto\"",
	                   interface, priority, refusal);
}

static int send_check_times(const struct socket_send *send, struct failure *failure)
{
	const char *refusal = times_refusal(send, &send->etf);

	return send->send_time == BACKEND_SEND_TIME_QDISC && refusal
	               ? send_refuse_qdisc(send->interface, send->priority, refusal, failure)
	               : 0;
}

int socket_check_send_time(const char *interface, uint32_t priority, struct failure *failure)
{
	struct socket_discipline discipline = {.is_asked = true};
	const char *refusal;
	struct net_etf etf;

	socket_discipline_follow(&discipline, interface, (int)if_nametoindex(interface));
	etf = socket_discipline_etf(&discipline, priority);
	refusal = etf_refusal(&etf, net_reports_sends(interface) ? NULL : NO_REPORTS);
	return refusal ? send_refuse_qdisc(interface, priority, refusal, failure) : 0;
}

int socket_send_new(const struct socket_send_device *device, const struct backend_send_options *options,
                    struct backend_queue **queue, struct failure *failure)
{
	struct socket_send *send = calloc(1, sizeof(*send));
	int r;

	if (!send)
		return failure_no_memory(failure);
	*send = (struct socket_send){
		.base = {.ops = &socket_send_ops},
		.fd = kernel_path_open_socket(device->interface, device->has_ethernet ? SOCK_RAW : SOCK_DGRAM, failure),
		.timer_fd = -1,
		.slots = options->slots,
		.room_again_ns = ROOM_AGAIN_NS_MIN,
	};
	snprintf(send->interface, sizeof(send->interface), "%s", device->interface);
	r = send->fd;
	if (r >= 0) {
		r = send_set_up(send, device, options);
		if (r == 0)
			r = send_set_priority(send);
		if (r == 0)
			r = send_set_up_times(send, device);
		if (r < 0)
			failure_set(failure, EX_OSERR, -r, "interface %s: cannot make a send queue: %s",
			            device->interface, strerror(-r));
		else
			r = send_check_times(send, failure);
	}
	if (r < 0)
		socket_send_free(&send->base);
	else
		*queue = &send->base;
	return r < 0 ? r : 0;
}
