// SPDX-License-Identifier: Apache-2.0
/* The messages of a connection: what each has in it, and how often it is sent. With the manager's lock. */
#ifndef SOFTHCA_CM_CM_LINK_H
#define SOFTHCA_CM_CM_LINK_H

#include "cm_transport.h"

/* Bytes of private data that the addresses take (struct cma_hdr). */
#define CM_ADDRESS_BYTES 36u
#define CM_UDP_QKEY      0x01234567u   /* RDMA_UDP_QKEY */
#define CM_TIMEWAIT_NS   1000000000ull /* twice a packet's life in the network (12.9.8.4; here 4.096 us << 17) */

#define CM_ACK_TIMEOUT 18 /* of a path of RoCE: cm_ack_timeout(16, CMA_IBOE_PACKET_LIFETIME) */

/* Sets the identifier of a connection and the number of its first packet, so that nobody can guess them (cm_alloc_id,
 * cma: seq_num). */
void cm_link_choose_numbers(struct cm_id *id);
/* The message with the identifiers of the connection. */
void cm_link_begin(struct cm_message *m, const struct cm_id *id, enum cm_attribute attribute);
/* Sends it once. */
void cm_link_send(struct cm_id *id, const struct cm_message *m);
/* Sends it until an answer comes. */
void cm_link_send_until_answered(struct cm_id *id, const struct cm_message *m);
void cm_link_stop_sending(struct cm_id *id);

/* Addresses of the identifier as they lie in front of the program's private data, and back. False if they are none. */
void cm_link_put_addresses(const struct cm_id *id, uint8_t to[CM_ADDRESS_BYTES]);
bool cm_link_get_addresses(struct cm_id *id, const uint8_t from[CM_ADDRESS_BYTES], uint16_t port);

#endif
