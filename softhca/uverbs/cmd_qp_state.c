// SPDX-License-Identifier: Apache-2.0
/*
 * MODIFY_QP and QUERY_QP, and the state machine of raw packet queue pairs (RC and UD: cmd_roce.c). It allows the
 * transitions that both ib_core (qp_state_table for IB_QPT_RAW_PACKET) and mlx5_ib (optab and modify_raw_packet_qp)
 * allow. So there is no way to SQD, and from SQE only to RESET and ERR.
 */
#include "../device/refuse.h"
#include "command.h"
#include "pitfalls.h"
#include "qp_attr.h"

#include "../roce/roce_qp.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

static qp_transitions raw_transitions = {
	[QP_RESET] = {[QP_RESET] = QP_PLAIN, [QP_INIT] = QP_NEEDS(QP_ATTR_PORT, 0)},
	[QP_INIT] = {[QP_RESET] = QP_PLAIN, [QP_INIT] = QP_PLAIN, [QP_RTR] = QP_PLAIN, [QP_ERR] = QP_PLAIN},
	[QP_RTR] = {[QP_RESET] = QP_PLAIN, [QP_RTS] = QP_NEEDS(0, QP_ATTR_RATE_LIMIT), [QP_ERR] = QP_PLAIN},
	[QP_RTS] = {[QP_RESET] = QP_PLAIN, [QP_RTS] = QP_NEEDS(0, QP_ATTR_RATE_LIMIT), [QP_ERR] = QP_PLAIN},
	[QP_SQE] = {[QP_RESET] = QP_PLAIN, [QP_ERR] = QP_PLAIN},
	[QP_ERR] = {[QP_RESET] = QP_PLAIN, [QP_ERR] = QP_PLAIN},
};

static int uqp_check_transition(const struct uqp *u, const struct ib_uverbs_modify_qp *req, enum qp_state *to)
{
	uint32_t mask = req->attr_mask;
	enum qp_state from = u->qp.state;

	if ((mask & QP_ATTR_STATE) && req->qp_state > QP_ERR)
		return refuse(EINVAL, "qp_state", "no such state", "ib_core: ib_modify_qp_is_ok");
	*to = mask & QP_ATTR_STATE ? (enum qp_state)req->qp_state : from;
	if ((mask & QP_ATTR_PORT) && (!req->port_num || req->port_num > device_port(u->qp.device)))
		return refuse(EINVAL, "port_num", "no such port", "ib_uverbs: modify_qp");
	/* mlx5_ib: create_flow_rule_vport_sq. What is sent needs the port's representor. */
	if (*to == QP_RTS && u->qp.sq.n_bb && u->port != device_port(u->qp.device))
		return refuse(EINVAL, "port_num", "a send queue needs the port that has a representor",
		              "mlx5_ib: create_flow_rule_vport_sq");
	return qp_check_transition(raw_transitions, from, *to, mask);
}

/* mlx5_ib: __mlx5_ib_modify_qp; mlx5_core: mlx5_rl_add_rate. */
static int uqp_check_rate(const struct profile *p, bool has_sq, uint32_t rate_kbps,
                          const struct mlx5_ib_burst_info *burst)
{
	if ((burst->max_burst_sz || burst->typical_pkt_sz) && (!rate_kbps || !p->pacing_burst))
		return refuse(EINVAL, "max_burst_sz, typical_pkt_sz", "bursts without a rate, or not supported",
		              "mlx5_ib: __mlx5_ib_modify_qp");
	if (has_sq && rate_kbps && (!p->max_rate_kbps || rate_kbps < p->min_rate_kbps || rate_kbps > p->max_rate_kbps))
		return refuse(EINVAL, "rate_limit", "out of the range of qp_rate_limit", "mlx5_core: mlx5_rl_add_rate");
	return 0;
}

#define MAX_RATES 256

/* mlx5_core: find_rl_entry. The table holds n_rates different rates; the current rate of this queue counts, too. */
static bool uqp_rate_fits(const struct device *d, const struct pacing *wanted)
{
	const struct pacing *table[MAX_RATES];
	uint32_t n = 0, i;
	const struct qp *qp;

	TAILQ_FOREACH (qp, &d->qps, link) {
		const struct pacing *p = &qp->sq.pacing;

		if (pacing_is_equal(p, wanted))
			return true;
		for (i = 0; i < n && !pacing_is_equal(table[i], p); i++)
			;
		if (p->rate_kbps && i == n && n < MAX_RATES)
			table[n++] = p;
	}
	return n < d->config.profile->n_rates;
}

/* With the lock held. */
static int uqp_modify(struct uqp *u, const struct ib_uverbs_ex_modify_qp *req, const struct mlx5_ib_burst_info *burst)
{
	struct qp *qp = &u->qp;
	bool paced = (req->base.attr_mask & QP_ATTR_RATE_LIMIT) && qp->sq.n_bb;
	struct pacing pacing;
	enum qp_state to;
	int r;

	if (qp->rss)
		return refuse(ENOSYS, "qp", "a queue pair with RSS cannot be modified", "mlx5_ib: mlx5_ib_modify_qp");
	r = uqp_check_transition(u, &req->base, &to);
	if (!r && (req->base.attr_mask & QP_ATTR_RATE_LIMIT))
		r = uqp_check_rate(qp->device->config.profile, paced, req->rate_limit, burst);
	pacing_set(&pacing, req->rate_limit, burst->max_burst_sz, burst->typical_pkt_sz);
	if (!r && paced && req->rate_limit && !uqp_rate_fits(qp->device, &pacing))
		r = refuse(ENOSPC, "rate_limit", "the table of rates is full", "mlx5_core: find_rl_entry");
	if (r)
		return r;
	if (req->base.attr_mask & QP_ATTR_PORT)
		u->port = req->base.port_num;
	if (to == QP_RESET && qp->state != QP_RESET) {
		pitfall_of_reset(qp->sq.cq, qp->uidx, qp->qpn);
		pitfall_of_reset(qp->rq.cq, qp->uidx, qp->qpn);
	}
	if (to != qp->state)
		qp_set_state(qp, to);
	if (paced && !pacing_is_equal(&qp->sq.pacing, &pacing))
		qp->sq.pacing = pacing;
	return 0;
}

static int uqp_modify_by_handle(struct command *c, const struct ib_uverbs_ex_modify_qp *req)
{
	struct mlx5_ib_modify_qp drv;
	struct uqp *u;
	bool roce;
	int r = command_in(&drv, sizeof(drv), c->drv_in, c->drv_in_bytes);

	if (r)
		return r;
	if (c->drv_in_bytes && c->drv_in_bytes < sizeof(drv))
		return -EINVAL;
	if (drv.comp_mask || drv.burst_info.reserved)
		return -EOPNOTSUPP;
	device_lock(c->file->device);
	u = object_find(c->file, req->base.qp_handle, OBJECT_QP);
	roce = u && u->qp.roce;
	if (!roce)
		r = u ? uqp_modify(u, req, &drv.burst_info) : -EINVAL;
	device_unlock(c->file->device);
	return roce ? roce_modify(c, &req->base) : r;
}

int cmd_modify_qp(struct command *c)
{
	struct ib_uverbs_ex_modify_qp req = {};
	int r = COMMAND_IN(c, &req.base);

	if (r)
		return r;
	return req.base.attr_mask & ~QP_ATTR_STANDARD ? -EOPNOTSUPP : uqp_modify_by_handle(c, &req);
}

int cmd_ex_modify_qp(struct command *c)
{
	struct ib_uverbs_ex_modify_qp_resp resp = {.response_length = sizeof(resp)};
	struct ib_uverbs_ex_modify_qp req;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (req.base.attr_mask & ~(QP_ATTR_STANDARD | QP_ATTR_RATE_LIMIT))
		return refuse(EOPNOTSUPP, "attr_mask", "unknown attribute", "ib_uverbs: ib_uverbs_ex_modify_qp");
	r = uqp_modify_by_handle(c, &req);
	if (!r)
		COMMAND_OUT(c, &resp);
	return r;
}

int uqp_query_state(struct uqp *u)
{
	return u->qp.roce ? (int)roce_qp_query_state(u->qp.roce) : qp_query_state(&u->qp);
}

int cmd_query_qp(struct command *c)
{
	struct ib_uverbs_query_qp_resp resp = {};
	struct ib_uverbs_query_qp req;
	struct uqp *u;
	int state = -EINVAL, r = COMMAND_IN(c, &req);

	if (r)
		return r;
	device_lock(c->file->device);
	u = object_find(c->file, req.qp_handle, OBJECT_QP);
	if (u)
		state = u->qp.rss ? -ENOSYS : uqp_query_state(u);
	if (state >= 0) {
		/* libmlx5 fills in what the kernel does not know of the send queue. */
		resp.max_recv_wr = u->qp.rq.n_wqe;
		resp.max_recv_sge = u->max_recv_sge;
		resp.max_inline_data = u->max_inline;
		resp.qp_state = resp.cur_qp_state = (uint8_t)state;
		resp.port_num = 1; /* mlx5_ib_query_qp, whatever the port is */
		resp.sq_sig_all = u->qp.sq.signal_all;
		if (u->qp.roce)
			roce_query(u, &resp);
	}
	device_unlock(c->file->device);
	if (state < 0)
		return state;
	COMMAND_OUT(c, &resp);
	return 0;
}
