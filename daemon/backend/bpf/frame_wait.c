// SPDX-License-Identifier: Apache-2.0
/*
 * Waits until no frame is in a BPF program. The kernel runs the program and delivers to the sockets in one section that
 * synchronize_rcu() waits for; membarrier(2) calls synchronize_rcu().
 */
#include "daemon/backend/bpf/flow_table.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS 20000000

void frame_wait(void)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		nanosleep(&nap, NULL); /* with the kernel parameter nohz_full: long enough for a turn of the driver */
}
