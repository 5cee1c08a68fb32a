// SPDX-License-Identifier: Apache-2.0
/* What a device reports of itself: one row for each model. */
#ifndef SOFTHCA_DEVICE_PROFILE_H
#define SOFTHCA_DEVICE_PROFILE_H

#include "flow.h"

#include <stdbool.h>
#include <stdint.h>

struct profile {
	const char *name;
	const char *hca_type;
	const char *board_id;
	uint16_t pci_device;
	uint64_t fw_ver; /* major << 32 | minor << 16 | sub */
	uint32_t max_qp, max_qp_wr, max_cq, max_cqe, max_mr, max_pd;
	uint64_t max_mr_size;
	uint16_t max_sq_desc_bytes, max_rq_desc_bytes;
	uint32_t max_send_wqebb;
	uint32_t max_sge;        /* as the kernel reports it: the smaller of send and receive */
	uint32_t core_clock_khz; /* 0: no clock and no timestamps */
	uint64_t timestamp_mask;
	uint8_t eth_min_inline; /* enum mlx5_user_inline_mode */
	uint32_t n_comp_vectors;
	struct flow_limits flow;
	uint16_t gid_table_len;
	uint8_t log_max_rss_table; /* 0: no RSS */
	uint32_t max_rss_tables;
	uint32_t max_srq, max_srq_wr, max_srq_sge;
	uint8_t max_rd_atomic;                            /* 0: no RC and UD */
	uint32_t max_groups;                              /* of multicast */
	uint32_t max_wq;                                  /* 0: no work queues */
	uint32_t min_rate_kbps, max_rate_kbps;            /* 0: no packet pacing */
	uint32_t n_rates;                                 /* of different rates at a time */
	uint16_t max_moderation_count, max_moderation_us; /* 0: no CQ moderation */
	bool null_mr, ip_csum, cvlan_stripping, striding, delay_drop;
	uint16_t max_compressed; /* completions that one entry may stand for; 0: no compression */
	bool pacing_burst;
};

/* Of striding queues (mlx5_ib: MLX5_MIN_SINGLE_STRIDE_LOG_NUM_BYTES and its like). */
#define STRIDING_MIN_LOG_BYTES   6u
#define STRIDING_MAX_LOG_BYTES   13u
#define STRIDING_MIN_LOG_STRIDES 9u
#define STRIDING_MAX_LOG_STRIDES 16u

/* Known names, separated by commas. */
extern const char profile_names[];

/* The profile called `name`; the default one for NULL or ""; NULL if there is no such profile. */
const struct profile *profile_find(const char *name);

#endif
