// SPDX-License-Identifier: Apache-2.0
/* Registers memory with a device, and explains errors by the limits that were reached. */
#include "daemon/backend/verbs/verbs.h"
#include "daemon/priv/priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>

/* A registration pins the pages, and the kernel counts pinned bytes against RLIMIT_MEMLOCK. */
static int verbs_explain_registration(const struct verbs_backend *backend, size_t bytes, int error,
                                      struct failure *failure)
{
	const char *device = verbs_device_name(backend);
	struct rlimit limit;

	if ((error == ENOMEM || error == EAGAIN || error == EPERM) && getrlimit(RLIMIT_MEMLOCK, &limit) == 0 &&
	    limit.rlim_cur != RLIM_INFINITY && !priv_has(CAP_IPC_LOCK))
		return failure_set(
			failure, EX_NOPERM, error,
			"cannot register %zu bytes with %s: %s: RLIMIT_MEMLOCK is %" PRIu64
			" bytes: set LimitMEMLOCK=infinity in the unit ('ulimit -l unlimited' in a shell) or "
			"grant CAP_IPC_LOCK",
			bytes, device, strerror(error), (uint64_t)limit.rlim_cur);
	return failure_set(failure, EX_OSERR, error, "cannot register %zu bytes with %s: %s%s", bytes, device,
	                   strerror(error), verbs_explain_limit(error));
}

/*
 * Relaxed ordering lets the root complex reorder the writes of packets, but never puts a completion before its packet
 * (ibv_reg_mr(3)). The flag is optional: a driver that does not know it ignores it.
 */
static unsigned verbs_memory_access(const struct verbs_backend *backend)
{
	return IBV_ACCESS_LOCAL_WRITE | (backend->strict_ordering ? 0 : IBV_ACCESS_RELAXED_ORDERING);
}

int verbs_register_memory(struct backend *base, void *address, size_t bytes, struct backend_memory **out,
                          struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_memory *memory;

	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return failure_no_memory(failure);
	memory->base.backend = base;
	memory->mr = ibv_reg_mr(backend->pd, address, bytes, verbs_memory_access(backend));
	if (!memory->mr) {
		int error = errno;

		free(memory);
		return verbs_explain_registration(backend, bytes, error, failure);
	}
	*out = &memory->base;
	return 0;
}

static const char *verbs_explain_dmabuf(int error)
{
	switch (error) {
	case EOPNOTSUPP: /* mlx5_ib: without CONFIG_INFINIBAND_ON_DEMAND_PAGING; ib_core: a driver without the call */
	case EPROTONOSUPPORT:
		return ": the kernel or the device's driver registers no dma-bufs: mlx5 needs Linux 5.12 or later with "
		       "CONFIG_INFINIBAND_ON_DEMAND_PAGING";
	case EINVAL: /* mlx5_ib: mlx5r_umr_can_load_pas() */
		return ": the driver takes no region of that size or place; a smaller ring may fit (history_blocks, "
		       "slots_per_block)";
	default: /* of the exporter, when the device attaches to it */
		return *verbs_explain_limit(error) ? verbs_explain_limit(error)
		                                   : ": the device that has the memory may be out of this one's reach: "
		                                     "see 'nvidia-smi topo -m' and the kernel log";
	}
}

int verbs_register_dmabuf(struct backend *base, const struct backend_dmabuf *dmabuf, struct backend_memory **out,
                          struct failure *failure)
{
	struct verbs_backend *backend = verbs_backend(base);
	struct verbs_memory *memory;
	int error;

	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return failure_no_memory(failure);
	memory->base.backend = base;
	memory->mr = ibv_reg_dmabuf_mr(backend->pd, dmabuf->offset, dmabuf->bytes, (uintptr_t)dmabuf->address,
	                               dmabuf->fd, verbs_memory_access(backend));
	if (memory->mr) {
		*out = &memory->base;
		return 0;
	}
	error = errno;
	free(memory);
	return failure_set(failure, EX_UNAVAILABLE, error, "cannot register %zu bytes of a dma-buf with %s: %s%s",
	                   dmabuf->bytes, verbs_device_name(backend), strerror(error), verbs_explain_dmabuf(error));
}

void verbs_unregister_memory(struct backend_memory *base)
{
	struct verbs_memory *memory = (struct verbs_memory *)base;

	if (!memory)
		return;
	ibv_dereg_mr(memory->mr);
	free(memory);
}

/* ---- texts -------------------------------------------------------------------------------------- */

const char *verbs_explain_limit(int error)
{
	/* ib_uverbs charges each object to the cgroup (rdmacg_try_charge); mlx5_core turns NO_RES_ERR into EAGAIN. */
	if (error == EAGAIN)
		return ": the rdma.max of a cgroup above this process admits no more handles or objects, or the "
		       "device has none left: raise the limit, or end other programs that use the device";
	/* mlx5_core, after 60 s without an answer of the firmware, and in every call after a fatal error. */
	if (error == ETIMEDOUT || error == EIO)
		return ": the device does not answer: see 'dmesg | grep mlx5'; 'devlink dev reload' or a reboot "
		       "resets it";
	return "";
}

const char *verbs_explain_flow(int error, const struct flow_rule *rule)
{
	if (rule && rule->copy && error == EOPNOTSUPP) /* mlx5_core: fwd_next_prio_supported() */
		return ": the device cannot pass a packet on to the kernel: accepted is copy = false";
	if (rule && error == ENOMEM) /* mlx5_ib: get_flow_table() */
		return ": the device has fewer priorities, or no memory for another flow table: accepted may be "
		       "a higher priority";
	switch (error) {
	case EPERM:
	case EACCES:
		return ": " VERBS_NET_RAW_HINT;
	case ENOSPC: /* mlx5_ib: MLX5_FS_MAX_ENTRIES, MLX5_FS_MAX_TYPES; mlx5_core: alloc_auto_flow_group() */
		return ": the flow table of the port is full, which all programs share: on mlx5 65536 rules, of which "
		       "each combination of keys, such as source, source_port and vlan, reserves 9362: "
		       "configure fewer flows, or the same combination in all of them";
	case ENOMEM:
		return ": the device has no memory for another flow table or counter: configure fewer flows, or the "
		       "same combination of keys in all of them";
	case EOPNOTSUPP:
	case EPROTONOSUPPORT:
		return ": the device or its driver cannot match this: on mlx4 set log_num_mgm_entry_size=-1";
	case EEXIST:
		return ": another queue has the same rule with other actions";
	default:
		return *verbs_explain_limit(error) ? verbs_explain_limit(error)
		                                   : ": refused by the driver; the kernel log may say more";
	}
}
