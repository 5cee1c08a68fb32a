// SPDX-License-Identifier: Apache-2.0
/*
 * Orders this thread's accesses to memory that a device reads and writes by DMA, and to its registers. On x86 loads and
 * stores of ordinary memory are in order, so the compiler alone must be kept from changing it, as in Linux' dma_rmb()
 * and dma_wmb() and in DPDK's rte_io_rmb(); libmlx5 takes an lfence for the first, which costs some 10 ns.
 */
#ifndef DAEMON_BACKEND_VERBS_DMA_BARRIER_H
#define DAEMON_BACKEND_VERBS_DMA_BARRIER_H

#include <stdbool.h>

#if defined(__x86_64__)
#define DMA_BARRIERS_ARE_KNOWN true
#define DMA_LOAD_BARRIER       ""
#define DMA_STORE_BARRIER      ""
#define DMA_DOORBELL_BARRIER   "sfence" /* the register may be in write-combining memory */
#elif defined(__aarch64__)
#define DMA_BARRIERS_ARE_KNOWN true
#define DMA_LOAD_BARRIER       "dmb oshld"
#define DMA_STORE_BARRIER      "dmb oshst"
#define DMA_DOORBELL_BARRIER   "dsb st"
#else
#define DMA_BARRIERS_ARE_KNOWN false /* and so the direct path is not used */
#define DMA_LOAD_BARRIER       ""
#define DMA_STORE_BARRIER      ""
#define DMA_DOORBELL_BARRIER   ""
#endif

/** After a load that shows that the device has written something: before the loads of that. */
static inline void dma_load_barrier(void)
{
	__asm__ volatile(DMA_LOAD_BARRIER : : : "memory");
}

/** After stores to memory, before a store to memory that lets the device read them. */
static inline void dma_store_barrier(void)
{
	__asm__ volatile(DMA_STORE_BARRIER : : : "memory");
}

/** Between a store to memory and one to a register of the device, and after that. */
static inline void dma_doorbell_barrier(void)
{
	__asm__ volatile(DMA_DOORBELL_BARRIER : : : "memory");
}

#endif
