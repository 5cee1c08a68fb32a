// SPDX-License-Identifier: Apache-2.0
/* What an errno of a verbs call means for the administrator, where the errno alone misleads. */
#include "daemon/backend/verbs/verbs.h"

#include <errno.h>

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
