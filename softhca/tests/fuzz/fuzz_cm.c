// SPDX-License-Identifier: Apache-2.0
/*
 * What a program may write to /dev/infiniband/rdma_cm, and what may come from the wire: commands with any arguments on
 * two files, and messages of the communication management with any fields. Input: operations, each a byte for its
 * number, a byte that says which file, whether pointers and identifiers are good and how much room there is for the
 * answer, an identifier, a length and the bytes of its struct or message. All messages loop back to the device.
 * Afterwards no identifier is left.
 */
#include "softhca/cm/cm_connection.h"
#include "softhca/device/device.h"
#include "softhca/device/mcast.h"
#include "softhca/roce/neighbor.h"
#include "softhca/uverbs/uverbs.h"
#include "softhca/tests/fuzz/fuzz_input.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_FILES      2
#define MAX_BODY     512
#define MAX_COMMANDS 64
#define N_COMMANDS   26

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct device device;
static struct clock device_clock;
static struct fdtab table;
static struct cm manager;

/* Stand in for neighbor.c's: nothing here may reach a network. */
bool gid_is_multicast(const uint8_t gid[16])
{
	return gid[0] == 0xff || gid[12] >> 4 == 0xe;
}

int neighbor_own_mac(const char *netdev, uint8_t mac[6])
{
	(void)netdev;
	memset(mac, 0, 6); /* of "lo" */
	return 0;
}

int neighbor_find(const char *netdev, struct roce_path *path)
{
	return path->dgid[15] & 1 ? neighbor_own_mac(netdev, path->dmac) : -ETIMEDOUT;
}

/* A wire that takes frames and brings none. */
static int wire_send(struct wire *wire, const struct iovec *const *iov, const int *iovcnt, int n)
{
	(void)wire;
	(void)iov;
	(void)iovcnt;
	return n;
}

static const struct wire_ops wire_ops = {.send = wire_send};
static struct wire wire = {.ops = &wire_ops};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct settings settings = fuzz_settings(&device_clock);

	(void)argc;
	(void)argv;
	settings.device.kernel_drop = KERNEL_DROP_OFF;
	device_init(&device, &settings.device, 0, &uverbs_events);
	device.wire = &wire;
	device.n_wire_users = 1;
	device.mcast = mcast_new("lo");
	must(device.mcast);
	fdtab_init(&table);
	cm_init(&manager, &table, &device, 1);
	return 0;
}

/* Puts a good address where the command has that of its answer, and small numbers where it has an identifier. */
static void mend(uint32_t command, uint8_t *body, uint8_t id, void *response)
{
	uint64_t address = (uintptr_t)response;
	uint32_t number = id & 7;
	size_t at = command == RDMA_USER_CM_CMD_CREATE_ID ? offsetof(struct rdma_ucm_create_id, response) : 0;

	switch (command) {
	case RDMA_USER_CM_CMD_BIND:
	case RDMA_USER_CM_CMD_RESOLVE_ADDR:
	case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
	case RDMA_USER_CM_CMD_LISTEN:
	case RDMA_USER_CM_CMD_REJECT:
	case RDMA_USER_CM_CMD_DISCONNECT:
	case RDMA_USER_CM_CMD_NOTIFY:
		memcpy(body, &number, sizeof(number));
		return;
	case RDMA_USER_CM_CMD_BIND_IP:
		memcpy(body + offsetof(struct rdma_ucm_bind_ip, id), &number, sizeof(number));
		return;
	case RDMA_USER_CM_CMD_CONNECT:
		memcpy(body + offsetof(struct rdma_ucm_connect, id), &number, sizeof(number));
		body[offsetof(struct rdma_ucm_connect, conn_param.valid)] = 1;
		return;
	case RDMA_USER_CM_CMD_JOIN_MCAST:
		memcpy(body, &address, sizeof(address));
		memcpy(body + offsetof(struct rdma_ucm_join_mcast, id), &number, sizeof(number));
		return;
	case RDMA_USER_CM_CMD_ACCEPT:
		memcpy(body + offsetof(struct rdma_ucm_accept, id), &number, sizeof(number));
		return;
	case RDMA_USER_CM_CMD_RESOLVE_IP:
		memcpy(body + offsetof(struct rdma_ucm_resolve_ip, id), &number, sizeof(number));
		return;
	default:
		memcpy(body + at, &address, sizeof(address));
		if (command != RDMA_USER_CM_CMD_CREATE_ID)
			memcpy(body + 8, &number, sizeof(number));
	}
}

/* With the numbers of an identifier, if there is one and they are to be good. */
static void receive(struct input *in, uint8_t number, bool good)
{
	static const uint8_t head[] = {1, 7, 2, 3};
	uint8_t mad[CM_MAD_BYTES];
	struct cm_datagram g = {.device = &device, .answer = {.version = ROCE_V2}};
	const struct cm_id *id;

	input_bytes(in, mad, sizeof(mad));
	memcpy(mad, head, sizeof(head));
	mad[16] = 0;
	mad[17] = (uint8_t)(CM_REQ + number % (CM_SIDR_REP - CM_REQ + 1));
	if (!cm_message_read(&g.message, mad, sizeof(mad)))
		abort();
	pthread_mutex_lock(&manager.lock);
	id = good && (number & 7u) < manager.n_ids ? manager.ids[number & 7] : NULL;
	if (id) {
		memcpy(g.answer.sgid, id->path.sgid, 16);
		memcpy(g.answer.dgid, id->path.dgid, 16);
		g.message.local_id = id->link.remote_id;
		g.message.remote_id = id->link.local_id;
		g.message.service = cm_id_service(id, &id->src);
	}
	cm_receive(&manager, &g);
	pthread_mutex_unlock(&manager.lock);
}

static void command(struct input *in, const int fds[N_FILES])
{
	struct {
		struct rdma_ucm_cmd_hdr header;
		uint8_t body[MAX_BODY];
	} request;
	uint8_t head[4], response[MAX_BODY];
	struct fd_object *o;
	size_t n;

	input_bytes(in, head, sizeof(head));
	if (head[0] % 32 >= N_COMMANDS) {
		receive(in, head[2], !(head[1] & 8));
		return;
	}
	n = input_bytes(in, request.body, head[3]);
	memset(request.body + n, 0, sizeof(request.body) - n);
	request.header.cmd = head[0] % 32;
	request.header.in = head[1] & 2 ? (uint16_t)(head[2] << 4) : (uint16_t)sizeof(request.body);
	request.header.out = head[1] & 4 ? head[2] : sizeof(response);
	if (!(head[1] & 8))
		mend(request.header.cmd, request.body, head[2], response);
	if (request.header.cmd == RDMA_USER_CM_CMD_MIGRATE_ID && !(head[1] & 8))
		memcpy(request.body + offsetof(struct rdma_ucm_migrate_id, fd), &fds[head[2] >> 7], sizeof(int));
	o = fdtab_find(&table, fds[head[1] & 1], FD_CM);
	must(o);
	cm_write((struct cm_file *)o, fds[head[1] & 1], &request, sizeof(request));
	fd_object_put(o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	int fds[N_FILES];

	for (int i = 0; i < N_FILES; i++)
		must((fds[i] = cm_open(&manager, O_NONBLOCK | O_CLOEXEC)) >= 0);
	for (int i = 0; i < MAX_COMMANDS && in.left; i++)
		command(&in, fds);
	for (int i = 0; i < N_FILES; i++) {
		fd_object_put(fdtab_take(&table, fds[i]));
		close(fds[i]);
	}
	for (uint32_t i = 0; i < manager.n_ids; i++)
		must(!manager.ids[i]);
	return 0;
}
