// SPDX-License-Identifier: Apache-2.0
/* Commands of the context, the device and its port. Payloads: ib_user_verbs.h and mlx5-abi.h. */
#include "ioctl.h"
#include "uverbs.h"

#include "../device/netdev.h"

#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE_BYTES                  4096
#define MMAP_OFFSET(command, index) (((off_t)(command) << 8 | (index)) * PAGE_BYTES)
#define ASYNC_RECORD                sizeof(struct ib_uverbs_async_event_desc)
#define VENDOR_MELLANOX             0x02c9
#define PORT_CAP_CM                 (1 << 16)
#define LINK_LAYER_ETHERNET         2
#define ATOMIC_HCA                  1   /* enum ibv_atomic_cap */
#define GROUP_QPS                   240 /* queue pairs that one multicast group may have */

/* Of enum ib_uverbs_device_cap_flags and enum ib_uverbs_raw_packet_cap_flags, which headers before Linux 5.19 lack. */
#define DEVICE_PORT_ACTIVE_EVENT       (1u << 10)
#define DEVICE_SYS_IMAGE_GUID          (1u << 11)
#define DEVICE_RC_RNR_NAK_GEN          (1u << 12)
#define DEVICE_RAW_IP_CSUM             (1u << 26)
#define DEVICE_MANAGED_FLOW_STEERING   (1u << 29)
#define RAW_PACKET_CAP_CVLAN_STRIPPING (1u << 0)
#define RAW_PACKET_CAP_DELAY_DROP      (1u << 3)
#define RAW_PACKET_CAP_IP_CSUM         (1u << 2)

static void *context_map_page(const struct uverbs_file *f, off_t offset)
{
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, f->memfd, offset);

	return page == MAP_FAILED ? NULL : page;
}

void context_unmap_clock(struct uverbs_file *f)
{
	struct clock_pages *p = &f->clock_pages;

	if (f->clock_running)
		clock_remove(f->clock, p);
	f->clock_running = false;
	if (p->counter)
		munmap(p->counter, PAGE_BYTES);
	if (p->info)
		munmap(p->info, PAGE_BYTES);
	p->counter = p->info = NULL;
}

/* If the model has no clock, the clock's thread still watches the port. */
static int context_map_clock(struct uverbs_file *f)
{
	struct clock_pages *p = &f->clock_pages;

	p->khz = f->device->config.profile->core_clock_khz;
	if (p->khz) {
		p->counter = context_map_page(f, MMAP_OFFSET(MLX5_IB_MMAP_CORE_CLOCK, 0));
		p->info = context_map_page(f, MMAP_OFFSET(MLX5_IB_MMAP_CLOCK_INFO, MLX5_IB_CLOCK_INFO_V1));
		if (!p->counter || !p->info)
			goto fail;
	}
	if (clock_add(f->clock, p))
		goto fail;
	f->clock_running = true;
	return 0;
fail:
	context_unmap_clock(f);
	return -ENOMEM;
}

void context_fill(const struct device *d, struct mlx5_ib_alloc_ucontext_resp *r)
{
	const struct profile *p = d->config.profile;

	*r = (struct mlx5_ib_alloc_ucontext_resp){
		.qp_tab_size = p->max_qp,
		.bf_reg_size = 512,
		.cache_line_size = 64,
		.max_sq_desc_sz = p->max_sq_desc_bytes,
		.max_rq_desc_sz = p->max_rq_desc_bytes,
		.max_send_wqebb = p->max_send_wqebb,
		.max_recv_wr = p->max_qp_wr,
		.max_srq_recv_wr = p->max_qp_wr,
		.num_ports = device_port(d),
		.cqe_version = 1,
		.cmds_supp_uhw = MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE |
	                         (p->max_rd_atomic ? MLX5_USER_CMDS_SUPP_UHW_CREATE_AH : 0),
		.eth_min_inline = p->eth_min_inline,
		.log_uar_size = 12,
		.num_uars_per_page = 1,
		.num_dyn_bfregs = 1024,
	};
	if (p->core_clock_khz) {
		r->comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_CORE_CLOCK_OFFSET;
		r->clock_info_versions = 1 << MLX5_IB_CLOCK_INFO_V1;
	}
	if (d->config.real_time)
		r->comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS;
	if (p->null_mr) {
		r->comp_mask |= MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_DUMP_FILL_MKEY;
		r->dump_fill_mkey = MKEY_NULL;
	}
}

int context_open_events(struct uverbs_file *f, int *fd)
{
	struct event_channel *c;
	int r = event_channel_open(f->fdtab, f->fd_object.ino, ASYNC_RECORD, &c, fd);

	if (r)
		return r;
	device_lock(f->device);
	STAILQ_INSERT_TAIL(&f->async, c, link);
	device_unlock(f->device);
	return 0;
}

/* Makes the context, once, and completely or not at all. `*fd` becomes the descriptor of asynchronous events. */
static int context_make(struct uverbs_file *f, int *fd)
{
	int r = -EINVAL;

	pthread_mutex_lock(&f->context_lock);
	if (f->has_context)
		goto unlock;
	r = context_map_clock(f);
	if (r)
		goto unlock;
	r = context_open_events(f, fd);
	if (r) {
		context_unmap_clock(f);
		goto unlock;
	}
	device_lock(f->device);
	f->device->n_contexts++;
	device_unlock(f->device);
	f->has_context = true;
unlock:
	pthread_mutex_unlock(&f->context_lock);
	return r;
}

int cmd_get_context(struct command *c)
{
	struct mlx5_ib_alloc_ucontext_req_v2 req;
	struct mlx5_ib_alloc_ucontext_resp drv;
	struct ib_uverbs_get_context_resp resp = {};
	int fd, r = command_in(&req, sizeof(req), c->drv_in, c->drv_in_bytes);

	if (r)
		return r;
	if (c->drv_in_bytes < 8 || req.comp_mask || req.reserved0 || req.reserved1 || req.reserved2 ||
	    (req.flags & ~(uint32_t)MLX5_IB_ALLOC_UCTX_DEVX))
		return -EOPNOTSUPP;
	/* There is no DEVX; libmlx5 asks again without it. Every library since rdma-core 28 uses completions of
	 * version 1 and doorbell pages as objects. */
	if ((req.flags & MLX5_IB_ALLOC_UCTX_DEVX) || req.max_cqe_version < 1 || !(req.lib_caps & MLX5_LIB_CAP_DYN_UAR))
		return -EOPNOTSUPP;
	r = context_make(c->file, &fd);
	if (r)
		return r;
	resp.async_fd = (uint32_t)fd;
	resp.num_comp_vectors = device_n_comp_vectors(c->file->device);
	COMMAND_OUT(c, &resp);
	context_fill(c->file->device, &drv);
	drv.response_length = (uint32_t)(c->drv_out_bytes < sizeof(drv) ? c->drv_out_bytes : sizeof(drv));
	command_out(c->drv_out, c->drv_out_bytes, &drv, sizeof(drv));
	return 0;
}

void uverbs_fill_device(const struct device *d, struct ib_uverbs_query_device_resp *r)
{
	const struct profile *p = d->config.profile;
	uint64_t guid = htobe64(netdev_guid(d->config.netdev));

	*r = (struct ib_uverbs_query_device_resp){
		.fw_ver = p->fw_ver,
		.node_guid = guid,
		.sys_image_guid = guid,
		.max_mr_size = p->max_mr_size,
		.page_size_cap = 0xfffffffffffff000ull,
		.vendor_id = VENDOR_MELLANOX,
		.vendor_part_id = p->pci_device,
		.max_qp = p->max_qp,
		.max_qp_wr = p->max_qp_wr,
		.device_cap_flags = DEVICE_PORT_ACTIVE_EVENT | DEVICE_SYS_IMAGE_GUID | DEVICE_MANAGED_FLOW_STEERING |
	                            (p->ip_csum ? DEVICE_RAW_IP_CSUM : 0) |
	                            (p->max_rd_atomic ? DEVICE_RC_RNR_NAK_GEN : 0),
		.max_sge = p->max_sge,
		.max_sge_rd = p->max_sge,
		.max_cq = p->max_cq,
		.max_cqe = p->max_cqe,
		.max_mr = p->max_mr,
		.max_pd = p->max_pd,
		.max_pkeys = 1,
		.max_raw_ethy_qp = p->max_qp,
		.local_ca_ack_delay = 16,
		.phys_port_cnt = (uint8_t)device_port(d),
		.max_qp_rd_atom = p->max_rd_atomic,
		.max_qp_init_rd_atom = p->max_rd_atomic,
		.max_res_rd_atom = p->max_rd_atomic * p->max_qp,
		.atomic_cap = p->max_rd_atomic ? ATOMIC_HCA : 0,
		.max_srq = p->max_srq,
		.max_srq_wr = p->max_srq_wr,
		.max_srq_sge = p->max_srq_sge,
		.max_mcast_grp = p->max_groups,
		.max_mcast_qp_attach = p->max_groups ? GROUP_QPS : 0,
		.max_total_mcast_qp_attach = p->max_groups * GROUP_QPS,
		.max_ah = p->max_rd_atomic ? INT32_MAX : 0,
	};
}

int cmd_query_device(struct command *c)
{
	struct ib_uverbs_query_device_resp resp;

	uverbs_fill_device(c->file->device, &resp);
	COMMAND_OUT(c, &resp);
	return 0;
}

#define SUPPORT_RAW_PACKET (1u << IB_UVERBS_QPT_RAW_PACKET)
#define RX_HASH_FIELDS                                                                                   \
	(MLX5_RX_HASH_SRC_IPV4 | MLX5_RX_HASH_DST_IPV4 | MLX5_RX_HASH_SRC_IPV6 | MLX5_RX_HASH_DST_IPV6 | \
	 MLX5_RX_HASH_SRC_PORT_TCP | MLX5_RX_HASH_DST_PORT_TCP | MLX5_RX_HASH_SRC_PORT_UDP |             \
	 MLX5_RX_HASH_DST_PORT_UDP)

/* Capabilities that are not emulated (segmentation, tag matching) read as zero. */
int cmd_ex_query_device(struct command *c)
{
	const struct profile *p = c->file->device->config.profile;
	struct ib_uverbs_ex_query_device req;
	struct ib_uverbs_ex_query_device_resp resp = {};
	struct mlx5_ib_query_device_resp drv = {};
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (req.comp_mask || req.reserved)
		return -EINVAL;
	if (c->drv_in_bytes)
		return -EINVAL; /* mlx5_ib_query_device: the driver takes no input */
	uverbs_fill_device(c->file->device, &resp.base);
	resp.response_length = (uint32_t)(c->out_bytes < sizeof(resp) ? c->out_bytes : sizeof(resp));
	resp.timestamp_mask = p->timestamp_mask;
	resp.hca_core_clock = p->core_clock_khz;
	resp.device_cap_flags_ex = resp.base.device_cap_flags;
	if (p->ip_csum)
		resp.raw_packet_caps |= RAW_PACKET_CAP_IP_CSUM;
	if (p->cvlan_stripping)
		resp.raw_packet_caps |= RAW_PACKET_CAP_CVLAN_STRIPPING;
	if (p->delay_drop)
		resp.raw_packet_caps |= RAW_PACKET_CAP_DELAY_DROP;
	resp.max_wq_type_rq = p->max_wq;
	if (p->log_max_rss_table) {
		resp.rss_caps.supported_qpts = SUPPORT_RAW_PACKET;
		resp.rss_caps.max_rwq_indirection_tables = p->max_rss_tables;
		resp.rss_caps.max_rwq_indirection_table_size = 1u << p->log_max_rss_table;
	}
	resp.cq_moderation_caps.max_cq_moderation_count = p->max_moderation_count;
	resp.cq_moderation_caps.max_cq_moderation_period = p->max_moderation_us;
	COMMAND_OUT(c, &resp);
	if (p->log_max_rss_table) {
		drv.rss_caps.rx_hash_function = MLX5_RX_HASH_FUNC_TOEPLITZ;
		drv.rss_caps.rx_hash_fields_mask = RX_HASH_FIELDS;
	}
	if (p->max_rate_kbps) {
		drv.packet_pacing_caps.qp_rate_limit_min = p->min_rate_kbps;
		drv.packet_pacing_caps.qp_rate_limit_max = p->max_rate_kbps;
		drv.packet_pacing_caps.supported_qpts = SUPPORT_RAW_PACKET;
	}
	if (p->pacing_burst)
		drv.packet_pacing_caps.cap_flags = MLX5_IB_PP_SUPPORT_BURST;
	if (p->max_compressed) {
		drv.cqe_comp_caps.max_num = p->max_compressed;
		drv.cqe_comp_caps.supported_format = MLX5_IB_CQE_RES_FORMAT_HASH | MLX5_IB_CQE_RES_FORMAT_CSUM |
		                                     (p->striding ? MLX5_IB_CQE_RES_FORMAT_CSUM_STRIDX : 0);
	}
	if (p->striding)
		drv.striding_rq_caps = (struct mlx5_ib_striding_rq_caps){
			.min_single_stride_log_num_of_bytes = STRIDING_MIN_LOG_BYTES,
			.max_single_stride_log_num_of_bytes = STRIDING_MAX_LOG_BYTES,
			.min_single_wqe_log_num_of_strides = STRIDING_MIN_LOG_STRIDES,
			.max_single_wqe_log_num_of_strides = STRIDING_MAX_LOG_STRIDES,
			.supported_qpts = SUPPORT_RAW_PACKET,
		};
	drv.response_length = (uint32_t)(c->drv_out_bytes < sizeof(drv) ? c->drv_out_bytes : sizeof(drv));
	command_out(c->drv_out, c->drv_out_bytes, &drv, sizeof(drv));
	return 0;
}

int cmd_query_port(struct command *c)
{
	const struct device *d = c->file->device;
	struct ib_uverbs_query_port req;
	struct ib_uverbs_query_port_resp resp;
	struct device_counters counters;
	bool up;
	int r = COMMAND_IN(c, &req);

	if (r)
		return r;
	if (!req.port_num || req.port_num > device_port(d))
		return -EINVAL;
	up = req.port_num == device_port(d) && netdev_link_up(device_port_netdev(d));
	device_read_counters(c->file->device, &counters);
	resp = (struct ib_uverbs_query_port_resp){
		.qkey_viol_cntr = (uint32_t)counters.qkey_violations,
		.port_cap_flags = device_n_gids(d) ? PORT_CAP_CM | IB_UVERBS_PCF_IP_BASED_GIDS : 0,
		.max_msg_sz = 0x40000000,
		.gid_tbl_len = device_n_gids(d),
		.pkey_tbl_len = 1,
		.state = up ? PORT_STATE_ACTIVE : PORT_STATE_DOWN,
		.max_mtu = 5, /* it stops at 4096 (verbs-rules.md "Finding the device") */
		.active_mtu = netdev_ib_mtu(netdev_mtu(device_port_netdev(d))),
		.active_width = 2,  /* 4X */
		.active_speed = 32, /* EDR: 100 Gb/s */
		.phys_state = up ? PORT_PHYS_LINK_UP : PORT_PHYS_DISABLED,
		.link_layer = LINK_LAYER_ETHERNET,
		.flags = IB_UVERBS_QPF_GRH_REQUIRED,
	};
	COMMAND_OUT(c, &resp);
	return 0;
}

static void query_fill_gid(struct ib_uverbs_gid_entry *e, const struct gid *g, uint32_t index, uint32_t ifindex)
{
	memcpy(e->gid, g->raw, 16);
	e->gid_index = index;
	e->port_num = 1;
	e->gid_type = g->type;
	e->netdev_ifindex = ifindex;
}

int ioctl_query_gid_entry(struct ioctl_call *call)
{
	const struct device *d = call->file->device;
	struct ib_uverbs_gid_entry entry = {};
	struct gid gids[256];
	uint64_t index = 0;
	uint32_t port = 0, flags = 0;
	int r;

	if ((r = ioctl_in(call, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, &port, 4)) ||
	    (r = ioctl_in(call, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, &index, 4)) ||
	    (r = ioctl_in(call, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, &flags, 4)))
		return r;
	if (flags || !port || port > device_port(d) || index >= device_n_gids(d))
		return -EINVAL;
	if (index >= netdev_gids(device_port_netdev(d), gids, 256))
		return -ENODATA; /* rdma_get_gid_attr: an empty entry of the table */
	query_fill_gid(&entry, &gids[index], (uint32_t)index, if_nametoindex(device_port_netdev(d)));
	return ioctl_out(call, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &entry, sizeof(entry));
}

int ioctl_query_gid_table(struct ioctl_call *call)
{
	const struct device *d = call->file->device;
	struct ib_uverbs_attr *out = ioctl_attr(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	uint64_t entry_bytes = 0, n;
	struct gid gids[256];
	uint32_t flags = 0;
	int r;

	if ((r = ioctl_in(call, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, &entry_bytes, 8)) ||
	    (r = ioctl_in(call, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, &flags, 4)))
		return r;
	if (flags || entry_bytes < sizeof(struct ib_uverbs_gid_entry) || !out)
		return -EINVAL;
	n = device_n_gids(d) ? netdev_gids(device_port_netdev(d), gids, 256) : 0;
	if (n > out->len / entry_bytes)
		return -EINVAL;
	for (uint64_t i = 0; i < n; i++) {
		struct ib_uverbs_gid_entry entry = {};

		query_fill_gid(&entry, &gids[i], (uint32_t)i, if_nametoindex(device_port_netdev(d)));
		r = ioctl_out_at(out, i * entry_bytes, &entry, sizeof(entry));
		if (r)
			return r;
	}
	return ioctl_out(call, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}
