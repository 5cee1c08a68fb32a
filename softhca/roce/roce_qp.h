// SPDX-License-Identifier: Apache-2.0
/*
 * An RC or UD queue pair: a requester, which sends work requests and waits for acknowledgements, and a responder,
 * which takes requests and answers them (IBTA volume 1, 9.7). Both need the device's lock. Declares datagram.c,
 * requester.c, requester_progress.c, responder.c, roce_state.c.
 */
#ifndef SOFTHCA_ROCE_ROCE_QP_H
#define SOFTHCA_ROCE_ROCE_QP_H

#include "../device/qp.h"
#include "roce.h"

#define ROCE_MAX_RD_ATOMIC 16u

struct roce_attributes {
	struct roce_path path;
	uint32_t dest_qpn, qkey, access; /* access: enum ib_uverbs_access_flags */
	uint32_t sq_psn, rq_psn;
	uint32_t mtu_bytes;
	uint8_t mtu; /* enum ib_mtu */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
};

/* A work request that was begun. */
struct roce_sent {
	uint32_t psn, n_psns, bytes;
	uint16_t n_bb;
	uint8_t opcode;
	bool signalled;
};

struct roce_requester {
	struct roce_sent *sent; /* by block of the send queue, whose `taken` is the oldest that is not complete */
	uint16_t next;          /* the work request to send from */
	bool begun;             /* its entry in `sent` is set */
	uint32_t psn;           /* of the packet to send next */
	uint32_t una;           /* the oldest that is not acknowledged */
	unsigned int n_reads;   /* reads and atomics on the way */
	uint8_t retries_left, rnr_retries_left;
	uint32_t repeated_psn;             /* for which a gap has been reported; UINT32_MAX: none */
	uint64_t timeout_ns, rnr_until_ns; /* 0: not running */
};

/* A read or an atomic, as it is answered; kept for repetitions. */
struct roce_reply {
	bool atomic;
	uint32_t psn, n_psns, bytes;
	uint32_t first, next; /* packet of the response at which it begins, and to be sent next */
	uint32_t msn;
	uint64_t va, result;
	uint32_t rkey;
};

struct roce_responder {
	uint32_t psn; /* expected */
	uint32_t msn;
	uint32_t traits; /* of the message in progress: ROCE_SEND, ROCE_WRITE; 0: none */
	bool has_wqe;
	struct recv_wqe wqe;
	uint32_t received; /* bytes of the message */
	uint64_t va;       /* of a write */
	uint32_t rkey, left;
	bool gap_reported, established;
	bool ack_due;
	uint8_t syndrome; /* of the acknowledgement that is due */
	int fatal;        /* enum device_event that follows it; 0: none */
	struct roce_reply replies[ROCE_MAX_RD_ATOMIC];
	unsigned int n_replies, n_replied; /* accepted and sent, ever */
};

struct roce_group {
	uint8_t gid[16];
	LIST_ENTRY(roce_group) link;
};

struct roce_qp {
	struct qp *qp; /* its queues, their owner, and its number */
	struct roce *roce;
	struct srq *srq; /* or NULL */
	bool ud;
	struct roce_attributes attributes;
	struct roce_requester requester;
	struct roce_responder responder;
	LIST_HEAD(, roce_group) groups; /* multicast, UD */
};

/* Adds the state of RC or UD to a queue pair whose queues are set. 0 or -ENOMEM. */
int roce_qp_new(struct qp *qp, struct srq *srq, bool ud);
void roce_qp_free(struct roce_qp *q);

/* Goes to the next state, which the caller has checked and for which it has set the attributes. */
void roce_qp_set_state(struct roce_qp *q, enum qp_state state);
/* The state, in which errors show that the device has found. */
enum qp_state roce_qp_query_state(struct roce_qp *q);
/* The device has found an error: goes to the error state, which flushes both queues. */
void roce_qp_fail(struct roce_qp *q);

/* Requests of the peer, answers of the peer, and a datagram. */
void responder_receive(struct roce_qp *q, const struct roce_packet *p);
void requester_receive(struct roce_qp *q, const struct roce_packet *p);
void datagram_receive(struct roce_qp *q, const struct roce_packet *p);

/* Send packets that are due. They return a number that is not 0 if they have done something. */
int responder_work(struct roce_qp *q);
int requester_work(struct roce_qp *q, uint64_t now_ns);
int datagram_work(struct roce_qp *q);

/* The number of packets of a message. */
static inline uint32_t roce_n_packets(const struct roce_qp *q, uint32_t bytes)
{
	return bytes ? (bytes + q->attributes.mtu_bytes - 1) / q->attributes.mtu_bytes : 1;
}

#endif
