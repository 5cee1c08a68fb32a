// SPDX-License-Identifier: Apache-2.0
/* Entries of the send queue of RC and UD, as libmlx5 writes them (qp.c: _mlx5_post_send). */
#ifndef SOFTHCA_ROCE_SEND_WQE_H
#define SOFTHCA_ROCE_SEND_WQE_H

#include "../device/qp.h"

struct send_wqe {
	uint16_t index, n_bb;
	uint8_t opcode; /* enum hw_wqe_opcode */
	bool signalled, solicited, fenced;
	uint32_t imm_be;
	uint64_t va;
	uint32_t rkey;
	uint64_t swap_add, compare;
	struct hw_av_seg av;
	uint32_t offset, end; /* of the data segments in the entry */
	uint32_t bytes;       /* of the message */
};

/* Reads the entry at block `index`. 0 or the error; then `n_bb`, `opcode` and `signalled` are set still. */
enum hw_syndrome send_wqe_read(const struct qp *qp, bool ud, uint16_t index, struct send_wqe *w);

/* Copies `bytes` of the message from byte `at` on, from the program's memory to `buffer` or the other way. 0 or the
 * error. */
enum hw_syndrome send_wqe_copy(const struct qp *qp, const struct send_wqe *w, uint32_t at, uint8_t *buffer,
                               uint32_t bytes, bool to_program);

/* Posts the completion of a work request that went well. */
void send_wqe_complete(struct qp *qp, uint16_t index, uint8_t opcode, uint32_t bytes);

#endif
