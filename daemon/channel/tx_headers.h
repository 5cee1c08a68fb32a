// SPDX-License-Identifier: Apache-2.0
/*
 * Makes the headers that a transmit worker writes, from a channel's configuration and from what the kernel knows of the
 * next hop (net/neighbour.h). Control thread only.
 */
#ifndef DAEMON_CHANNEL_TX_HEADERS_H
#define DAEMON_CHANNEL_TX_HEADERS_H

#include "daemon/backend/backend.h"
#include "daemon/config/config.h"
#include "daemon/net/neighbour.h"
#include "daemon/net/net.h"
#include "daemon/worker/mailbox.h"

/**
 * Does payload_size fit into the MTU, or may it be cut into fragments? Failure: EX_CONFIG with file:line. Warns of a
 * source that is no address of this machine.
 */
int tx_headers_check(const struct config_channel *channel, const struct net_interface *interface,
                     struct failure *failure);

/**
 * How udp_checksum is done with this device. cuts: packets may be cut, and by a checksum a receiver notices fragments
 * that it joined wrongly (RFC 4963). -ENOTSUP: the configuration says "device", and the device cannot.
 */
int tx_headers_checksums(const struct config_channel *channel, const struct backend_capabilities *capabilities,
                         bool cuts, enum packet_checksums *checksums, struct failure *failure);

/** Fill in the request to the neighbour table for one destination. The caller sets changed and context. */
void tx_headers_want(const struct config_channel *channel, uint32_t index, unsigned interface_index,
                     struct neighbour_wanted *wanted);

/**
 * One destination for the worker (MAIL_DESTINATION): its headers, or the reason why there are none. -ENETDOWN: the
 * link is down, -EMSGSIZE: the MTU no longer allows payload_size and the channel does not cut, -EHOSTUNREACH: any other
 * reason. A channel that cuts sets the destination's identification itself. Pure.
 */
void tx_headers_make(const struct config_channel *channel, uint32_t index, enum packet_checksums checksums, bool cuts,
                     const struct next_hop *next_hop, struct tx_queue_destination *destination);

#endif
