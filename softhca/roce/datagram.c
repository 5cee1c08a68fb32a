// SPDX-License-Identifier: Apache-2.0
/* UD queue pairs: each work request is one packet, and nothing is acknowledged (IBTA volume 1, 9.8.3). */
#include "receive.h"
#include "roce_qp.h"
#include "send_wqe.h"

#include "../device/clock.h"

#include <endian.h>
#include <string.h>

#define QKEY_CONTROLLED (1u << 31)
#define FIRST_UDP_SPORT 0xc000
#define CQE_HAS_GRH     (1u << 28)

static bool datagram_set_path(const struct roce_qp *q, const struct hw_av_seg *av, struct roce_path *path)
{
	uint32_t gid_flow = be32toh(av->gid_flow_be);

	*path = (struct roce_path){
		.tclass = av->tclass,
		.hop_limit = av->hop_limit,
		.flow_label = gid_flow & 0xfffff,
		.udp_sport = av->udp_sport_be ? be16toh(av->udp_sport_be) : FIRST_UDP_SPORT,
	};
	memcpy(path->dmac, av->mac, sizeof(path->dmac));
	memcpy(path->dgid, av->gid, sizeof(path->dgid));
	return roce_set_source(q->roce, path, gid_flow >> 20 & 0xff);
}

/* Sends the datagram. 0 or the error; `*busy` if the wire takes no more now. */
static enum hw_syndrome datagram_send(struct roce_qp *q, const struct send_wqe *w, bool *busy)
{
	uint32_t qkey = be32toh(w->av.qkey_be);
	struct roce_packet p = {
		.opcode = w->opcode == HW_OPCODE_SEND_IMM ? UD_SEND_ONLY_IMM : UD_SEND_ONLY,
		.solicited = w->solicited,
		.dest_qpn = be32toh(w->av.qpn_be) & 0xffffff,
		.psn = q->requester.psn,
		/* IBTA 10.2.4: a program may not choose a controlled Q_Key; the queue pair's own is used then. */
		.qkey = qkey & QKEY_CONTROLLED ? q->attributes.qkey : qkey,
		.src_qpn = q->qp->qpn,
		.imm_be = w->imm_be,
		.bytes = w->bytes,
	};
	enum hw_syndrome error;
	struct roce_path path;
	uint8_t *to;

	if (w->bytes > q->attributes.mtu_bytes)
		return HW_SYNDROME_LOCAL_LENGTH;
	if (!datagram_set_path(q, &w->av, &path))
		return HW_SYNDROME_LOCAL_QP_OP;
	to = roce_begin(q->roce, &p, &path);
	*busy = !to;
	if (!to)
		return 0;
	error = send_wqe_copy(q->qp, w, 0, to, w->bytes, false);
	if (error)
		return error;
	q->requester.psn = psn_add(q->requester.psn, 1);
	roce_end(q->roce);
	return 0;
}

int datagram_work(struct roce_qp *q)
{
	struct qp *qp = q->qp;
	struct sq *sq = &qp->sq;
	int n = 0;

	for (; n < WIRE_SEND_MAX && sq->n_bb && sq->state == WQ_RDY && wq_posted(sq->dbrec) != sq->taken; n++) {
		uint16_t index = sq->taken;
		bool busy = false;
		struct send_wqe w;
		enum hw_syndrome error = send_wqe_read(qp, true, index, &w);

		if (!error && w.opcode != HW_OPCODE_NOP)
			error = datagram_send(q, &w, &busy);
		if (busy)
			break;
		sq->taken = (uint16_t)(sq->taken + w.n_bb);
		if (error) {
			cq_post_error(sq->cq, qp->uidx, qp->qpn, HW_CQE_REQ_ERR, index, error);
			roce_qp_set_state(q, QP_SQE);
		} else if (w.signalled) {
			send_wqe_complete(qp, index, w.opcode, w.bytes);
		}
	}
	return n;
}

static uint32_t datagram_source(const struct roce_packet *p)
{
	uint32_t l3 = p->version == ROCE_V1 ? HW_ROCE_GRH : p->ipv4 ? HW_ROCE_IPV4 : HW_ROCE_IPV6;

	return CQE_HAS_GRH | l3 << 24 | p->src_qpn;
}

/* IBTA 9.6.1 and 9.8.3: a datagram with another Q_Key is dropped and counted, and so is one for which there is no
 * receive work request. */
void datagram_receive(struct roce_qp *q, const struct roce_packet *p)
{
	uint8_t grh[ROCE_GRH_BYTES];
	enum hw_syndrome error;
	struct recv_wqe w;

	if (q->qp->rq.state != WQ_RDY)
		return;
	if (p->qkey != q->attributes.qkey) {
		q->roce->device->counters.qkey_violations++;
		return;
	}
	if (!receive_take(q, &w)) {
		q->roce->device->counters.out_of_buffer++;
		return;
	}
	roce_packet_grh(p, grh);
	error = receive_scatter(q, &w, 0, grh, sizeof(grh));
	if (!error)
		error = receive_scatter(q, &w, sizeof(grh), p->payload, p->bytes);
	if (error) {
		receive_fail(q, &w, error);
		if (error != HW_SYNDROME_LOCAL_LENGTH || q->roce->device->config.length_error_is_fatal)
			roce_qp_fail(q);
		return;
	}
	receive_complete(q, &w, p->opcode == UD_SEND_ONLY_IMM ? HW_CQE_RESP_SEND_IMM : HW_CQE_RESP_SEND,
	                 (uint32_t)sizeof(grh) + p->bytes, p, datagram_source(p));
}
