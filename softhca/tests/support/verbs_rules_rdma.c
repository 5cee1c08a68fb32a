// SPDX-License-Identifier: Apache-2.0
/* Rules of RC and UD: states, requests and their errors, retries, shared receive queues, datagrams. */
#include "rdma_pair.h"
#include "verbs_rules.h"

#define SHORT_MS 30 /* for what must not come */

/* What logs of real cards have as the requester's vendor_err; 0: no log says it. */
static uint32_t vendor_err(int status)
{
	static const uint8_t vendor[] = {
		[IBV_WC_LOC_QP_OP_ERR] = 0x68,  [IBV_WC_WR_FLUSH_ERR] = 0xf9, [IBV_WC_REM_INV_REQ_ERR] = 0x8a,
		[IBV_WC_REM_ACCESS_ERR] = 0x88, [IBV_WC_REM_OP_ERR] = 0x89,   [IBV_WC_RETRY_EXC_ERR] = 0x81};

	return status < (int)sizeof(vendor) ? vendor[status] : 0;
}

/* One request of the first end, and the statuses at both ends; -1: nothing is to come. */
static const char *expect_statuses(struct pair *p, int sent, int received)
{
	struct ibv_wc wc = pair_poll(p, 0, LONG_MS);

	if ((int)wc.status != sent)
		return "the requester's completion has another status";
	if (wc.status && wc.vendor_err != vendor_err(sent))
		return "the requester's completion has another vendor_err";
	if ((int)pair_poll(p, 1, received < 0 ? SHORT_MS : LONG_MS).status != received)
		return "the responder's completion has another status";
	return NULL;
}

static const char *finish(struct pair *p, const char *seen)
{
	pair_close(p);
	return seen;
}

static const char *rc_transitions(void)
{
	static const struct pair_config config;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .port_num = 1, .max_dest_rd_atomic = 17};
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE)); /* mlx5_ib: optab */
	attr.qp_state = IBV_QPS_INIT;
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr,
	                                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RESET;
	EXPECT_RETURNS(0, ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_INIT;
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT));
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr,
	                                     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS |
	                                             IBV_QP_QKEY));
	return finish(&p, NULL);
}

static const char *rc_attributes(void)
{
	static const struct pair_config config;
	const int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1}, reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_attr good = {.qp_state = IBV_QPS_RTR,
	                           .path_mtu = IBV_MTU_1024,
	                           .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = PAIR_GID}}};
	struct ibv_qp_attr attr;
	struct pair p;

	pair_open(&p, &config);
	ibv_query_gid(p.ctx, 1, PAIR_GID, &good.ah_attr.grh.dgid);
	EXPECT_RETURNS(0, ibv_modify_qp(p.qp[0], &reset, IBV_QP_STATE));
	EXPECT_RETURNS(
		0, ibv_modify_qp(p.qp[0], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr = good;
	attr.ah_attr.is_global = 0; /* ib_core: rdma_check_ah_attr */
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr, mask));
	attr = good;
	attr.max_dest_rd_atomic = 17; /* mlx5_ib: mlx5_ib_modify_qp */
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr, mask));
	attr = good;
	attr.path_mtu = 6;
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr, mask));
	attr = good;
	attr.ah_attr.grh.sgid_index = 255;
	EXPECT_RETURNS(EINVAL, ibv_modify_qp(p.qp[0], &attr, mask));
	EXPECT_RETURNS(0, ibv_modify_qp(p.qp[0], &good, mask));
	return finish(&p, NULL);
}

/* 9000 bytes are nine packets; the PSN wraps among them. */
static const char *rc_send(void)
{
	static const struct pair_config config;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &config);
	for (unsigned int i = 0; i < 9000; i++)
		p.memory[0][i] = (uint8_t)(i * 7 >> 3);
	EXPECT_RETURNS(0, pair_receive(&p, 1, PAIR_BYTES));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND_WITH_IMM, 9000, IBV_SEND_SIGNALED));
	wc = pair_poll(&p, 1, LONG_MS);
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == 9000 && wc.wr_id == 77,
	       "the receive is not as it was sent");
	EXPECT((wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == 0x01020304, "the immediate data is not there");
	EXPECT(wc.qp_num == p.qp[1]->qp_num, "qp_num is not the receiver's");
	EXPECT(!memcmp(p.memory[0], p.memory[1], 9000), "other bytes came");
	wc = pair_poll(&p, 0, LONG_MS);
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND && wc.wr_id == 33, "the send is not complete");
	return finish(&p, NULL);
}

static const char *rc_signalled_only(void)
{
	static const struct pair_config config;
	struct pair p;

	pair_open(&p, &config);
	for (int i = 0; i < 3; i++)
		EXPECT_RETURNS(0, pair_post(&p, IBV_WR_RDMA_WRITE, 64, i == 2 ? IBV_SEND_SIGNALED : IBV_SEND_INLINE));
	EXPECT(pair_poll(&p, 0, LONG_MS).status == IBV_WC_SUCCESS, "no completion");
	EXPECT((int)pair_poll(&p, 0, SHORT_MS).status == -1, "an unsignalled request completed");
	return finish(&p, NULL);
}

static const char *rc_write_and_read(void)
{
	static const struct pair_config config;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &config);
	memset(p.memory[0], 0x5a, 5000);
	EXPECT_RETURNS(0, pair_receive(&p, 1, 0));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_RDMA_WRITE_WITH_IMM, 5000, IBV_SEND_SIGNALED));
	wc = pair_poll(&p, 1, LONG_MS);
	EXPECT(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == 5000 && wc.imm_data == 0x01020304,
	       "the write's immediate data did not come with its length");
	EXPECT(p.memory[1][4999] == 0x5a && p.memory[1][5000] == 2, "the write ends elsewhere");
	EXPECT(pair_poll(&p, 0, LONG_MS).opcode == IBV_WC_RDMA_WRITE, "no completion of the write");
	memset(p.memory[1], 0xa5, 5000);
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_RDMA_READ, 5000, IBV_SEND_SIGNALED));
	wc = pair_poll(&p, 0, LONG_MS);
	EXPECT(wc.opcode == IBV_WC_RDMA_READ && wc.byte_len == 5000 && p.memory[0][4999] == 0xa5, "not what was read");
	return finish(&p, NULL);
}

static const char *rc_empty_needs_no_key(void)
{
	static const struct pair_config config;
	struct ibv_send_wr *wr, *bad;
	struct pair p;

	pair_open(&p, &config);
	wr = pair_request(&p, IBV_WR_RDMA_WRITE, 0, IBV_SEND_SIGNALED);
	wr->wr.rdma.rkey = 0;
	EXPECT_RETURNS(0, ibv_post_send(p.qp[0], wr, &bad));
	return finish(&p, expect_statuses(&p, IBV_WC_SUCCESS, -1));
}

static const char *rc_atomics(void)
{
	static const struct pair_config config;
	struct ibv_send_wr *wr, *bad;
	uint64_t value = 40;
	struct pair p;

	pair_open(&p, &config);
	memcpy(p.memory[1], &value, 8);
	wr = pair_request(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_SEND_SIGNALED);
	wr->wr.atomic.compare_add = 2;
	EXPECT_RETURNS(0, ibv_post_send(p.qp[0], wr, &bad));
	EXPECT(pair_poll(&p, 0, LONG_MS).opcode == IBV_WC_FETCH_ADD, "no completion");
	EXPECT(!memcmp(p.memory[0], &value, 8), "the result is not the old value");
	wr = pair_request(&p, IBV_WR_ATOMIC_CMP_AND_SWP, 8, IBV_SEND_SIGNALED);
	wr->wr.atomic.compare_add = 42;
	wr->wr.atomic.swap = 7;
	EXPECT_RETURNS(0, ibv_post_send(p.qp[0], wr, &bad));
	EXPECT(pair_poll(&p, 0, LONG_MS).opcode == IBV_WC_COMP_SWAP, "no completion");
	memcpy(&value, p.memory[1], 8);
	EXPECT(value == 7, "the value was not swapped");
	wr = pair_request(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_SEND_SIGNALED);
	wr->wr.atomic.remote_addr += 4;
	EXPECT_RETURNS(0, ibv_post_send(p.qp[0], wr, &bad));
	return finish(&p, expect_statuses(&p, IBV_WC_REM_INV_REQ_ERR, -1));
}

static const char *rc_too_long(void)
{
	static const struct pair_config config;
	const char *seen;
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_receive(&p, 1, 2000));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 2001, IBV_SEND_SIGNALED));
	seen = expect_statuses(&p, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
	EXPECT(pair_state(&p, 0) == IBV_QPS_ERR && pair_state(&p, 1) == IBV_QPS_ERR, "the state is not ERR");
	return finish(&p, seen);
}

static const char *rc_not_writable(void)
{
	static const struct pair_config config = {.mr_access = -1};
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_receive(&p, 1, 100));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 100, IBV_SEND_SIGNALED));
	return finish(&p, expect_statuses(&p, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR));
}

/* Each way to reach for memory that the peer has not offered. */
static const char *rc_remote_access(void)
{
	static const struct pair_config config = {.mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE};
	struct ibv_send_wr *wr, *bad;

	for (int i = 0; i < 4; i++) {
		const char *seen;
		struct pair p;

		pair_open(&p, &config);
		wr = pair_request(&p, i == 3 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 3000, IBV_SEND_SIGNALED);
		if (i == 0)
			wr->wr.rdma.rkey ^= 1;
		if (i == 1)
			wr->wr.rdma.remote_addr += PAIR_BYTES - 2999;
		if (i == 2)
			wr->wr.rdma.remote_addr -= 1;
		EXPECT_RETURNS(0, ibv_post_send(p.qp[0], wr, &bad));
		seen = expect_statuses(&p, IBV_WC_REM_ACCESS_ERR, -1);
		EXPECT(p.memory[1][0] == 2, "something was written");
		EXPECT(pair_event(&p, LONG_MS) == IBV_EVENT_QP_ACCESS_ERR, "no event of the responder");
		EXPECT(pair_state(&p, 1) == IBV_QPS_ERR, "the responder is not in ERR");
		if (finish(&p, seen))
			return seen;
	}
	return NULL;
}

static const char *rc_queue_pair_forbids(void)
{
	static const struct pair_config config = {.access = -1};
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_RDMA_WRITE, 10, IBV_SEND_SIGNALED));
	return finish(&p, expect_statuses(&p, IBV_WC_REM_INV_REQ_ERR, -1));
}

static const char *rc_local_key(void)
{
	static const struct pair_config config;
	struct ibv_send_wr *wr, *bad;
	struct pair p;

	pair_open(&p, &config);
	wr = pair_request(&p, IBV_WR_RDMA_WRITE, 10, 0);
	wr->sg_list->lkey ^= 1;
	EXPECT_RETURNS(0, ibv_post_send(p.qp[0], wr, &bad));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_RDMA_WRITE, 10, 0));
	EXPECT(pair_poll(&p, 0, LONG_MS).status == IBV_WC_LOC_PROT_ERR, "the wrong key is not an error");
	return finish(&p, expect_statuses(&p, IBV_WC_WR_FLUSH_ERR, -1));
}

static const char *rc_waits_for_a_receive(void)
{
	static const struct pair_config config;
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 3000, IBV_SEND_SIGNALED));
	EXPECT((int)pair_poll(&p, 0, SHORT_MS).status == -1, "it completed without a receive");
	EXPECT_RETURNS(0, pair_receive(&p, 1, PAIR_BYTES));
	return finish(&p, expect_statuses(&p, IBV_WC_SUCCESS, IBV_WC_SUCCESS));
}

static const char *rc_rnr_retries(void)
{
	static const struct pair_config config = {.rnr_retry = 2};
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 3000, IBV_SEND_SIGNALED));
	return finish(&p, expect_statuses(&p, IBV_WC_RNR_RETRY_EXC_ERR, -1));
}

static const char *rc_retries(void)
{
	static const struct pair_config config = {.retry_cnt = 1};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, ibv_modify_qp(p.qp[1], &reset, IBV_QP_STATE));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 1, IBV_SEND_SIGNALED));
	return finish(&p, expect_statuses(&p, IBV_WC_RETRY_EXC_ERR, -1));
}

static const char *rc_error_flushes(void)
{
	static const struct pair_config config = {.rnr_retry = 7};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 1, 0));
	EXPECT_RETURNS(0, pair_receive(&p, 0, 1));
	EXPECT_RETURNS(0, ibv_modify_qp(p.qp[0], &error, IBV_QP_STATE));
	for (int i = 0; i < 2; i++)
		EXPECT(pair_poll(&p, 0, LONG_MS).status == IBV_WC_WR_FLUSH_ERR, "a request was not flushed");
	EXPECT_RETURNS(0, pair_receive(&p, 0, 1));
	EXPECT(pair_poll(&p, 0, LONG_MS).status == IBV_WC_WR_FLUSH_ERR, "what is posted in ERR is not flushed");
	return finish(&p, NULL);
}

static const char *srq_is_shared(void)
{
	static const struct pair_config config = {.srq = true};
	struct ibv_srq_attr attr = {.srq_limit = 2};
	const char *seen;
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(EBUSY, ibv_destroy_srq(p.srq));
	EXPECT_RETURNS(EINVAL, ibv_modify_srq(p.srq, &attr, IBV_SRQ_MAX_WR)); /* mlx5_ib_modify_srq */
	for (int i = 0; i < 3; i++)
		EXPECT_RETURNS(0, pair_receive(&p, 1, 100));
	EXPECT_RETURNS(0, ibv_modify_srq(p.srq, &attr, IBV_SRQ_LIMIT));
	for (int i = 0; i < 2; i++) {
		EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 100, IBV_SEND_SIGNALED));
		seen = expect_statuses(&p, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
		if (seen)
			return seen;
	}
	EXPECT(pair_event(&p, LONG_MS) == IBV_EVENT_SRQ_LIMIT_REACHED, "no event below the limit");
	EXPECT_RETURNS(0, ibv_query_srq(p.srq, &attr));
	EXPECT(!attr.srq_limit, "the limit is armed still");
	return finish(&p, NULL);
}

static const char *srq_last_wqe(void)
{
	static const struct pair_config config = {.srq = true};
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, ibv_modify_qp(p.qp[1], &error, IBV_QP_STATE));
	EXPECT(pair_event(&p, LONG_MS) == IBV_EVENT_QP_LAST_WQE_REACHED, "no event");
	return finish(&p, NULL);
}

static const char *ud_has_a_header(void)
{
	static const struct pair_config config = {.type = IBV_QPT_UD};
	union ibv_gid gid;
	struct ibv_wc wc;
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_receive(&p, 1, 140));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND_WITH_IMM, 100, IBV_SEND_SIGNALED));
	wc = pair_poll(&p, 1, LONG_MS);
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.byte_len == 140 && (wc.wc_flags & IBV_WC_GRH), "no GRH");
	EXPECT(wc.src_qp == p.qp[0]->qp_num && wc.imm_data == 0x01020304, "not the sender's number, or data");
	ibv_query_gid(p.ctx, 1, PAIR_GID, &gid);
	EXPECT(p.memory[1][0] >> 4 == 6 && !memcmp(p.memory[1] + 8, &gid, 16) && !memcmp(p.memory[1] + 24, &gid, 16),
	       "the header has other addresses");
	EXPECT(p.memory[1][40] == 1 && p.memory[1][139] == 1 && p.memory[1][140] == 2, "the payload lies elsewhere");
	EXPECT(pair_poll(&p, 0, LONG_MS).status == IBV_WC_SUCCESS, "the send is not complete");
	return finish(&p, NULL);
}

static const char *ud_other_qkey(void)
{
	static const struct pair_config config = {.type = IBV_QPT_UD};
	struct ibv_send_wr *wr, *bad;
	struct ibv_port_attr before, after;
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_receive(&p, 1, 140));
	EXPECT_RETURNS(0, ibv_query_port(p.ctx, 1, &before));
	wr = pair_request(&p, IBV_WR_SEND, 100, IBV_SEND_SIGNALED);
	wr->wr.ud.remote_qkey++;
	EXPECT_RETURNS(0, ibv_post_send(p.qp[0], wr, &bad));
	EXPECT(!expect_statuses(&p, IBV_WC_SUCCESS, -1), "a datagram with another Q_Key came");
	EXPECT_RETURNS(0, ibv_query_port(p.ctx, 1, &after));
	EXPECT(after.qkey_viol_cntr > before.qkey_viol_cntr, "it was not counted");
	return finish(&p, NULL);
}

static const char *ud_too_long(void)
{
	static const struct pair_config config = {.type = IBV_QPT_UD};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	const char *seen;
	struct pair p;

	pair_open(&p, &config);
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 4097, IBV_SEND_SIGNALED));
	EXPECT(pair_poll(&p, 0, LONG_MS).status == IBV_WC_LOC_LEN_ERR, "no error");
	EXPECT(pair_state(&p, 0) == IBV_QPS_SQE, "the state is not SQE");
	EXPECT_RETURNS(0, ibv_modify_qp(p.qp[0], &rts, IBV_QP_STATE));
	EXPECT_RETURNS(0, pair_receive(&p, 1, 140));
	EXPECT_RETURNS(0, pair_post(&p, IBV_WR_SEND, 100, IBV_SEND_SIGNALED));
	seen = expect_statuses(&p, IBV_WC_SUCCESS, IBV_WC_SUCCESS);
	return finish(&p, seen);
}

static const char *groups_need_ud(void)
{
	static const struct pair_config rc, ud = {.type = IBV_QPT_UD};
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 9}}, single = {.raw = {0xfe, 0x80, [15] = 9}};
	struct pair p;

	pair_open(&p, &rc);
	EXPECT_RETURNS(EINVAL, ibv_attach_mcast(p.qp[0], &group, 0));
	pair_close(&p);
	pair_open(&p, &ud);
	EXPECT_RETURNS(EINVAL, ibv_attach_mcast(p.qp[0], &single, 0));
	EXPECT_RETURNS(0, ibv_attach_mcast(p.qp[0], &group, 0));
	EXPECT_RETURNS(0, ibv_detach_mcast(p.qp[0], &group, 0));
	EXPECT_RETURNS(EINVAL, ibv_detach_mcast(p.qp[0], &group, 0));
	return finish(&p, NULL);
}

const struct rule rdma_rules[] = {
	{"rc-transitions", "ib_core: qp_state_table", .check = rc_transitions},
	{"rc-attributes", "ib_core: rdma_check_ah_attr, mlx5_ib: mlx5_ib_modify_qp", .check = rc_attributes},
	{"rc-send", "IBTA 9.7", .check = rc_send},
	{"rc-only-signalled-complete", "IBTA 10.8.6", .check = rc_signalled_only},
	{"rc-write-and-read", "IBTA 9.4", .check = rc_write_and_read},
	{"rc-empty-needs-no-key", "IBTA 9.7", .check = rc_empty_needs_no_key},
	{"rc-atomics", "IBTA 9.4", .check = rc_atomics},
	{"rc-message-too-long", "IBTA 9.9.3", .check = rc_too_long},
	{"rc-receive-not-writable", "IBTA 9.9.3", .check = rc_not_writable},
	{"rc-remote-access", "IBTA 9.7.4", .check = rc_remote_access},
	{"rc-queue-pair-forbids", "IBTA 9.7.4", .check = rc_queue_pair_forbids},
	{"rc-wrong-local-key", "IBTA 9.9.2", .check = rc_local_key},
	{"rc-waits-for-a-receive", "IBTA 9.7.5", .check = rc_waits_for_a_receive},
	{"rc-rnr-retries-run-out", "IBTA 9.7.6", .check = rc_rnr_retries},
	{"rc-retries-run-out", "IBTA 9.7.6", .check = rc_retries},
	{"rc-error-flushes", "IBTA 10.3.1", .check = rc_error_flushes},
	{"srq-is-shared", "IBTA 10.2.9", .check = srq_is_shared},
	{"srq-last-wqe", "IBTA 11.6.3", .check = srq_last_wqe},
	{"ud-has-a-header", "IBTA 11.4.1", .check = ud_has_a_header},
	{"ud-other-qkey", "IBTA 9.6.1", .check = ud_other_qkey},
	{"ud-too-long-is-sqe", "IBTA 10.3.1", .check = ud_too_long},
	{"groups-need-ud", "ib_core: ib_attach_mcast", .check = groups_need_ud},
	{},
};
