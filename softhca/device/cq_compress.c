// SPDX-License-Identifier: Apache-2.0
/*
 * Compressed completions (PRM, CQ context: cqe_comp_en): the completions of a turn that agree in most fields become
 * one entry, the title, and arrays of the fields that differ. The readers that softhca follows are mlx5_core's en_rx.c
 * and DPDK's mlx5_rx.c and mlx5_rxtx_vec.c; libmlx5 has none.
 */
#include "cq.h"

#include <endian.h>
#include <string.h>

static void cq_give(struct cq *cq, uint32_t index, uint8_t op)
{
	uint8_t owner = !!(index & cq->n_cqe);

	__atomic_store_n(&cq_entry(cq, index)->op_own, op | owner, __ATOMIC_RELEASE);
}

/* What completions have of their own does not decide whether they are compressed together. */
static struct hw_cqe cqe_shared_fields(const struct hw_cqe *cqe)
{
	struct hw_cqe shared = *cqe;

	shared.rx_hash_be = shared.byte_cnt_be = 0;
	shared.check_sum = shared.wqe_counter_be = 0;
	shared.timestamp_be = 0; /* they all get the title's */
	shared.signature = shared.op_own = 0;
	return shared;
}

/* Does the entry to be posted agree with the one before? The work requests of a block follow each other, and so do the
 * strides unless the format has them, since only the title names one (mlx5_core: mlx5e_decompress_cqe). */
static bool cq_continues(const struct cq *cq, const struct hw_cqe *cqe)
{
	const struct hw_cqe *before = cq_entry(cq, cq->producer - 1);
	uint32_t n_strides = cq->striding ? be32toh(before->byte_cnt_be) >> 16 & 0x7fff : 1;
	struct hw_cqe a = cqe_shared_fields(before), b = cqe_shared_fields(cqe);

	return (cq->mini_format == HW_MINI_CSUM_STRIDE ||
	        (uint16_t)(be16toh(before->wqe_counter_be) + n_strides) == be16toh(cqe->wqe_counter_be)) &&
	       !memcmp(&a, &b, sizeof(a));
}

static struct hw_mini_cqe cqe_own_fields(const struct hw_cqe *cqe, enum hw_mini_format format)
{
	struct hw_mini_cqe mini = {.byte_cnt_be = cqe->byte_cnt_be};

	if (format == HW_MINI_HASH)
		mini.rx_hash_be = cqe->rx_hash_be;
	else
		mini.check_sum = cqe->check_sum;
	if (format == HW_MINI_CSUM_STRIDE)
		mini.stride_be = cqe->wqe_counter_be;
	return mini;
}

/* A block of n completions takes n entries. The first array is in the second entry, and each further one in the entry
 * of its first completion; the others are holes, which the device does not give to the program. */
static void cq_compress(struct cq *cq, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += HW_MINI_ARRAY) {
		struct hw_mini_cqe minis[HW_MINI_ARRAY] = {};

		for (uint32_t j = 0; j < HW_MINI_ARRAY && i + j < n; j++)
			minis[j] = cqe_own_fields(cq_entry(cq, first + i + j), cq->mini_format);
		memcpy(cq_entry(cq, first + (i ? i : 1)), minis, sizeof(minis));
	}
	cq_entry(cq, first)->byte_cnt_be = htobe32(n);
}

void cq_release(struct cq *cq)
{
	uint32_t n = cq->n_held, first = cq->producer - n;
	uint8_t op = HW_CQE_RESP_SEND << 4;

	if (n > 1) {
		/* The program invalidates the entries of a block when it has read them. */
		if (cq->device->tracing)
			trace_held(cq);
		cq_compress(cq, first, n);
		op |= HW_CQE_COMPRESSED;
	}
	cq->n_held = 0;
	cq_give(cq, first, op);
}

/* DPDK's mlx5_rxtx_vec.c reads a block without looking for the end of the buffer, so no block goes beyond it. */
void cq_hold(struct cq *cq, struct hw_cqe *cqe, enum hw_cqe_opcode opcode)
{
	uint32_t n = cq->n_held;

	if (n && (opcode != HW_CQE_RESP_SEND || n == cq->max_compressed || !(cq->producer & (cq->n_cqe - 1)) ||
	          !cq_continues(cq, cqe)))
		cq_release(cq);
	if (opcode == HW_CQE_RESP_SEND) {
		cqe->op_own = (uint8_t)(HW_CQE_RESP_SEND << 4 | !(cq->producer & cq->n_cqe)); /* still the device's */
		cq->n_held++;
	} else {
		cq_give(cq, cq->producer, (uint8_t)((unsigned int)opcode << 4));
	}
	cq_posted(cq, opcode);
}
