// SPDX-License-Identifier: Apache-2.0
/*
 * cm [ADDRESS TEXT]: send a text from one program to another by the connection manager (librdmacm), which finds the
 * device by the address, and brings the queue pairs of both ends to RTS. Without ADDRESS it waits for a peer. rc.c does
 * the same without the connection manager.
 *
 *     cc -o cm cm.c -lrdmacm -libverbs
 *     softhca -i eth0 -- ./cm                      # on one machine; on a ConnectX without softhca
 *     softhca -i eth0 -- ./cm 10.0.0.1 hello       # on the other
 */
#include "example.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT       7471
#define BYTES      64
#define TIMEOUT_MS 2000

static char text[BYTES];

/* Every step ends with an event. Returns the identifier that the event is about. */
static struct rdma_cm_id *await(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	check(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != type) {
		fprintf(stderr, "cm: %s, and not %s: does 'cm' wait at the other end, and is ADDRESS right?\n",
		        rdma_event_str(event->event), rdma_event_str(type));
		exit(1);
	}
	id = event->id;
	check(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
	return id;
}

/* The client: the address leads to a device and to a route. */
static struct rdma_cm_id *resolve(struct rdma_event_channel *channel, struct rdma_cm_id *id, struct in_addr address)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = address};

	check(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&name, TIMEOUT_MS), "rdma_resolve_addr");
	await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	check(!rdma_resolve_route(id, TIMEOUT_MS), "rdma_resolve_route");
	return await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

/* The server: each request for a connection has an identifier of its own. */
static struct rdma_cm_id *listen_for_one(struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	check(!rdma_bind_addr(id, (struct sockaddr *)&name) && !rdma_listen(id, 1), "rdma_listen");
	printf("waiting\n");
	fflush(stdout);
	return await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void post(struct rdma_cm_id *id, const struct ibv_mr *mr, int sends)
{
	struct ibv_sge sge = {.addr = (uintptr_t)text, .length = BYTES, .lkey = mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad_send;

	errno = sends ? ibv_post_send(id->qp, &send, &bad_send) : ibv_post_recv(id->qp, &receive, &bad_receive);
	check(!errno, "post");
}

int main(int argc, char **argv)
{
	struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
	struct rdma_event_channel *channel;
	struct rdma_cm_id *first, *id;
	struct in_addr address;
	struct ibv_wc completion;
	int is_client = argc == 3;

	if (argc != 1 && argc != 3)
		end_with_usage("cm [ADDRESS TEXT]");
	if (is_client) {
		address = read_address("ADDRESS", argv[1]);
		read_text("TEXT", argv[2], text, BYTES);
	}
	channel = rdma_create_event_channel();
	check(channel && !rdma_create_id(channel, &first, NULL, RDMA_PS_TCP), "rdma_create_id");
	id = is_client ? resolve(channel, first, address) : listen_for_one(channel, first);

	/* From here on the identifier has a device, id->verbs. The receive is posted before the peer can send. */
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	struct ibv_cq *cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, text, BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	check(cq && mr, "protection domain, completion queue, memory region");
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC};
	check(!rdma_create_qp(id, pd, &init), "rdma_create_qp");
	if (!is_client)
		post(id, mr, 0);

	check(!(is_client ? rdma_connect(id, &param) : rdma_accept(id, &param)), "connect, accept");
	await(channel, RDMA_CM_EVENT_ESTABLISHED);
	if (is_client)
		post(id, mr, 1);
	while (!ibv_poll_cq(cq, 1, &completion))
		;
	printf("%s: %s\n", is_client ? "sent" : "received",
	       completion.status ? ibv_wc_status_str(completion.status) : text);

	if (is_client)
		check(!rdma_disconnect(id), "rdma_disconnect");
	await(channel, RDMA_CM_EVENT_DISCONNECTED);
	if (!is_client)
		check(!rdma_disconnect(id), "rdma_disconnect"); /* the answer */
	rdma_destroy_qp(id);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	if (id != first)
		rdma_destroy_id(id);
	rdma_destroy_id(first);
	rdma_destroy_event_channel(channel);
	return completion.status != IBV_WC_SUCCESS;
}
