// SPDX-License-Identifier: Apache-2.0
/*
 * How much shared memory a stream or a sender takes, from the configuration alone: the daemon makes it, and the
 * doctor asks how much it will be. Pure.
 */
#ifndef DAEMON_MEMORY_GEOMETRY_H
#define DAEMON_MEMORY_GEOMETRY_H

#include "daemon/config/config.h"
#include "daemon/ring/rx_ring.h"

#include <stdbool.h>
#include <stdint.h>

/**
 * Rows that the device of a queue has at once. A device that writes to them needs one for each packet that comes while
 * the worker does not run. If the backend copies packets, they wait in the kernel, and two batches of rows are enough;
 * but when a lossless consumer stalls the queue, packets still fill the rows that the device has.
 */
uint32_t geometry_posted_slots(const struct config_stream *stream, bool copies);

struct rx_ring_options geometry_of_ring(const struct config_stream *stream, bool copies, uint32_t queue,
                                        uint64_t epoch);

/** Bytes of the rings of a stream, in pages of its page_bytes: payload, unless it is lent, and headers of all of its
 * queues. */
uint64_t geometry_ring_bytes(const struct config_stream *stream, bool copies);

/** Bytes of memory that a consumer lends for the payload rows of a stream with payload_is_lent. */
uint64_t geometry_lent_bytes(const struct config_stream *stream);

/** Bytes of the longest IP packet that fits a row, for the MTU. */
uint32_t geometry_packet_bytes(const struct config_stream *stream);

/** Are IP fragments reassembled to datagrams on an interface with that MTU? */
bool geometry_reassembles(const struct config_stream *stream, uint32_t mtu);

/**
 * Bytes of the longest frame, without FCS, that a stream with reassembly takes: that of the interface's MTU or of jumbo
 * frames, because an administrator may raise the MTU while the stream runs.
 */
uint32_t geometry_reassembled_frame_bytes(uint32_t mtu);

/** Bytes of the IP and UDP headers of a packet that is sent: an MTU counts them and the payload, but not the Ethernet
 * header and the VLAN tag. */
uint32_t geometry_ip_udp_bytes(sa_family_t family);

/** Bytes of the longest IP packet that the channel sends, for the MTU. */
uint32_t geometry_sent_packet_bytes(const struct config_channel *channel);

/**
 * 0: the channel cuts no packets on an interface with that MTU. Else it cuts IP packets that are longer than the MTU of
 * the moment, or than this: the MTU at start or that of jumbo frames, as above.
 */
uint32_t geometry_cut_bytes(const struct config_channel *channel, uint32_t mtu);

/** Bytes of a frame that the device's queue has room for: a row, or a fragment to be reassembled. */
uint32_t geometry_received_bytes(const struct config_stream *stream, uint32_t mtu);

/** Bytes of the arena of one sender, in pages of the channel's page_bytes. */
uint64_t geometry_arena_bytes(const struct config_channel *channel);

#endif
