// SPDX-License-Identifier: Apache-2.0
/* Two queue pairs of one device that are connected with each other, for the rules of RC and UD. */
#ifndef TESTS_RDMA_PAIR_H
#define TESTS_RDMA_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define PAIR_BYTES 16384u /* of each end's memory */
#define PAIR_GID   1      /* RoCE v2, the address made of the MAC */
#define PAIR_QKEY  0x1234u

struct pair_config {
	enum ibv_qp_type type; /* 0: RC */
	unsigned int depth;    /* 0: 8 */
	int access, mr_access; /* 0: all; -1: none */
	uint8_t rnr_retry, retry_cnt, timeout;
	bool srq; /* the second end receives by a shared queue */
};

struct pair {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq[2]; /* of each end, for sends and receives */
	struct ibv_qp *qp[2];
	struct ibv_srq *srq;
	uint8_t *memory[2];
	struct ibv_mr *mr[2];
	struct ibv_ah *ah; /* UD */
};

/* Both ends are ready to send. Exits with a message if something fails. */
void pair_open(struct pair *p, const struct pair_config *config);
/* Goes from RESET to RTS; `dest`: number of the peer. 0 or an errno. */
int pair_connect(struct pair *p, unsigned int end, const struct pair_config *config, uint32_t dest);
void pair_close(struct pair *p);

/* Posts a receive of `bytes` at the start of the end's memory. The verb's result. */
int pair_receive(struct pair *p, unsigned int end, uint32_t bytes);
/* Posts a request of the first end over `bytes` of its memory, to the start of the other's. The verb's result. */
int pair_post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned int flags);
/* The same with the work request, in which the caller may change what it wants. */
struct ibv_send_wr *pair_request(struct pair *p, enum ibv_wr_opcode opcode, uint32_t bytes, unsigned int flags);

/* The next completion of the end, or status -1 if there is none within `ms`. */
struct ibv_wc pair_poll(struct pair *p, unsigned int end, unsigned int ms);
/* The next asynchronous event, acknowledged; -1: none within `ms`. */
int pair_event(struct pair *p, unsigned int ms);
enum ibv_qp_state pair_state(struct pair *p, unsigned int end);

#endif
