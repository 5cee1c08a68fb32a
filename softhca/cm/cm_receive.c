// SPDX-License-Identifier: Apache-2.0
/* Messages of peers, and deadlines that pass without one (cm.c: cm_…_handler; cma.c: cma_ib_handler). */
#include "cm_connection.h"

#include "../device/clock.h"
#include "../device/device.h"
#include "cm_link.h"
#include "cm_port.h"
#include "cm_query.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>

/* The connection with these identifiers, ours and the peer's. ANY: the message does not name it. */
#define ANY UINT64_MAX
static struct cm_id *receive_find(struct cm *cm, const struct cm_datagram *g, uint64_t local_id, uint64_t remote_id)
{
	for (uint32_t i = 0; i < cm->n_ids; i++) {
		struct cm_id *id = cm->ids[i];

		if (id && id->device == g->device && id->link.state != LINK_IDLE &&
		    !memcmp(id->path.dgid, g->answer.dgid, 16) && (local_id == ANY || id->link.local_id == local_id) &&
		    (remote_id == ANY || (id->link.remote_id == remote_id && id->link.state != LINK_SIDR_SENT)))
			return id;
	}
	return NULL;
}

static struct cm_id *receive_find_listener(struct cm *cm, const struct cm_datagram *g)
{
	static const uint8_t all[16];

	for (uint32_t i = 0; i < cm->n_ids; i++) {
		struct cm_id *id = cm->ids[i];
		uint8_t gid[16];

		if (!id || id->state != CM_LISTEN || (id->device && id->device != g->device) ||
		    cm_id_service(id, &id->src) != g->message.service)
			continue;
		cm_address_gid(&id->src, gid);
		if (!memcmp(gid, all, 16) || !memcmp(gid, g->answer.sgid, 16))
			return id;
	}
	return NULL;
}

/* The manager of the real machine answers for all its processes. Here each one answers, unless it sees that another
 * listens. */
static void receive_refuse(const struct cm_datagram *g)
{
	struct cm_port port = {.ps = (unsigned int)(g->message.service >> 16), .number = (uint16_t)g->message.service};
	struct cm_message m = {
		.attribute = g->message.attribute == CM_REQ ? CM_REJ : CM_SIDR_REP,
		.transaction = g->message.transaction,
		.local_id = g->message.attribute == CM_REQ ? 0 : g->message.local_id,
		.remote_id = g->message.attribute == CM_REQ ? g->message.local_id : 0,
		.reason = CM_REJ_INVALID_SERVICE,
		.status = CM_SIDR_UNSUPPORTED,
		.service = g->message.service,
	};

	memcpy(port.gid, g->answer.sgid, 16);
	if (!cm_port_is_taken(&port))
		cm_transport_send(g->device, &g->answer, &m);
}

static struct cm_id *receive_make_id(struct cm_id *listener, const struct cm_datagram *g)
{
	const struct cm_message *m = &g->message;
	struct cm_id *id = cm_id_new(listener->file, listener->ps, listener->qp_type);

	if (!id)
		return NULL;
	if (!cm_link_get_addresses(id, m->private_data, cm_address_port(&listener->src)) ||
	    cm_id_find_device(id, g->answer.sgid) || id->device != g->device) {
		cm_id_free(id);
		return NULL;
	}
	id->path = g->answer;
	id->path.tclass = m->tclass;
	id->tos = m->tclass;
	id->state = CM_CONNECT;
	id->link = (struct cm_link){
		.state = m->attribute == CM_REQ ? LINK_REQ_RCVD : LINK_SIDR_RCVD,
		.remote_id = m->local_id,
		.transaction = m->transaction,
		.remote_qpn = m->qpn,
		.peer_psn = m->psn,
		.initiator_depth = m->resp_resources,
		.responder_resources = m->initiator_depth,
		.retry_count = m->retry_count,
		.rnr_retry_count = m->rnr_retry_count,
		.path_mtu = m->mtu,
		.ack_timeout = m->ack_timeout ? m->ack_timeout : CM_ACK_TIMEOUT,
	};
	cm_link_choose_numbers(id);
	return id;
}

static void receive_fill_data(uint8_t *data, uint8_t *bytes, const struct cm_message *m, unsigned int offset)
{
	*bytes = (uint8_t)(cm_message_private_bytes(m->attribute) - offset);
	memcpy(data, m->private_data + offset, *bytes);
}

static void receive_fill_event(struct cm_event *e, const struct cm_message *m, unsigned int offset)
{
	struct rdma_ucm_conn_param *p = &e->resp.param.conn;

	if (m->attribute >= CM_SIDR_REQ) {
		receive_fill_data(e->resp.param.ud.private_data, &e->resp.param.ud.private_data_len, m, offset);
		return;
	}
	receive_fill_data(p->private_data, &p->private_data_len, m, offset);
	if (m->attribute != CM_REQ && m->attribute != CM_REP)
		return;
	p->responder_resources = m->initiator_depth;
	p->initiator_depth = m->resp_resources;
	p->flow_control = m->flow_control;
	p->retry_count = m->retry_count;
	p->rnr_retry_count = m->rnr_retry_count;
	p->srq = m->srq;
	p->qp_num = m->qpn;
}

static void receive_request(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *listener = receive_find_listener(cm, g), *id = receive_find(cm, g, ANY, g->message.local_id);
	bool ud = g->message.attribute == CM_SIDR_REQ;
	struct cm_event *e;

	if (id) { /* the answer was lost */
		if (id->link.state == LINK_REP_SENT || (id->link.state == LINK_SIDR_RCVD && id->uid))
			cm_link_send(id, &id->link.sent);
		return;
	}
	if (!listener || ud != (listener->qp_type == IB_UVERBS_QPT_UD)) {
		receive_refuse(g);
		return;
	}
	id = receive_make_id(listener, g);
	if (!id)
		return;
	e = listener->backlog ? cm_event_add(listener, CM_EVENT_CONNECT_REQUEST, 0) : NULL;
	if (!e) {
		cm_destroy(id); /* refuses */
		return;
	}
	listener->backlog--;
	id->listener = listener;
	e->resp.id = id->handle;
	receive_fill_event(e, &g->message, CM_ADDRESS_BYTES);
}

static void receive_reply(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *id = receive_find(cm, g, g->message.remote_id, ANY);
	const struct cm_message *m = &g->message;
	struct cm_message again;
	struct cm_event *e;

	if (!id)
		return;
	if (id->link.state == LINK_ESTABLISHED && id->link.remote_id == m->local_id) { /* the RTU was lost */
		cm_link_begin(&again, id, CM_RTU);
		cm_link_send(id, &again);
	}
	if (id->link.state != LINK_REQ_SENT)
		return;
	cm_link_stop_sending(id);
	id->link.state = LINK_REP_RCVD;
	id->link.remote_id = m->local_id;
	id->link.remote_qpn = m->qpn;
	id->link.peer_psn = m->psn;
	id->link.initiator_depth = m->resp_resources;
	id->link.responder_resources = m->initiator_depth;
	id->link.rnr_retry_count = m->rnr_retry_count;
	e = cm_event_add(id, CM_EVENT_CONNECT_RESPONSE, 0);
	if (e)
		receive_fill_event(e, m, 0);
}

static void receive_datagram_reply(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *id = receive_find(cm, g, g->message.local_id, ANY);
	const struct cm_message *m = &g->message;
	struct rdma_ucm_ud_param *p;
	struct cm_event *e;

	if (!id || id->link.state != LINK_SIDR_SENT)
		return;
	cm_link_stop_sending(id);
	id->link.state = LINK_IDLE;
	if (m->status != CM_SIDR_SUCCESS || m->qkey != CM_UDP_QKEY) {
		e = cm_event_add(id, CM_EVENT_UNREACHABLE, m->status ? m->status : -EINVAL);
		if (e)
			receive_fill_event(e, m, 0);
		return;
	}
	e = cm_event_add(id, CM_EVENT_ESTABLISHED, 0);
	if (!e)
		return;
	receive_fill_event(e, m, 0);
	p = &e->resp.param.ud;
	p->qp_num = m->qpn;
	p->qkey = m->qkey;
	cm_path_attributes(id, &p->ah_attr);
}

static void receive_reject(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *id = receive_find(cm, g, g->message.remote_id, ANY);
	struct cm_event *e;

	if (!id && g->message.reason == CM_REJ_TIMEOUT) /* its sender does not know us */
		id = receive_find(cm, g, ANY, g->message.local_id);
	if (!id || (id->link.state != LINK_REQ_SENT && id->link.state != LINK_REQ_RCVD &&
	            id->link.state != LINK_REP_SENT && id->link.state != LINK_REP_RCVD))
		return;
	cm_link_stop_sending(id);
	id->link.state = LINK_IDLE;
	e = id->uid ? cm_event_add(id, CM_EVENT_REJECTED, g->message.reason) : NULL;
	if (e)
		receive_fill_event(e, &g->message, 0);
}

static void receive_ready(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *id = receive_find(cm, g, g->message.remote_id, g->message.local_id);

	if (!id || id->link.state != LINK_REP_SENT)
		return;
	cm_link_stop_sending(id);
	id->link.state = LINK_ESTABLISHED;
	cm_event_add(id, CM_EVENT_ESTABLISHED, 0);
}

static void receive_tell_disconnected(struct cm_id *id, int status)
{
	if (id->state != CM_CONNECT)
		return;
	id->state = CM_DISCONNECT;
	cm_event_add(id, CM_EVENT_DISCONNECTED, status);
}

static void receive_disconnect(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *id = receive_find(cm, g, g->message.remote_id, g->message.local_id);
	const struct cm_message unknown = {
		.attribute = CM_DREP,
		.transaction = g->message.transaction,
		.local_id = g->message.remote_id,
		.remote_id = g->message.local_id,
	};

	if (!id) { /* cm_issue_drep: the peer need not wait */
		cm_transport_send(g->device, &g->answer, &unknown);
		return;
	}
	switch (id->link.state) {
	case LINK_REP_SENT:
	case LINK_DREQ_SENT:
	case LINK_ESTABLISHED:
		cm_link_stop_sending(id);
		id->link.state = LINK_DREQ_RCVD;
		receive_tell_disconnected(id, 0);
		break;
	case LINK_TIMEWAIT: /* the answer was lost */
		if (id->link.sent.attribute == CM_DREP)
			cm_link_send(id, &id->link.sent);
		break;
	default:
		break;
	}
}

static void receive_disconnected(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *id = receive_find(cm, g, g->message.remote_id, g->message.local_id);

	if (!id || (id->link.state != LINK_DREQ_SENT && id->link.state != LINK_DREQ_RCVD))
		return;
	id->link.state = LINK_TIMEWAIT;
	id->link.n_left = 0;
	id->link.deadline_ns = clock_raw_ns() + CM_TIMEWAIT_NS;
	receive_tell_disconnected(id, 0);
}

/* The peer has the message and needs more time than a program would wait: 4.096 us << its timeout. */
static void receive_wait(struct cm *cm, const struct cm_datagram *g)
{
	struct cm_id *id = receive_find(cm, g, g->message.remote_id, ANY);

	if (id && id->link.deadline_ns && (id->link.state == LINK_REQ_SENT || id->link.state == LINK_REP_SENT))
		id->link.deadline_ns += 4096ull << g->message.response_timeout;
}

void cm_receive(struct cm *cm, const struct cm_datagram *datagram)
{
	static void (*const handlers[])(struct cm * cm, const struct cm_datagram *g) = {
		[CM_REQ - CM_REQ] = receive_request,
		[CM_MRA - CM_REQ] = receive_wait,
		[CM_REJ - CM_REQ] = receive_reject,
		[CM_REP - CM_REQ] = receive_reply,
		[CM_RTU - CM_REQ] = receive_ready,
		[CM_DREQ - CM_REQ] = receive_disconnect,
		[CM_DREP - CM_REQ] = receive_disconnected,
		[CM_SIDR_REQ - CM_REQ] = receive_request,
		[CM_SIDR_REP - CM_REQ] = receive_datagram_reply,
	};

	handlers[datagram->message.attribute - CM_REQ](cm, datagram);
}

static void expire_give_up(struct cm_id *id)
{
	enum cm_link_state state = id->link.state;

	id->link.state = LINK_IDLE;
	switch (state) {
	case LINK_REQ_SENT:
	case LINK_REP_SENT:
	case LINK_SIDR_SENT:
		cm_event_add(id, CM_EVENT_UNREACHABLE, -ETIMEDOUT);
		break;
	case LINK_DREQ_SENT:
		receive_tell_disconnected(id, -ETIMEDOUT);
		break;
	case LINK_TIMEWAIT:
		cm_event_add(id, CM_EVENT_TIMEWAIT_EXIT, 0);
		break;
	default:
		break;
	}
}

void cm_expire(struct cm_id *id, uint64_t now_ns)
{
	if (!id->link.deadline_ns || now_ns < id->link.deadline_ns)
		return;
	if (!id->link.n_left) {
		cm_link_stop_sending(id);
		expire_give_up(id);
		return;
	}
	id->link.n_left--;
	id->link.deadline_ns = now_ns + id->link.interval_ms * 1000000ull;
	cm_link_send(id, &id->link.sent);
}
