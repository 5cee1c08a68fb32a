// SPDX-License-Identifier: Apache-2.0
/*
 * Messages of the communication management protocol (IBTA volume 1, chapter 12; 12.6 and 12.11 have the layouts), as
 * they travel in management datagrams of 256 bytes to queue pair 1. Pure functions.
 */
#ifndef SOFTHCA_CM_CM_MESSAGE_H
#define SOFTHCA_CM_CM_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#define CM_MAD_BYTES     256
#define CM_PRIVATE_BYTES 224 /* the most that any message has */

enum cm_attribute {
	CM_REQ = 0x10,
	CM_MRA,
	CM_REJ,
	CM_REP,
	CM_RTU,
	CM_DREQ,
	CM_DREP,
	CM_SIDR_REQ,
	CM_SIDR_REP,
};

/* Reasons of a REJ (12.6.7.2). */
enum cm_reason {
	CM_REJ_TIMEOUT = 4,
	CM_REJ_INVALID_SERVICE = 8,
	CM_REJ_CONSUMER = 28,
	CM_REJ_VENDOR_OPTION = 35,
};

/* Status of a SIDR_REP (12.11.2.1.1). */
enum cm_sidr_status { CM_SIDR_SUCCESS, CM_SIDR_UNSUPPORTED, CM_SIDR_REJECT };

struct cm_message {
	enum cm_attribute attribute;
	uint64_t transaction;
	uint32_t local_id, remote_id; /* communication identifiers, as the sender has them; SIDR: the request's */
	uint64_t service, ca_guid;
	uint32_t qpn, qkey, psn;
	uint8_t resp_resources, initiator_depth, retry_count, rnr_retry_count, mtu, ack_timeout, response_timeout;
	uint8_t max_retries, hop_limit, tclass;
	bool srq, flow_control;
	uint8_t rejected; /* REJ, MRA: the message that is meant: REQ, REP, another */
	uint16_t reason;  /* REJ */
	uint8_t status;   /* SIDR_REP */
	uint8_t sgid[16], dgid[16];
	uint8_t private_data[CM_PRIVATE_BYTES];
};

/* How much private data a message has. */
unsigned int cm_message_private_bytes(enum cm_attribute attribute);

/* False if the datagram is not a message of this protocol. */
bool cm_message_read(struct cm_message *m, const uint8_t *mad, uint32_t bytes);
void cm_message_write(const struct cm_message *m, uint8_t mad[CM_MAD_BYTES]);

#endif
