// SPDX-License-Identifier: Apache-2.0
/* The RoCE engine of a device: takes RoCE frames from the wire, and gives them to queue pairs by their number. */
#include "roce_qp.h"

#include "../device/mcast.h"
#include "../device/steer.h"
#include "../wire/own_fd.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#define N_BLOCKS (1u << (24 - ROCE_BLOCK_BITS))

/*
 * A device has each number once, but each process has a device of its own on the netdev. A process takes the numbers of
 * a block, and claims the block by a name of which the kernel admits one in a network namespace. The name goes when
 * the process ends. Block 0 has the numbers of raw packet queue pairs, which no peer sees.
 */
static int roce_claim_block(struct roce *r)
{
	int fd = own_fd((int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));

	if (fd < 0)
		return fd;
	for (r->block = 1; r->block < N_BLOCKS; r->block++) {
		struct sockaddr_un name = {.sun_family = AF_UNIX};
		int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "softhca/%s/qp/%u",
		                 r->device->config.netdev, r->block);

		if (!syscall(SYS_bind, fd, &name, offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) {
			r->block_fd = fd;
			return 0;
		}
	}
	own_fd_close(fd);
	return -ENOSPC;
}

/* A group's datagram goes to each queue pair that is attached to it (IBTA 10.5.2). */
static void roce_give_to_group(struct roce *r, const struct roce_packet *p)
{
	struct roce_group *g;
	struct qp *qp;

	TAILQ_FOREACH (qp, &r->device->qps, link) {
		if (!qp->roce)
			continue;
		LIST_FOREACH (g, &qp->roce->groups, link)
			if (!memcmp(g->gid, p->dgid, sizeof(g->gid)))
				datagram_receive(qp->roce, p);
	}
}

/* IBTA 9.6.1: a packet for the state or kind of another queue pair is dropped. */
static void roce_give(struct roce *r, const struct roce_packet *p)
{
	struct roce_qp *q;
	uint32_t traits = roce_traits(p->opcode);

	if (p->dest_qpn == ROCE_MULTICAST_QP && (traits & ROCE_DETH)) {
		roce_give_to_group(r, p);
		return;
	}
	if (p->dest_qpn == ROCE_GSI_QP && r->manager && p->opcode == UD_SEND_ONLY) {
		if (p->qkey == ROCE_GSI_QKEY)
			r->manager(r->device, p, r->manager_arg);
		else
			r->device->counters.qkey_violations++;
		return;
	}
	q = p->dest_qpn >> ROCE_BLOCK_BITS == r->block ? r->qps[p->dest_qpn & (ROCE_BLOCK_QPS - 1)] : NULL;
	if (!q || q->ud != !!(traits & ROCE_DETH))
		return;
	if (q->ud)
		datagram_receive(q, p);
	else if (memcmp(p->sgid, q->attributes.path.dgid, 16) || memcmp(p->dgid, q->attributes.path.sgid, 16))
		return; /* annex A17.9.2: not the peer's address, or not ours */
	else if (traits & ROCE_RESPONSE)
		requester_receive(q, p);
	else
		responder_receive(q, p);
}

static void roce_loop_back(struct roce *r, const uint8_t *frame, uint32_t bytes)
{
	struct roce_packet p;

	if (roce_packet_read(&p, frame, bytes) == ROCE_IS_GOOD)
		roce_give(r, &p);
}

/* Instead of steer(): with RoCE, the device has taken the frames of RoCE before its flow tables see them. A frame that
 * another process of this host sends from the same netdev comes as an outgoing one. */
static uint32_t roce_take(struct device *d, struct wire_frame *f, uint64_t now_ns)
{
	bool outgoing = f->addressed == WIRE_OUTGOING;
	struct roce_packet p;
	enum roce_verdict verdict;

	verdict = roce_packet_read(&p, f->data, f->len);
	if (verdict == ROCE_IS_OTHER)
		return outgoing && !d->sniffed ? 1 : steer(d, f, now_ns);
	if (outgoing ? memcmp(f->data, mcast_own_mac(d->mcast), ETH_ALEN) && !(f->data[0] & 1)
	             : f->addressed == WIRE_TO_OTHER)
		return 1;
	if (!outgoing)
		steer_count(d, f, 1);
	if (verdict == ROCE_IS_GOOD)
		roce_give(d->roce, &p);
	else
		d->counters.rx_icrc_encapsulated++;
	return 1;
}

void roce_read_gids(struct device *d)
{
	struct gid gids[ROCE_MAX_GIDS];
	size_t n = device_n_gids(d) ? netdev_gids(device_port_netdev(d), gids, ROCE_MAX_GIDS) : 0;

	device_lock(d);
	if (d->roce) {
		memcpy(d->roce->gids, gids, n * sizeof(gids[0]));
		d->roce->n_gids = n;
	}
	device_unlock(d);
}

int roce_open(struct device *d)
{
	struct roce *r;
	int error;

	device_lock(d);
	r = d->roce;
	device_unlock(d);
	if (r)
		return 0;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->device = d;
	r->loop_back = roce_loop_back;
	error = roce_claim_block(r);
	if (error) {
		free(r);
		return error;
	}
	roce_packet_init();
	device_lock(d);
	if (!d->roce) {
		d->roce = r;
		r = NULL;
	}
	device_unlock(d);
	if (r) { /* another thread was faster */
		own_fd_close(r->block_fd);
		free(r);
	}
	roce_read_gids(d);
	return 0;
}

/* Only packets of UDP can be kept from the kernel: its stack has no use for others. */
static const struct flow_rule roce_rule = {
	.mask = {.ip_proto = 0xff, .dst_port = 0xffff},
	.value = {.ip_proto = IPPROTO_UDP, .dst_port = __builtin_bswap16(ROCE_UDP_PORT)},
};

static void roce_use(struct roce *r)
{
	if (r->n_users++)
		return;
	r->device->ledger.n_values = LEDGER_N_VALUES;
	kernel_drop_add(&r->device->kernel_drop, &roce_rule, &r->dropped);
	r->device->take = roce_take;
	steer_rules_changed(r->device);
}

void roce_manage(struct roce *r, roce_manager *manager, void *arg)
{
	r->manager = manager;
	r->manager_arg = arg;
	roce_use(r);
}

bool roce_add(struct roce *r, struct roce_qp *q)
{
	for (uint32_t tried = 0; tried < ROCE_BLOCK_QPS; tried++) {
		uint32_t n = r->next_number++ & (ROCE_BLOCK_QPS - 1);

		if (r->qps[n])
			continue;
		r->qps[n] = q;
		q->qp->qpn = r->block << ROCE_BLOCK_BITS | n;
		roce_use(r);
		return true;
	}
	return false;
}

void roce_remove(struct roce *r, struct roce_qp *q)
{
	r->qps[q->qp->qpn & (ROCE_BLOCK_QPS - 1)] = NULL;
	if (--r->n_users)
		return;
	r->n_frames = 0;
	kernel_drop_remove(&r->device->kernel_drop, &r->dropped);
	r->device->take = steer;
	steer_rules_changed(r->device);
}
