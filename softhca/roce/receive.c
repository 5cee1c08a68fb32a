// SPDX-License-Identifier: Apache-2.0
/* Takes, fills and completes receive work requests of RC and UD. */
#include "receive.h"

#include "../wire/dma.h"

#include <endian.h>
#include <string.h>

bool receive_take(struct roce_qp *q, struct recv_wqe *w)
{
	return q->srq ? srq_take(q->srq, w) : rq_take(&q->qp->rq, w);
}

enum hw_syndrome receive_scatter(const struct roce_qp *q, const struct recv_wqe *w, uint32_t at, const uint8_t *from,
                                 uint32_t bytes)
{
	const struct pd *pd = q->srq ? q->srq->pd : q->qp->pd;

	for (uint32_t i = 0; bytes && i < w->n_segs; i++) {
		uint32_t lkey = be32toh(w->segs[i].lkey_be), room = be32toh(w->segs[i].byte_count_be), n;
		uint8_t *to;

		if (lkey == HW_INVALID_LKEY)
			break;
		if (at >= room) {
			at -= room;
			continue;
		}
		n = room - at < bytes ? room - at : bytes;
		if (lkey != MKEY_NULL) {
			to = mkey_translate(&q->roce->device->mkeys, pd, lkey, be64toh(w->segs[i].addr_be) + at, n,
			                    true);
			if (!to)
				return HW_SYNDROME_LOCAL_PROT;
			dma_copy(to, from, n);
		}
		from += n;
		bytes -= n;
		at = 0;
	}
	return bytes ? HW_SYNDROME_LOCAL_LENGTH : 0;
}

void receive_complete(struct roce_qp *q, const struct recv_wqe *w, enum hw_cqe_opcode opcode, uint32_t bytes,
                      const struct roce_packet *p, uint32_t source)
{
	struct cq *cq = q->qp->rq.cq;
	struct hw_cqe *cqe = cq_next(cq);

	if (!cqe)
		return;
	memset(cqe, 0, offsetof(struct hw_cqe, op_own));
	cqe->flags_rqpn_be = htobe32(source);
	cqe->uidx_be = htobe32(q->qp->uidx);
	cqe->imm_be = p->imm_be;
	cqe->byte_cnt_be = htobe32(bytes);
	cqe->timestamp_be = htobe64(cq_timestamp_now(cq));
	cqe->sop_drop_qpn_be = htobe32(q->qp->qpn);
	cqe->wqe_counter_be = htobe16(w->index);
	cq_post(cq, cqe, opcode);
	cq->solicited |= p->solicited;
}

void receive_fail(struct roce_qp *q, const struct recv_wqe *w, enum hw_syndrome error)
{
	cq_post_error(q->qp->rq.cq, q->qp->uidx, q->qp->qpn, HW_CQE_RESP_ERR, w->index, error);
}
