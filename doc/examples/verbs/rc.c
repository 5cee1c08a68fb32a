// SPDX-License-Identifier: Apache-2.0
/*
 * rc DEVICE GID_INDEX [ADDRESS TEXT]: send a text from one program to another through a reliable connection (RC). The
 * steps are those of every verbs program: device, protection domain, memory region, completion queue, queue pair, post,
 * poll. Without ADDRESS it waits for a peer. Both tell each other over TCP what their queue pairs have to know.
 *
 *     cc -o rc rc.c -libverbs
 *     softhca -i eth0 -- ./rc mlx5_0 3                   # on one machine; on a ConnectX without softhca
 *     softhca -i eth0 -- ./rc mlx5_0 3 10.0.0.1 hello    # on the other
 */
#include "example.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT  7471 /* TCP */
#define BYTES 64

/* What the peer has to know of a queue pair. */
struct end {
	union ibv_gid gid;
	uint32_t qpn;
};

static char text[BYTES];

static int connect_tcp(const struct in_addr *address)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(PORT)};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, peer;

	if (address) {
		name.sin_addr = *address;
		check(!connect(fd, (struct sockaddr *)&name, sizeof(name)), "connect");
		return fd;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	check(!bind(fd, (struct sockaddr *)&name, sizeof(name)) && !listen(fd, 1), "bind");
	printf("waiting\n");
	fflush(stdout);
	peer = accept(fd, NULL, NULL);
	check(peer >= 0, "accept");
	return peer;
}

/* RESET to INIT: the queue pair belongs to a port, and says what the peer may do. Receives can be posted now. */
static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	errno = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	check(!errno, "INIT");
}

/* INIT to RTR: it knows its peer and receives. RTR to RTS: it may send. */
static void to_rts(struct ibv_qp *qp, const struct end *peer, uint8_t gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, /* 0.64 ms: how long a peer waits if there is no receive */
		.ah_attr = {.is_global = 1,
	                    .port_num = 1,
	                    .grh = {.dgid = peer->gid, .sgid_index = gid_index, .hop_limit = 64}},
	};

	errno = ibv_modify_qp(qp, &attr,
	                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	check(!errno, "RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	errno = ibv_modify_qp(qp, &attr,
	                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	                              IBV_QP_MAX_QP_RD_ATOMIC);
	check(!errno, "RTS");
}

/* Posts a receive or a send, which the device carries out whenever it can. */
static void post(struct ibv_qp *qp, const struct ibv_mr *mr, int sends)
{
	struct ibv_sge sge = {.addr = (uintptr_t)text, .length = BYTES, .lkey = mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad_send;

	errno = sends ? ibv_post_send(qp, &send, &bad_send) : ibv_post_recv(qp, &receive, &bad_receive);
	check(!errno, "post");
}

int main(int argc, char **argv)
{
	int is_client = argc == 5, fd;
	struct ibv_wc completion;
	struct in_addr address;
	struct end own, peer;

	if (argc != 3 && argc != 5)
		end_with_usage("rc DEVICE GID_INDEX [ADDRESS TEXT]");
	uint8_t gid_index = (uint8_t)read_number("GID_INDEX", argv[2], 0, 255);
	if (is_client) {
		address = read_address("ADDRESS", argv[3]);
		read_text("TEXT", argv[4], text, BYTES);
	}
	struct ibv_context *context = open_device(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, text, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	check(pd && mr && cq, "protection domain, memory region, completion queue");
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	check(qp != NULL, "queue pair, which needs CAP_NET_RAW below softhca");
	to_init(qp);
	if (!is_client)
		post(qp, mr, 0);
	own = (struct end){.qpn = qp->qp_num};
	if (ibv_query_gid(context, 1, gid_index, &own.gid) ||
	    (!own.gid.global.subnet_prefix && !own.gid.global.interface_id))
		errx(64, "GID_INDEX %s: the port has no GID there; 'ibv_devinfo -v' lists them", argv[2]);
	fd = connect_tcp(is_client ? &address : NULL);
	check(!is_client || write(fd, &own, sizeof(own)) == sizeof(own), "peer");
	check(read(fd, &peer, sizeof(peer)) == sizeof(peer), "peer");
	to_rts(qp, &peer, gid_index);
	/* The client sends only when the other end is ready, since a packet that comes before RTR is lost. */
	if (is_client)
		post(qp, mr, 1);
	else
		check(write(fd, &own, sizeof(own)) == sizeof(own), "peer");
	while (!ibv_poll_cq(cq, 1, &completion))
		;
	printf("%s: %s\n", is_client ? "sent" : "received",
	       completion.status ? ibv_wc_status_str(completion.status) : text);
	/* Nobody leaves before the other is done: an acknowledgement may have to be sent again. */
	check(write(fd, "", 1) == 1 && read(fd, &peer, 1) == 1, "peer");
	ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	ibv_dereg_mr(mr);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return completion.status != IBV_WC_SUCCESS;
}
