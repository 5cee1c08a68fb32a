// SPDX-License-Identifier: Apache-2.0
/*
 * The structures in the program's memory that the device and libmlx5 share: completion queue entries, work queue
 * entries, doorbell records. Layouts: mlx5 Programmer's Reference Manual (PRM) chapters 8.8 (work queues) and 8.19
 * (completion queues). All multi-byte fields are big-endian.
 */
#ifndef SOFTHCA_DEVICE_HW_H
#define SOFTHCA_DEVICE_HW_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum hw_cqe_opcode {
	HW_CQE_REQ = 0,
	HW_CQE_RESP_WRITE_IMM = 1,
	HW_CQE_RESP_SEND = 2,
	HW_CQE_RESP_SEND_IMM = 3,
	HW_CQE_RESIZE_CQ = 5, /* the last entry of a buffer that another one replaces */
	HW_CQE_REQ_ERR = 13,
	HW_CQE_RESP_ERR = 14,
	HW_CQE_INVALID = 15,
};

enum hw_syndrome {
	HW_SYNDROME_LOCAL_LENGTH = 0x01,
	HW_SYNDROME_LOCAL_QP_OP = 0x02,
	HW_SYNDROME_LOCAL_PROT = 0x04,
	HW_SYNDROME_WR_FLUSH = 0x05,
	HW_SYNDROME_BAD_RESPONSE = 0x10,
	HW_SYNDROME_REMOTE_INVALID = 0x12,
	HW_SYNDROME_REMOTE_ACCESS = 0x13,
	HW_SYNDROME_REMOTE_OP = 0x14,
	HW_SYNDROME_RETRY_EXCEEDED = 0x15,
	HW_SYNDROME_RNR_EXCEEDED = 0x16,
};

/* hds_ip_ext: what the device has verified. */
enum hw_cqe_checked {
	HW_CQE_L2_OK = 1 << 0,
	HW_CQE_L3_OK = 1 << 1,
	HW_CQE_L4_OK = 1 << 2,
};

/* l4_hdr_type_etc: bits 6:4 the transport, 3:2 the network header, 0 "C-VLAN stripped". */
enum hw_cqe_hdr_type {
	HW_CQE_CVLAN_STRIPPED = 1 << 0,
	HW_CQE_L3_IPV6 = 1 << 2,
	HW_CQE_L3_IPV4 = 2 << 2,
	HW_CQE_L4_TCP = 1 << 4,
	HW_CQE_L4_UDP = 2 << 4,
};

struct hw_cqe {
	uint8_t rsvd0[2];
	uint16_t wqe_id_be; /* striding: the entry, and wqe_counter_be is the first stride */
	uint8_t rsvd4[8];
	uint32_t rx_hash_be;
	uint8_t rsvd16[4];
	uint16_t check_sum; /* ones' complement sum of the IP packet, as it lies in memory */
	uint8_t rsvd22[2];
	uint32_t flags_rqpn_be; /* UD: bits 29:28 "has a GRH", 25:24 enum hw_roce_l3, 23:0 the sender's QP number */
	uint8_t hds_ip_ext;
	uint8_t l4_hdr_type_etc;
	uint16_t vlan_info_be;
	uint32_t uidx_be;
	uint32_t imm_be;
	uint8_t rsvd40[4];
	uint32_t byte_cnt_be; /* striding: bit 31 "no packet", 30:16 strides, 15:0 bytes */
	uint64_t timestamp_be;
	uint32_t sop_drop_qpn_be; /* raw receive: flow tag; else opcode << 24 | QP number */
	uint16_t wqe_counter_be;
	uint8_t signature;
	uint8_t op_own; /* opcode << 4 | owner: written last, since it gives the entry to the program */
};
static_assert(sizeof(struct hw_cqe) == 64, "CQE");
static_assert(offsetof(struct hw_cqe, rx_hash_be) == 12, "CQE hash");
static_assert(offsetof(struct hw_cqe, check_sum) == 20, "CQE checksum");
static_assert(offsetof(struct hw_cqe, flags_rqpn_be) == 24, "CQE source");
static_assert(offsetof(struct hw_cqe, timestamp_be) == 48, "CQE timestamp");
static_assert(offsetof(struct hw_cqe, op_own) == 63, "CQE owner");

/* Of op_own: the entry is the title of compressed ones, and byte_cnt_be is their number. */
#define HW_CQE_COMPRESSED (3u << 2)
/* What compressed completions have of their own, in arrays of eight (mini_cqe_res_format of the CQ context). */
enum hw_mini_format { HW_MINI_HASH = 0, HW_MINI_CSUM = 1, HW_MINI_CSUM_STRIDE = 3 };
#define HW_MINI_ARRAY 8u
struct hw_mini_cqe {
	union {
		uint32_t rx_hash_be;
		struct {
			uint16_t check_sum;
			uint16_t stride_be;
		};
	};
	uint32_t byte_cnt_be;
};
static_assert(sizeof(struct hw_mini_cqe) * HW_MINI_ARRAY == sizeof(struct hw_cqe), "an array has the size of an entry");

struct hw_cqe_err {
	uint8_t rsvd0[32];
	uint32_t uidx_be;
	uint8_t rsvd36[18];
	uint8_t vendor_syndrome;
	uint8_t syndrome;
	uint32_t wqe_opcode_qpn_be;
	uint16_t wqe_counter_be;
	uint8_t signature;
	uint8_t op_own;
};
static_assert(sizeof(struct hw_cqe_err) == 64, "error CQE");
static_assert(offsetof(struct hw_cqe_err, syndrome) == 55, "error CQE syndrome");

struct hw_data_seg {
	uint32_t byte_count_be;
	uint32_t lkey_be;
	uint64_t addr_be;
};
static_assert(sizeof(struct hw_data_seg) == 16, "data segment");

#define HW_INVALID_LKEY  0x100u /* ends a scatter list that is shorter than its work queue entry */
#define HW_INLINE_SEG    0x80000000u
#define HW_STRIDE_FILLER 0x80000000u

struct hw_ctrl_seg {
	uint32_t opmod_idx_opcode_be;
	uint32_t qpn_ds_be;
	uint8_t signature;
	uint8_t rsvd[2];
	uint8_t fm_ce_se;
	uint32_t imm_be;
};
static_assert(sizeof(struct hw_ctrl_seg) == 16, "control segment");

struct hw_eth_seg {
	uint32_t rsvd0;
	uint8_t cs_flags;
	uint8_t rsvd1;
	uint16_t mss_be;
	uint32_t rsvd2;
	uint16_t inline_hdr_sz_be;
	uint8_t inline_hdr[18];
};
static_assert(offsetof(struct hw_eth_seg, inline_hdr) == 14, "Ethernet segment");

/* The segments of RC and UD that follow the control segment (mlx5dv.h: mlx5_wqe_raddr_seg, _atomic_seg, _av). */
struct hw_raddr_seg {
	uint64_t addr_be;
	uint32_t rkey_be, rsvd;
};
static_assert(sizeof(struct hw_raddr_seg) == 16, "remote address segment");

struct hw_atomic_seg {
	uint64_t swap_add_be, compare_be;
};
static_assert(sizeof(struct hw_atomic_seg) == 16, "atomic segment");

struct hw_av_seg {
	uint32_t qkey_be, rsvd;
	uint32_t qpn_be; /* bit 31: the long form, which this is */
	uint8_t rate_sl, mlid;
	uint16_t udp_sport_be;
	uint8_t rsvd1[4];
	uint8_t mac[6];
	uint8_t tclass, hop_limit;
	uint32_t gid_flow_be; /* bits 27:20 index of the source GID, 19:0 flow label */
	uint8_t gid[16];
};
static_assert(sizeof(struct hw_av_seg) == 48, "address vector");

/* In front of the scatter list of an entry of a shared receive queue, and of a striding one, which does not use it. */
struct hw_srq_next_seg {
	uint16_t rsvd;
	uint16_t next_be;
	uint8_t rsvd1[12];
};
static_assert(sizeof(struct hw_srq_next_seg) == 16, "next segment");

enum hw_wqe_opcode {
	HW_OPCODE_NOP = 0x00,
	HW_OPCODE_WRITE = 0x08,
	HW_OPCODE_WRITE_IMM = 0x09,
	HW_OPCODE_SEND = 0x0a,
	HW_OPCODE_SEND_IMM = 0x0b,
	HW_OPCODE_READ = 0x10,
	HW_OPCODE_COMPARE_SWAP = 0x11,
	HW_OPCODE_FETCH_ADD = 0x12,
};
enum hw_ctrl_flags { HW_CTRL_SOLICITED = 1 << 1, HW_CTRL_CQ_UPDATE = 2 << 2, HW_CTRL_FENCE = 4 << 5 };
enum hw_roce_l3 { HW_ROCE_GRH = 0, HW_ROCE_IPV6 = 1, HW_ROCE_IPV4 = 2 };
enum hw_eth_flags { HW_ETH_L3_CSUM = 1 << 6, HW_ETH_L4_CSUM = 1 << 7 };
#define HW_SEND_WQE_BB 64u /* the size of a send queue is counted in blocks of this size */

/* Doorbell records have two words; the first pair is a queue pair's, the second a completion queue's. */
enum { HW_DBR_RECV = 0, HW_DBR_SEND = 1 };
enum { HW_DBR_CQ_CONSUMER = 0, HW_DBR_CQ_ARM = 1 };

#define HW_CQ_ARM_SOLICITED (1u << 24)
#define HW_CQ_INDEX_MASK    0xffffffu

#endif
