// SPDX-License-Identifier: Apache-2.0
/*
 * Waits for the frames that a BPF program is about. The kernel runs the program, and delivers to the sockets, in one
 * section that synchronize_rcu() waits for, and membarrier(2) calls that.
 */
#include "daemon/backend/bpf/frame_wait.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS 20000000

void frame_wait(void)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
		nanosleep(&nap, NULL); /* kernel parameter nohz_full: long enough for a turn of the driver */
}
