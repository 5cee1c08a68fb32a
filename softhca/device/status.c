// SPDX-License-Identifier: Apache-2.0
/* The syndromes of completions in error (PRM, CQE error syndromes) and the names that libibverbs gives them. */
#include "status.h"

#include <stdio.h>
#include <string.h>

static const char *const names[] = {
	[0x01] = "LOC_LEN_ERR",    [0x02] = "LOC_QP_OP_ERR", [0x04] = "LOC_PROT_ERR",   [0x05] = "WR_FLUSH_ERR",
	[0x06] = "MW_BIND_ERR",    [0x10] = "BAD_RESP_ERR",  [0x11] = "LOC_ACCESS_ERR", [0x12] = "REM_INV_REQ_ERR",
	[0x13] = "REM_ACCESS_ERR", [0x14] = "REM_OP_ERR",    [0x15] = "RETRY_EXC_ERR",  [0x16] = "RNR_RETRY_EXC_ERR",
	[0x22] = "REM_ABORT_ERR",
};
#define N_NAMES (sizeof(names) / sizeof(names[0]))

const char *status_name(uint8_t syndrome, char *number, size_t size)
{
	if (syndrome < N_NAMES && names[syndrome])
		return names[syndrome];
	snprintf(number, size, "0x%02x", syndrome);
	return number;
}

/* As logs of ConnectX cards show them: openucx/ucx issues 1569, 3618, 5472, 6000 and pull request 11444 (0xd6: a
 * malformed receive work request), charmplusplus/charm issue 2532. */
uint8_t status_vendor(enum hw_syndrome syndrome, bool responder)
{
	switch (syndrome) {
	case HW_SYNDROME_WR_FLUSH:
		return 0xf9;
	case HW_SYNDROME_LOCAL_QP_OP:
		return responder ? 0xd6 : 0x68;
	case HW_SYNDROME_REMOTE_INVALID:
		return 0x8a;
	case HW_SYNDROME_REMOTE_ACCESS:
		return 0x88;
	case HW_SYNDROME_REMOTE_OP:
		return 0x89;
	case HW_SYNDROME_RETRY_EXCEEDED:
		return 0x81;
	default:
		return 0;
	}
}

uint8_t status_find(const char *name, size_t n)
{
	for (size_t i = 0; i < N_NAMES; i++)
		if (names[i] && strlen(names[i]) == n && !memcmp(names[i], name, n))
			return (uint8_t)i;
	return 0;
}
