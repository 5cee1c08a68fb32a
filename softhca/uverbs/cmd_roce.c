// SPDX-License-Identifier: Apache-2.0
/*
 * The state machine of RC and UD queue pairs. It allows the transitions and attributes that both ib_core
 * (qp_state_table) and mlx5_ib (optab) allow. So there is no way to SQD.
 */
#include "command.h"
#include "qp_attr.h"

#include "../device/netdev.h"
#include "../device/refuse.h"
#include "../roce/roce_qp.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#define RTS_NEEDS (QP_ATTR_TIMEOUT | QP_ATTR_RETRY_CNT | QP_ATTR_RNR_RETRY | QP_ATTR_SQ_PSN | QP_ATTR_MAX_QP_RD_ATOMIC)
#define PATH_CHANGES \
	(QP_ATTR_CUR_STATE | QP_ATTR_ALT_PATH | QP_ATTR_ACCESS | QP_ATTR_MIN_RNR_TIMER | QP_ATTR_PATH_MIG_STATE)

static qp_transitions rc_transitions = {
	[QP_RESET] =
		{[QP_RESET] = QP_PLAIN, [QP_INIT] = QP_NEEDS(QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS, 0)},
	[QP_INIT] = {[QP_RESET] = QP_PLAIN,
                     [QP_INIT] = QP_NEEDS(0, QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS),
                     [QP_RTR] = QP_NEEDS(QP_ATTR_AV | QP_ATTR_PATH_MTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                                                 QP_ATTR_MAX_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                                         QP_ATTR_ALT_PATH | QP_ATTR_ACCESS | QP_ATTR_PKEY_INDEX),
                     [QP_ERR] = QP_PLAIN},
	[QP_RTR] = {[QP_RESET] = QP_PLAIN, [QP_RTS] = QP_NEEDS(RTS_NEEDS, PATH_CHANGES), [QP_ERR] = QP_PLAIN},
	[QP_RTS] = {[QP_RESET] = QP_PLAIN, [QP_RTS] = QP_NEEDS(0, PATH_CHANGES), [QP_ERR] = QP_PLAIN},
	[QP_ERR] = {[QP_RESET] = QP_PLAIN, [QP_ERR] = QP_PLAIN},
};

static qp_transitions ud_transitions = {
	[QP_RESET] = {[QP_RESET] = QP_PLAIN, [QP_INIT] = QP_NEEDS(QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_QKEY, 0)},
	[QP_INIT] = {[QP_RESET] = QP_PLAIN,
                     [QP_INIT] = QP_NEEDS(0, QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_QKEY),
                     [QP_RTR] = QP_NEEDS(0, QP_ATTR_PKEY_INDEX | QP_ATTR_QKEY),
                     [QP_ERR] = QP_PLAIN},
	[QP_RTR] = {[QP_RESET] = QP_PLAIN,
                    [QP_RTS] = QP_NEEDS(QP_ATTR_SQ_PSN, QP_ATTR_CUR_STATE | QP_ATTR_QKEY),
                    [QP_ERR] = QP_PLAIN},
	[QP_RTS] =
		{[QP_RESET] = QP_PLAIN, [QP_RTS] = QP_NEEDS(0, QP_ATTR_CUR_STATE | QP_ATTR_QKEY), [QP_ERR] = QP_PLAIN},
	[QP_SQE] =
		{[QP_RESET] = QP_PLAIN, [QP_RTS] = QP_NEEDS(0, QP_ATTR_CUR_STATE | QP_ATTR_QKEY), [QP_ERR] = QP_PLAIN},
	[QP_ERR] = {[QP_RESET] = QP_PLAIN, [QP_ERR] = QP_PLAIN},
};

static int roce_check_transition(const struct roce_qp *q, enum qp_state from, const struct ib_uverbs_modify_qp *req,
                                 enum qp_state *to)
{
	uint32_t mask = req->attr_mask;

	if (((mask & QP_ATTR_STATE) && req->qp_state > QP_ERR) ||
	    ((mask & QP_ATTR_CUR_STATE) && req->cur_qp_state > QP_ERR))
		return -EINVAL;
	/* mlx5_ib_modify_qp: the program's word for the current state counts. */
	if (mask & QP_ATTR_CUR_STATE)
		from = (enum qp_state)req->cur_qp_state;
	*to = mask & QP_ATTR_STATE ? (enum qp_state)req->qp_state : from;
	return qp_check_transition(q->ud ? ud_transitions : rc_transitions, from, *to, mask);
}

#define MTU_MIN     1 /* enum ib_mtu: 256 bytes */
#define MTU_MAX     5
#define MAX_TIMER   31
#define MAX_RETRIES 7

/* ib_uverbs modify_qp, ib_core _ib_modify_qp, mlx5_ib_modify_qp. */
static int roce_check_values(const struct device *d, const struct ib_uverbs_modify_qp *req)
{
	const uint32_t mask = req->attr_mask;
	const uint8_t max_rd_atomic = d->config.profile->max_rd_atomic;

	if ((mask & QP_ATTR_PORT) && (!req->port_num || req->port_num > device_port(d)))
		return -EINVAL;
	if ((mask & QP_ATTR_PKEY_INDEX) && req->pkey_index)
		return -EINVAL; /* the table has one entry */
	if ((mask & QP_ATTR_PATH_MTU) && (req->path_mtu < MTU_MIN || req->path_mtu > MTU_MAX))
		return -EINVAL;
	if (((mask & QP_ATTR_MAX_QP_RD_ATOMIC) && req->max_rd_atomic > max_rd_atomic) ||
	    ((mask & QP_ATTR_MAX_DEST_RD_ATOMIC) && req->max_dest_rd_atomic > max_rd_atomic))
		return refuse(EINVAL, "max_rd_atomic", "more than the device has", "mlx5_ib: mlx5_ib_modify_qp");
	if (((mask & QP_ATTR_RETRY_CNT) && req->retry_cnt > MAX_RETRIES) ||
	    ((mask & QP_ATTR_RNR_RETRY) && req->rnr_retry > MAX_RETRIES) ||
	    ((mask & QP_ATTR_TIMEOUT) && req->timeout > MAX_TIMER) ||
	    ((mask & QP_ATTR_MIN_RNR_TIMER) && req->min_rnr_timer > MAX_TIMER))
		return -EINVAL;
	return 0;
}

/* rdma_calc_flow_label, rdma_flow_label_to_udp_sport. */
static uint16_t roce_udp_sport(uint32_t flow_label, uint32_t qpn, uint32_t dest_qpn)
{
	uint64_t v = (uint64_t)qpn * dest_qpn;

	if (!flow_label) {
		v ^= v >> 20;
		v ^= v >> 40;
		flow_label = v & 0xfffff;
	}
	return (uint16_t)(((flow_label & 0x3fff) ^ (flow_label & 0xfc000) >> 14) | 0xc000);
}

static void roce_set_attributes(struct roce_qp *q, const struct ib_uverbs_modify_qp *req, const struct roce_path *path)
{
	struct roce_attributes *a = &q->attributes;
	const uint32_t mask = req->attr_mask;

	if (mask & QP_ATTR_AV)
		a->path = *path;
	if (mask & QP_ATTR_ACCESS)
		a->access = req->qp_access_flags;
	if (mask & QP_ATTR_QKEY)
		a->qkey = req->qkey;
	if (mask & QP_ATTR_PATH_MTU) {
		a->mtu = req->path_mtu;
		a->mtu_bytes = 128u << req->path_mtu;
	}
	if (mask & QP_ATTR_DEST_QPN)
		a->dest_qpn = req->dest_qp_num & 0xffffff;
	if (mask & QP_ATTR_RQ_PSN)
		a->rq_psn = req->rq_psn & 0xffffff;
	if (mask & QP_ATTR_SQ_PSN)
		a->sq_psn = req->sq_psn & 0xffffff;
	if (mask & QP_ATTR_TIMEOUT)
		a->timeout = req->timeout;
	if (mask & QP_ATTR_RETRY_CNT)
		a->retry_cnt = req->retry_cnt;
	if (mask & QP_ATTR_RNR_RETRY)
		a->rnr_retry = req->rnr_retry;
	if (mask & QP_ATTR_MIN_RNR_TIMER)
		a->min_rnr_timer = req->min_rnr_timer;
	if (mask & QP_ATTR_MAX_QP_RD_ATOMIC)
		a->max_rd_atomic = req->max_rd_atomic;
	if (mask & QP_ATTR_MAX_DEST_RD_ATOMIC)
		a->max_dest_rd_atomic = req->max_dest_rd_atomic;
	a->path.udp_sport = roce_udp_sport(a->path.flow_label, q->qp->qpn, a->dest_qpn);
}

/* With the lock held. */
static int roce_modify_locked(struct uqp *u, const struct ib_uverbs_modify_qp *req, const struct roce_path *path)
{
	struct roce_qp *q = u->qp.roce;
	enum qp_state to, from = roce_qp_query_state(q);
	int r = roce_check_transition(q, from, req, &to);

	if (!r)
		r = roce_check_values(u->qp.device, req);
	if (r)
		return r;
	/* (?) A path's MTU is at most the port's, as rdma_rxe has it (rxe_qp_chk_attr). */
	if ((req->attr_mask & QP_ATTR_PATH_MTU) && req->path_mtu > netdev_ib_mtu((int)u->qp.device->mtu))
		return refuse(EINVAL, "path_mtu", "more than the port's active MTU", "rdma_rxe: rxe_qp_chk_attr");
	if (req->attr_mask & QP_ATTR_PORT)
		u->port = req->port_num;
	if (q->ud) /* a datagram's limit is the port's */
		q->attributes.mtu_bytes = 128u << netdev_ib_mtu((int)u->qp.device->mtu);
	roce_set_attributes(q, req, path);
	if (to != u->qp.state)
		roce_qp_set_state(q, to);
	return 0;
}

int roce_modify(struct command *c, const struct ib_uverbs_modify_qp *req)
{
	struct device *d = c->file->device;
	struct roce_path path = {
		.tclass = req->dest.traffic_class,
		.hop_limit = req->dest.hop_limit,
		.flow_label = req->dest.flow_label & 0xfffff,
	};
	struct uqp *u;
	int r = 0;

	memcpy(path.dgid, req->dest.dgid, sizeof(path.dgid));
	if (req->attr_mask & QP_ATTR_AV) {
		r = req->dest.is_global
		            ? path_resolve(d, &path, req->dest.sgid_index, req->dest.port_num)
		            : refuse(EINVAL, "ah_attr.is_global", "RoCE needs a GRH", "ib_core: rdma_check_ah_attr");
		if (r)
			return r;
	}
	roce_read_gids(d);
	device_lock(d);
	u = object_find(c->file, req->qp_handle, OBJECT_QP);
	r = u && u->qp.roce ? roce_modify_locked(u, req, &path) : -EINVAL;
	if (!r && (req->attr_mask & QP_ATTR_AV))
		u->sgid_index = req->dest.sgid_index;
	device_unlock(d);
	return r;
}

void roce_query(const struct uqp *u, struct ib_uverbs_query_qp_resp *resp)
{
	const struct roce_qp *q = u->qp.roce;
	const struct roce_attributes *a = &q->attributes;

	memcpy(resp->dest.dgid, a->path.dgid, sizeof(resp->dest.dgid));
	resp->dest.flow_label = a->path.flow_label;
	resp->dest.sgid_index = u->sgid_index;
	resp->dest.hop_limit = a->path.hop_limit;
	resp->dest.traffic_class = a->path.tclass;
	resp->dest.is_global = !q->ud;
	resp->dest.port_num = u->port;
	resp->qkey = a->qkey;
	resp->rq_psn = q->ud ? 0 : q->responder.psn;
	resp->sq_psn = q->requester.psn;
	resp->dest_qp_num = a->dest_qpn;
	resp->qp_access_flags = a->access;
	resp->path_mtu = q->ud ? MTU_MAX : a->mtu;
	resp->max_rd_atomic = a->max_rd_atomic;
	resp->max_dest_rd_atomic = a->max_dest_rd_atomic;
	resp->min_rnr_timer = a->min_rnr_timer;
	resp->timeout = a->timeout;
	resp->retry_cnt = a->retry_cnt;
	resp->rnr_retry = a->rnr_retry;
}
