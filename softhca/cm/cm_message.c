// SPDX-License-Identifier: Apache-2.0
/* Reads and writes messages of the communication management protocol. */
#include "cm_message.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define HEAD_BYTES     24 /* of a management datagram (13.4.2) */
#define PKEY           0xffff
#define RATE           16 /* of a path: 100 Gb/s */
#define PERMISSIVE_LID 0xffff
#define GID_BITS       128

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

/* The fields of messages, by byte and bit behind the head. A field without a member is written, and not read. */
#define ANY 0 /* message, but REQ and those of SIDR */
#define BITS(message, byte, bit, bits, name)                                             \
	{                                                                                \
		message, (byte)*8 + (bit), bits, sizeof(((struct cm_message *)0)->name), \
			offsetof(struct cm_message, name), 0                             \
	}
#define FIELD(message, byte, bits, name) BITS(message, byte, 0, bits, name)
#define CONSTANT(message, byte, bits, value)         \
	{                                            \
		message, (byte)*8, bits, 0, 0, value \
	}
static const struct field {
	uint16_t message, at, bits, member_bytes, member, value;
} fields[] = {
	FIELD(ANY, 4, 32, remote_id),
	/* 12.6.5. The first timeout is of the sender, the second one of the receiver; they are the same here. */
	FIELD(CM_REQ, 8, 64, service),
	FIELD(CM_REQ, 16, 64, ca_guid),
	FIELD(CM_REQ, 28, 32, qkey),
	FIELD(CM_REQ, 32, 24, qpn),
	FIELD(CM_REQ, 35, 8, resp_resources),
	FIELD(CM_REQ, 39, 8, initiator_depth),
	FIELD(CM_REQ, 47, 5, response_timeout),
	FIELD(CM_REQ, 43, 5, response_timeout),
	BITS(CM_REQ, 43, 7, 1, flow_control),
	FIELD(CM_REQ, 44, 24, psn),
	BITS(CM_REQ, 47, 5, 3, retry_count),
	CONSTANT(CM_REQ, 48, 16, PKEY),
	FIELD(CM_REQ, 50, 4, mtu),
	BITS(CM_REQ, 50, 5, 3, rnr_retry_count),
	FIELD(CM_REQ, 51, 4, max_retries),
	BITS(CM_REQ, 51, 4, 1, srq),
	CONSTANT(CM_REQ, 52, 16, PERMISSIVE_LID), /* there are no local identifiers (annex A16) */
	CONSTANT(CM_REQ, 54, 16, PERMISSIVE_LID),
	FIELD(CM_REQ, 56, GID_BITS, sgid),
	FIELD(CM_REQ, 72, GID_BITS, dgid),
	CONSTANT(CM_REQ, 90, 16, RATE),
	FIELD(CM_REQ, 92, 8, tclass),
	FIELD(CM_REQ, 93, 8, hop_limit),
	FIELD(CM_REQ, 95, 5, ack_timeout),
	/* 12.6.8 */
	FIELD(CM_REP, 8, 32, qkey),
	FIELD(CM_REP, 12, 24, qpn),
	FIELD(CM_REP, 20, 24, psn),
	FIELD(CM_REP, 24, 8, resp_resources),
	FIELD(CM_REP, 25, 8, initiator_depth),
	FIELD(CM_REP, 26, 5, ack_timeout),
	BITS(CM_REP, 26, 7, 1, flow_control),
	FIELD(CM_REP, 27, 3, rnr_retry_count),
	BITS(CM_REP, 27, 3, 1, srq),
	FIELD(CM_REP, 28, 64, ca_guid),
	/* 12.6.6, 12.6.7, 12.6.10 */
	FIELD(CM_MRA, 8, 2, rejected),
	FIELD(CM_MRA, 9, 5, response_timeout),
	FIELD(CM_REJ, 8, 2, rejected),
	FIELD(CM_REJ, 10, 16, reason),
	FIELD(CM_DREQ, 8, 24, qpn),
	/* 12.11 */
	CONSTANT(CM_SIDR_REQ, 4, 16, PKEY),
	FIELD(CM_SIDR_REQ, 8, 64, service),
	FIELD(CM_SIDR_REP, 4, 8, status),
	FIELD(CM_SIDR_REP, 8, 24, qpn),
	FIELD(CM_SIDR_REP, 12, 64, service),
	FIELD(CM_SIDR_REP, 20, 32, qkey),
};
#define N_FIELDS (sizeof(fields) / sizeof(fields[0]))
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a member's bytes are the low ones of its value");

static bool field_is_of(const struct field *f, enum cm_attribute message)
{
	return f->message == ANY ? message != CM_REQ && message < CM_SIDR_REQ : f->message == message;
}

static uint64_t mad_get(const uint8_t *mad, unsigned int at, unsigned int bits)
{
	uint64_t v = 0;

	for (; bits; bits--, at++)
		v = v << 1 | (mad[at / 8] >> (7 - at % 8) & 1);
	return v;
}

/* Into zeros. */
static void mad_put(uint8_t *mad, unsigned int at, unsigned int bits, uint64_t v)
{
	for (; bits; bits--, at++)
		mad[at / 8] |= (uint8_t)((v >> (bits - 1) & 1) << (7 - at % 8));
}

bool cm_message_read(struct cm_message *m, const uint8_t *mad, uint32_t bytes)
{
	const uint8_t *body = mad + HEAD_BYTES;
	uint64_t v, attribute;

	if (bytes != CM_MAD_BYTES || mad[0] != BASE_VERSION || mad[1] != CLASS_CM || mad[2] != CLASS_VERSION ||
	    mad[3] != METHOD_SEND)
		return false;
	attribute = mad_get(mad, 128, 16);
	if (attribute < CM_REQ || attribute > CM_SIDR_REP)
		return false;
	memset(m, 0, sizeof(*m));
	m->attribute = (enum cm_attribute)attribute;
	m->transaction = mad_get(mad, 64, 64);
	m->local_id = (uint32_t)mad_get(body, 0, 32);
	for (const struct field *f = fields; f < fields + N_FIELDS; f++) {
		if (!field_is_of(f, m->attribute))
			continue;
		v = f->bits == GID_BITS ? 0 : mad_get(body, f->at, f->bits);
		memcpy((uint8_t *)m + f->member, f->bits == GID_BITS ? body + f->at / 8 : (uint8_t *)&v,
		       f->member_bytes);
	}
	memcpy(m->private_data, body + private_data[attribute - CM_REQ].offset, private_data[attribute - CM_REQ].bytes);
	return true;
}

void cm_message_write(const struct cm_message *m, uint8_t mad[CM_MAD_BYTES])
{
	static const uint8_t head[] = {BASE_VERSION, CLASS_CM, CLASS_VERSION, METHOD_SEND};
	uint8_t *body = mad + HEAD_BYTES;

	memset(mad, 0, CM_MAD_BYTES);
	memcpy(mad, head, sizeof(head));
	mad_put(mad, 64, 64, m->transaction);
	mad_put(mad, 128, 16, m->attribute);
	mad_put(body, 0, 32, m->local_id);
	for (const struct field *f = fields; f < fields + N_FIELDS; f++) {
		const uint8_t *member = (const uint8_t *)m + f->member;
		uint64_t v = f->value;

		if (!field_is_of(f, m->attribute))
			continue;
		if (f->bits == GID_BITS) {
			memcpy(body + f->at / 8, member, f->member_bytes);
			continue;
		}
		memcpy(&v, member, f->member_bytes);
		mad_put(body, f->at, f->bits, v);
	}
	memcpy(body + private_data[m->attribute - CM_REQ].offset, m->private_data,
	       private_data[m->attribute - CM_REQ].bytes);
}
