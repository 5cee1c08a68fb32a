// SPDX-License-Identifier: Apache-2.0
/*
 * The RoCE engine of a device: its RC and UD queue pairs by number, the frames on their way to the wire, and the GIDs.
 * Everything here needs the device's lock, if nothing else is said. The functions that receive only note the answer;
 * the queue pair sends it in its work(). Declares roce_send.c.
 */
#ifndef SOFTHCA_ROCE_ROCE_H
#define SOFTHCA_ROCE_ROCE_H

#include "../device/kernel_drop.h"
#include "../device/netdev.h"
#include "../device/srq.h"
#include "roce_packet.h"

#define ROCE_MAX_GIDS     256
#define ROCE_BLOCK_BITS   14 /* a process has that many numbers of queue pairs at a time */
#define ROCE_BLOCK_QPS    (1u << ROCE_BLOCK_BITS)
#define ROCE_MULTICAST_QP 0xffffffu
#define ROCE_GSI_QP       1
#define ROCE_GSI_QKEY     0x80010000u /* IBTA 10.2.5 */

struct roce_qp;

struct roce_frame {
	uint8_t data[ROCE_FRAME_BYTES];
	uint32_t bytes;
};

/* Gets the packets to queue pair 1. */
typedef void roce_manager(struct device *d, const struct roce_packet *p, void *arg);

struct roce {
	struct device *device;
	unsigned int n_users; /* queue pairs, and the manager */
	roce_manager *manager;
	void *manager_arg;
	uint32_t block, next_number; /* numbers are block << ROCE_BLOCK_BITS | n */
	int block_fd;                /* the socket whose name claims the block */
	struct gid gids[ROCE_MAX_GIDS];
	size_t n_gids;
	struct kernel_dropped dropped;
	struct roce_frame frames[WIRE_SEND_MAX];
	unsigned int n_frames;        /* that wait for the wire */
	const struct roce_path *path; /* of the frame between roce_begin() and roce_end() */
	const struct roce_packet *packet;
	void (*loop_back)(struct roce *r, const uint8_t *frame, uint32_t bytes); /* takes a frame that is for itself */
	struct roce_qp *qps[ROCE_BLOCK_QPS];
};

/* Makes the device's engine at the first call. 0, -ENOMEM, or -ENOSPC if there is no free block of numbers. Lock not
 * held. */
int roce_open(struct device *d);

/* Gives the queue pair a number. False if there is none. The first makes the device take RoCE frames. */
bool roce_add(struct roce *r, struct roce_qp *q);
void roce_remove(struct roce *r, struct roce_qp *q);

/* From now on packets to queue pair 1 go to the manager. */
void roce_manage(struct roce *r, roce_manager *manager, void *arg);

/* Reads the port's GIDs anew. Lock not held. */
void roce_read_gids(struct device *d);
/* The source address of a path. False if the index has no GID. */
bool roce_set_source(const struct roce *r, struct roce_path *path, unsigned int index);

/* Begins a packet: returns the place of its payload, or NULL while the wire is busy. roce_end() sends the packet, for
 * which `p` and `path` must still be there. */
uint8_t *roce_begin(struct roce *r, const struct roce_packet *p, const struct roce_path *path);
void roce_end(struct roce *r);
/* Gives the frames that wait to the wire. */
void roce_flush(struct roce *r);

#endif
