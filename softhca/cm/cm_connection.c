// SPDX-License-Identifier: Apache-2.0
/* The requests of programs: connect, accept, reject, disconnect, and the end (cma.c, cm.c). */
#include "cm_connection.h"

#include "../device/clock.h"

#include "../uverbs/qp_attr.h"
#include "cm_group.h"
#include "cm_link.h"
#include "cm_query.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>

static bool connect_put_data(struct cm_message *m, unsigned int offset, const struct rdma_ucm_conn_param *param)
{
	if (param->private_data_len > cm_message_private_bytes(m->attribute) - offset)
		return false;
	memcpy(m->private_data + offset, param->private_data, param->private_data_len);
	return true;
}

static uint8_t connect_retries(uint8_t n)
{
	return n < 7 ? n : 7;
}

/* cma_connect_ib, cma_resolve_ib_udp */
int cm_connect(struct cm_id *id, const struct rdma_ucm_conn_param *param)
{
	bool ud = id->qp_type == IB_UVERBS_QPT_UD;
	struct cm_message m;
	int r;

	if (id->state != CM_ROUTE_RESOLVED)
		return -EINVAL;
	r = cm_transport_open(id->file->cm);
	if (r)
		return r;
	cm_link_choose_numbers(id);
	id->link.ack_timeout = id->ack_timeout ? id->ack_timeout : CM_ACK_TIMEOUT;
	id->link.transaction = id->link.local_id;
	id->link.path_mtu = (uint8_t)cm_path_mtu(id);
	id->link.responder_resources = param->responder_resources;
	id->link.initiator_depth = param->initiator_depth;
	id->link.retry_count = connect_retries(param->retry_count);
	id->link.rnr_retry_count = connect_retries(param->rnr_retry_count);
	cm_link_begin(&m, id, ud ? CM_SIDR_REQ : CM_REQ);
	m.service = cm_id_service(id, &id->dst);
	m.qpn = param->qp_num;
	m.psn = id->link.own_psn;
	m.resp_resources = param->responder_resources;
	m.initiator_depth = param->initiator_depth;
	m.retry_count = id->link.retry_count;
	m.rnr_retry_count = id->link.rnr_retry_count;
	m.flow_control = param->flow_control;
	m.srq = param->srq;
	m.mtu = id->link.path_mtu;
	m.ack_timeout = id->link.ack_timeout;
	m.tclass = id->tos;
	m.hop_limit = CM_HOP_LIMIT;
	memcpy(m.sgid, id->path.sgid, 16);
	memcpy(m.dgid, id->path.dgid, 16);
	cm_link_put_addresses(id, m.private_data);
	if (!connect_put_data(&m, CM_ADDRESS_BYTES, param))
		return -EINVAL;
	id->state = CM_CONNECT;
	id->link.state = ud ? LINK_SIDR_SENT : LINK_REQ_SENT;
	cm_link_send_until_answered(id, &m);
	return 0;
}

/* cma_accept_ib, cma_send_sidr_rep */
static int accept_request(struct cm_id *id, const struct rdma_ucm_conn_param *param)
{
	bool ud = id->qp_type == IB_UVERBS_QPT_UD;
	struct cm_message m;

	if (id->link.state != LINK_REQ_RCVD && id->link.state != LINK_SIDR_RCVD)
		return -EINVAL;
	cm_link_begin(&m, id, ud ? CM_SIDR_REP : CM_REP);
	m.qpn = param->qp_num;
	if (!connect_put_data(&m, 0, param))
		return -EINVAL;
	if (ud) {
		m.local_id = id->link.remote_id; /* the request's */
		m.status = CM_SIDR_SUCCESS;
		m.qkey = CM_UDP_QKEY;
		m.service = cm_id_service(id, &id->src);
		id->link.sent = m; /* for the request that comes again */
		cm_link_send(id, &m);
		return 0;
	}
	m.psn = id->link.own_psn;
	m.resp_resources = param->responder_resources;
	m.initiator_depth = param->initiator_depth;
	m.ack_timeout = id->link.ack_timeout;
	m.flow_control = param->flow_control;
	m.rnr_retry_count = connect_retries(param->rnr_retry_count);
	m.srq = param->srq;
	id->link.responder_resources = param->responder_resources;
	id->link.initiator_depth = param->initiator_depth;
	id->link.state = LINK_REP_SENT;
	cm_link_send_until_answered(id, &m);
	return 0;
}

int cm_accept(struct cm_id *id, const struct rdma_ucm_conn_param *param, uint64_t uid)
{
	struct cm_message m;
	int r;

	if (id->state != CM_CONNECT)
		return -EINVAL;
	if (param) {
		r = accept_request(id, param);
		if (!r)
			id->uid = uid;
		return r;
	}
	/* cma_rep_recv: the program has its queue pair ready. */
	if (id->link.state != LINK_REP_RCVD)
		return -EINVAL;
	cm_link_begin(&m, id, CM_RTU);
	id->link.state = LINK_ESTABLISHED;
	cm_link_send(id, &m);
	return 0;
}

static void reject_send(struct cm_id *id, const void *data, unsigned int bytes, uint16_t reason)
{
	bool ud = id->link.state == LINK_SIDR_RCVD;
	struct cm_message m;

	cm_link_stop_sending(id);
	cm_link_begin(&m, id, ud ? CM_SIDR_REP : CM_REJ);
	if (ud) {
		m.local_id = id->link.remote_id;
		m.status = CM_SIDR_REJECT;
		m.service = cm_id_service(id, &id->src);
	} else {
		m.rejected = id->link.state == LINK_REQ_RCVD ? 0 : id->link.state == LINK_REP_RCVD ? 1 : 2;
		m.reason = reason;
	}
	memcpy(m.private_data, data, bytes);
	id->link.state = LINK_IDLE;
	cm_link_send(id, &m);
}

int cm_reject(struct cm_id *id, const void *data, unsigned int bytes, uint8_t reason)
{
	bool ud = id->link.state == LINK_SIDR_RCVD;

	if (reason && reason != CM_REJ_CONSUMER && reason != CM_REJ_VENDOR_OPTION)
		return -EINVAL;
	if (id->link.state != LINK_REQ_RCVD && id->link.state != LINK_REP_RCVD && id->link.state != LINK_REP_SENT &&
	    !ud)
		return -EINVAL;
	if (bytes > cm_message_private_bytes(ud ? CM_SIDR_REP : CM_REJ))
		return -EINVAL;
	reject_send(id, data, bytes, reason ? reason : CM_REJ_CONSUMER);
	return 0;
}

static void disconnect_send(struct cm_id *id, bool until_answered)
{
	struct cm_message m;

	cm_link_begin(&m, id, CM_DREQ);
	m.qpn = id->link.remote_qpn;
	id->link.state = LINK_DREQ_SENT;
	if (until_answered)
		cm_link_send_until_answered(id, &m);
	else
		cm_link_send(id, &m);
}

static void disconnect_answer(struct cm_id *id)
{
	struct cm_message m;

	cm_link_begin(&m, id, CM_DREP);
	cm_link_send(id, &m);
	id->link.sent = m;
	id->link.state = LINK_TIMEWAIT;
	id->link.n_left = 0;
	id->link.deadline_ns = clock_raw_ns() + CM_TIMEWAIT_NS;
}

/* Begins to disconnect, or answers the peer that has begun. */
int cm_disconnect(struct cm_id *id)
{
	if (id->link.state == LINK_IDLE)
		return -EINVAL;
	if (id->link.state == LINK_ESTABLISHED)
		disconnect_send(id, true);
	else if (id->link.state == LINK_DREQ_RCVD)
		disconnect_answer(id);
	return 0;
}

/* A packet of the peer came before its RTU (cm_establish). */
int cm_notify(struct cm_id *id, uint32_t event)
{
	if (event != EVENT_COMM_EST)
		return 0;
	if (id->link.state != LINK_REP_SENT)
		return id->link.state == LINK_ESTABLISHED ? -EISCONN : -EINVAL;
	cm_link_stop_sending(id);
	id->link.state = LINK_ESTABLISHED;
	cm_event_add(id, CM_EVENT_ESTABLISHED, 0);
	return 0;
}

/* A request of the identifier that nobody has read, or NULL. */
static struct cm_event *destroy_find_request(const struct cm_id *id)
{
	struct cm_event *e;

	STAILQ_FOREACH (e, &id->file->events, link)
		if (e->id == id && e->resp.event == CM_EVENT_CONNECT_REQUEST)
			return e;
	return NULL;
}

void cm_destroy(struct cm_id *id)
{
	struct cm_event *e;

	while ((e = destroy_find_request(id)))
		cm_destroy(id->file->cm->ids[e->resp.id]); /* and with it the event */
	cm_group_leave_all(id);
	switch (id->link.state) {
	case LINK_REQ_SENT:
		reject_send(id, "", 0, CM_REJ_TIMEOUT);
		break;
	case LINK_REQ_RCVD:
	case LINK_REP_RCVD:
	case LINK_REP_SENT:
	case LINK_SIDR_RCVD:
		if (id->link.state != LINK_SIDR_RCVD || !id->uid) /* an accepted datagram's request is done */
			reject_send(id, "", 0, CM_REJ_CONSUMER);
		break;
	case LINK_ESTABLISHED:
		disconnect_send(id, false);
		break;
	case LINK_DREQ_RCVD:
		disconnect_answer(id);
		break;
	default:
		break;
	}
	cm_id_free(id);
}

/* Without a connection, any state gets only the attributes of INIT (cma_ib_init_qp_attr). */
static void attributes_of_init(const struct cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	attr->qp_attr_mask = QP_ATTR_STATE | QP_ATTR_PKEY_INDEX | QP_ATTR_PORT;
	attr->port_num = (uint8_t)device_port(id->device);
	if (id->qp_type == IB_UVERBS_QPT_UD) {
		attr->qkey = CM_UDP_QKEY;
		attr->qp_attr_mask |= QP_ATTR_QKEY;
		return;
	}
	attr->qp_attr_mask |= QP_ATTR_ACCESS;
	if (id->link.state == LINK_IDLE)
		return;
	attr->qp_access_flags = IB_UVERBS_ACCESS_REMOTE_WRITE;
	if (id->link.responder_resources)
		attr->qp_access_flags |= IB_UVERBS_ACCESS_REMOTE_READ | IB_UVERBS_ACCESS_REMOTE_ATOMIC;
}

/* cm_init_qp_rtr_attr */
static void attributes_of_rtr(const struct cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	attr->qp_attr_mask = QP_ATTR_STATE | QP_ATTR_AV | QP_ATTR_PATH_MTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
	                     QP_ATTR_MAX_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER;
	cm_path_attributes(id, &attr->ah_attr);
	attr->path_mtu = id->link.path_mtu;
	attr->dest_qp_num = id->link.remote_qpn;
	attr->rq_psn = id->link.own_psn;
	attr->max_dest_rd_atomic = id->link.responder_resources;
}

/* cm_init_qp_rts_attr */
static void attributes_of_rts(const struct cm_id *id, struct ib_uverbs_qp_attr *attr)
{
	attr->qp_attr_mask = QP_ATTR_STATE | QP_ATTR_SQ_PSN | QP_ATTR_TIMEOUT | QP_ATTR_RETRY_CNT | QP_ATTR_RNR_RETRY |
	                     QP_ATTR_MAX_QP_RD_ATOMIC;
	attr->sq_psn = id->link.peer_psn;
	attr->timeout = id->link.ack_timeout;
	attr->retry_cnt = id->link.retry_count;
	attr->rnr_retry = id->link.rnr_retry_count;
	attr->max_rd_atomic = id->link.initiator_depth;
}

int cm_qp_attributes(const struct cm_id *id, uint32_t qp_state, struct ib_uverbs_qp_attr *attr)
{
	enum cm_link_state state = id->link.state;
	bool knows_peer = state >= LINK_REQ_RCVD && state <= LINK_TIMEWAIT;

	if (!id->device)
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = qp_state;
	if (state == LINK_IDLE || id->qp_type == IB_UVERBS_QPT_UD || qp_state == QP_INIT)
		attributes_of_init(id, attr);
	else if (knows_peer && qp_state == QP_RTR)
		attributes_of_rtr(id, attr);
	else if (knows_peer && qp_state == QP_RTS)
		attributes_of_rts(id, attr);
	else
		return -EINVAL;
	return 0;
}
