// SPDX-License-Identifier: Apache-2.0
/*
 * Packets that the queueing discipline tc-etf(8) sends at their times. The kernel gets a packet with its time, and
 * tells later by the socket's error queue when the packet left, or that it was dropped because it could not leave in
 * time. A packet ends with that report. One thread. Inside the socket room only.
 */
#ifndef DAEMON_BACKEND_SOCKET_SOCKET_TIMES_H
#define DAEMON_BACKEND_SOCKET_SOCKET_TIMES_H

#include "daemon/backend/socket/socket_batch.h"
#include "daemon/net/net.h"

struct socket_times;

/**
 * Let the packets of a socket have times. mtu: of its interface, to have room for all reports. 0 or -errno; -EPERM:
 * CAP_NET_ADMIN is missing.
 */
int socket_times_new(struct socket_times **times, int fd, uint32_t slots, uint32_t mtu);
/** Does not close the socket. NULL is fine. */
void socket_times_free(struct socket_times *times);

/** Give each message of a batch its time; the batch has a message for each packet. etf: what they will pass. */
void socket_times_stamp(struct socket_times *times, const struct net_etf *etf, struct socket_batch *batch,
                        const struct backend_packet *packets);

/**
 * The kernel has taken the next n packets. BACKEND_OK: with the times of the last socket_times_stamp(), of which they
 * are the first. Else, or if is_stamped is false, they have ended like this.
 */
void socket_times_note(struct socket_times *times, const struct backend_packet *packets, uint32_t n, bool is_stamped,
                       enum backend_status status);

/** As send_reap(). */
int socket_times_reap(struct socket_times *times, struct backend_sent *sent, uint32_t max);

/** Does it wait for reports? */
bool socket_times_waits(const struct socket_times *times);

void socket_times_reset(struct socket_times *times);

/** The time of the discipline's clock at which a packet is to leave it. now_ns: of that clock. Pure. */
uint64_t socket_times_choose(const struct net_etf *etf, uint64_t not_before_ns, uint64_t now_ns);

#endif
