// SPDX-License-Identifier: Apache-2.0
/*
 * From what a channel's configuration says and what the kernel knows (net/neighbour.h) to the headers its worker
 * writes. Control thread, and again on each change of either.
 */
#ifndef DAEMON_CHANNEL_TX_HEADERS_H
#define DAEMON_CHANNEL_TX_HEADERS_H

#include "daemon/backend/backend.h"
#include "daemon/config/config.h"
#include "daemon/net/neighbour.h"
#include "daemon/net/net.h"
#include "daemon/worker/mailbox.h"

/** At start: payload_size and the interface's MTU; warns of a source that is not this machine's. Fault: file:line. */
int tx_headers_check(const struct config_channel *channel, const struct net_interface *interface,
                     struct failure *failure);

/** What udp_checksum comes to with this device. -ENOTSUP: "device", and it can't. */
int tx_headers_checksums(const struct config_channel *channel, const struct backend_capabilities *capabilities,
                         enum packet_checksums *checksums, struct failure *failure);

/** What to keep current for one of its destinations; changed and context are the caller's to set. */
void tx_headers_want(const struct config_channel *channel, uint32_t index, unsigned interface_index,
                     struct neighbour_wanted *wanted);

/**
 * One destination as its worker takes it (MAIL_DESTINATION): headers, or why there are none. -ENETDOWN: no link,
 * -EMSGSIZE: the MTU no longer allows payload_size, -EHOSTUNREACH: anything else. Pure.
 */
void tx_headers_make(const struct config_channel *channel, uint32_t index, enum packet_checksums checksums,
                     const struct next_hop *next_hop, struct tx_queue_destination *destination);

#endif
