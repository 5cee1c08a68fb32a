// SPDX-License-Identifier: Apache-2.0
/* Reads and writes messages of the communication management protocol. */
#include "cm_message.h"

#include <endian.h>
#include <string.h>

#define HEAD_BYTES 24 /* of a management datagram (13.4.2) */
#define PKEY       0xffff
#define RATE       16 /* of a path: 100 Gb/s */

enum { BASE_VERSION = 1, CLASS_CM = 7, CLASS_VERSION = 2, METHOD_SEND = 3 };

/* Where the private data of each message lies, behind the head. */
static const struct {
	uint8_t offset, bytes;
} private_data[] = {
	[CM_REQ - CM_REQ] = {140, 92}, [CM_MRA - CM_REQ] = {10, 222},      [CM_REJ - CM_REQ] = {84, 148},
	[CM_REP - CM_REQ] = {36, 196}, [CM_RTU - CM_REQ] = {8, 224},       [CM_DREQ - CM_REQ] = {12, 220},
	[CM_DREP - CM_REQ] = {8, 224}, [CM_SIDR_REQ - CM_REQ] = {16, 216}, [CM_SIDR_REP - CM_REQ] = {96, 136},
};

unsigned int cm_message_private_bytes(enum cm_attribute attribute)
{
	return private_data[attribute - CM_REQ].bytes;
}

static uint32_t mad_get16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t mad_get32(const uint8_t *at)
{
	return mad_get16(at) << 16 | mad_get16(at + 2);
}

static uint64_t mad_get64(const uint8_t *at)
{
	return (uint64_t)mad_get32(at) << 32 | mad_get32(at + 4);
}

static void mad_put16(uint8_t *at, uint32_t v)
{
	at[0] = (uint8_t)(v >> 8);
	at[1] = (uint8_t)v;
}

static void mad_put32(uint8_t *at, uint32_t v)
{
	mad_put16(at, v >> 16);
	mad_put16(at + 2, v);
}

static void mad_put64(uint8_t *at, uint64_t v)
{
	mad_put32(at, (uint32_t)(v >> 32));
	mad_put32(at + 4, (uint32_t)v);
}

/* 12.6.5 */
static void read_req(struct cm_message *m, const uint8_t *at)
{
	m->remote_id = 0;
	m->service = mad_get64(at + 8);
	m->ca_guid = mad_get64(at + 16);
	m->qkey = mad_get32(at + 28);
	m->qpn = mad_get32(at + 32) >> 8;
	m->resp_resources = at[35];
	m->initiator_depth = at[39];
	m->response_timeout = at[43] >> 3;
	m->flow_control = at[43] & 1;
	m->psn = mad_get32(at + 44) >> 8;
	m->retry_count = at[47] & 7;
	m->mtu = at[50] >> 4;
	m->rnr_retry_count = at[50] & 7;
	m->max_retries = at[51] >> 4;
	m->srq = at[51] >> 3 & 1;
	memcpy(m->sgid, at + 56, 16);
	memcpy(m->dgid, at + 72, 16);
	m->tclass = at[92];
	m->hop_limit = at[93];
	m->ack_timeout = at[95] >> 3;
}

static void write_req(const struct cm_message *m, uint8_t *at)
{
	mad_put32(at + 4, 0);
	mad_put64(at + 8, m->service);
	mad_put64(at + 16, m->ca_guid);
	mad_put32(at + 28, m->qkey);
	mad_put32(at + 32, m->qpn << 8 | m->resp_resources);
	mad_put32(at + 36, m->initiator_depth);
	mad_put32(at + 40, (uint32_t)m->response_timeout << 3 | m->flow_control);
	mad_put32(at + 44, m->psn << 8 | (uint32_t)m->response_timeout << 3 | m->retry_count);
	mad_put16(at + 48, PKEY);
	at[50] = (uint8_t)(m->mtu << 4 | m->rnr_retry_count);
	at[51] = (uint8_t)(m->max_retries << 4 | m->srq << 3);
	mad_put32(at + 52, 0xffffffff); /* permissive local identifiers: there are none (annex A16) */
	memcpy(at + 56, m->sgid, 16);
	memcpy(at + 72, m->dgid, 16);
	mad_put32(at + 88, RATE);
	at[92] = m->tclass;
	at[93] = m->hop_limit;
	at[95] = (uint8_t)(m->ack_timeout << 3);
}

/* 12.6.8 */
static void read_rep(struct cm_message *m, const uint8_t *at)
{
	m->qkey = mad_get32(at + 8);
	m->qpn = mad_get32(at + 12) >> 8;
	m->psn = mad_get32(at + 20) >> 8;
	m->resp_resources = at[24];
	m->initiator_depth = at[25];
	m->ack_timeout = at[26] >> 3;
	m->flow_control = at[26] & 1;
	m->rnr_retry_count = at[27] >> 5;
	m->srq = at[27] >> 4 & 1;
	m->ca_guid = mad_get64(at + 28);
}

static void write_rep(const struct cm_message *m, uint8_t *at)
{
	mad_put32(at + 8, m->qkey);
	mad_put32(at + 12, m->qpn << 8);
	mad_put32(at + 20, m->psn << 8);
	at[24] = m->resp_resources;
	at[25] = m->initiator_depth;
	at[26] = (uint8_t)(m->ack_timeout << 3 | m->flow_control);
	at[27] = (uint8_t)(m->rnr_retry_count << 5 | m->srq << 4);
	mad_put64(at + 28, m->ca_guid);
}

static void read_sidr_rep(struct cm_message *m, const uint8_t *at)
{
	m->status = at[4];
	m->qpn = mad_get32(at + 8) >> 8;
	m->service = mad_get64(at + 12);
	m->qkey = mad_get32(at + 20);
}

static void write_sidr_rep(const struct cm_message *m, uint8_t *at)
{
	mad_put32(at + 4, (uint32_t)m->status << 24);
	mad_put32(at + 8, m->qpn << 8);
	mad_put64(at + 12, m->service);
	mad_put32(at + 20, m->qkey);
}

bool cm_message_read(struct cm_message *m, const uint8_t *mad, uint32_t bytes)
{
	const uint8_t *at = mad + HEAD_BYTES;
	uint32_t attribute;

	if (bytes != CM_MAD_BYTES || mad[0] != BASE_VERSION || mad[1] != CLASS_CM || mad[2] != CLASS_VERSION ||
	    mad[3] != METHOD_SEND)
		return false;
	attribute = mad_get16(mad + 16);
	if (attribute < CM_REQ || attribute > CM_SIDR_REP)
		return false;
	memset(m, 0, sizeof(*m));
	m->attribute = (enum cm_attribute)attribute;
	m->transaction = mad_get64(mad + 8);
	m->local_id = mad_get32(at);
	m->remote_id = mad_get32(at + 4);
	switch (m->attribute) {
	case CM_REQ:
		read_req(m, at);
		break;
	case CM_REP:
		read_rep(m, at);
		break;
	case CM_REJ:
		m->rejected = at[8] >> 6;
		m->reason = (uint16_t)mad_get16(at + 10);
		break;
	case CM_MRA:
		m->rejected = at[8] >> 6;
		m->response_timeout = at[9] >> 3;
		break;
	case CM_DREQ:
		m->qpn = mad_get32(at + 8) >> 8;
		break;
	case CM_SIDR_REQ:
		m->service = mad_get64(at + 8);
		break;
	case CM_SIDR_REP:
		read_sidr_rep(m, at);
		break;
	default:
		break;
	}
	memcpy(m->private_data, at + private_data[attribute - CM_REQ].offset, private_data[attribute - CM_REQ].bytes);
	return true;
}

void cm_message_write(const struct cm_message *m, uint8_t mad[CM_MAD_BYTES])
{
	uint8_t *at = mad + HEAD_BYTES;

	memset(mad, 0, CM_MAD_BYTES);
	mad_put32(mad, (uint32_t)BASE_VERSION << 24 | CLASS_CM << 16 | CLASS_VERSION << 8 | METHOD_SEND);
	mad_put64(mad + 8, m->transaction);
	mad_put16(mad + 16, m->attribute);
	mad_put32(at, m->local_id);
	mad_put32(at + 4, m->remote_id);
	switch (m->attribute) {
	case CM_REQ:
		write_req(m, at);
		break;
	case CM_REP:
		write_rep(m, at);
		break;
	case CM_REJ:
		at[8] = (uint8_t)(m->rejected << 6);
		mad_put16(at + 10, m->reason);
		break;
	case CM_DREQ:
		mad_put32(at + 8, m->qpn << 8);
		break;
	case CM_SIDR_REQ:
		mad_put32(at + 4, (uint32_t)PKEY << 16);
		mad_put64(at + 8, m->service);
		break;
	case CM_SIDR_REP:
		write_sidr_rep(m, at);
		break;
	default:
		break;
	}
	memcpy(at + private_data[m->attribute - CM_REQ].offset, m->private_data,
	       private_data[m->attribute - CM_REQ].bytes);
}
