// SPDX-License-Identifier: Apache-2.0
/*
 * libibvcap-cuda: the packets of a receive handle on a CUDA device. A batch has device addresses of its rows, for work
 * that the program queues on streams of its own: kernels, copies, cuFFT. libibvcap-cuda(3) has an example.
 *
 * The library finds out how the device can read the rows, once for each ring:
 *
 * - in place: the ring is registered with the driver, read-only, and the device reads it over the bus. No copy. The
 *   device needs the attribute HOST_REGISTER_READ_ONLY_SUPPORTED; many have it not.
 * - pageable: the device reads memory by the page tables of the host (attribute
 *   PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES). No copy. A device that has only PAGEABLE_MEMORY_ACCESS does it by
 *   page faults (HMM); this is taken only if the options ask for it, since a fault that the kernel cannot serve ends
 *   the process's context.
 * - staged: the library copies the rows to pinned memory, which every device reads. The lease of the ring ends at
 *   once.
 *
 * Leases. ibvcap_cuda_release() records an event on the program's stream and returns. The batch's rows stay as they are
 * until the event has passed. The next call of the handle that finds this gives the lease back to the daemon, so a
 * program calls some function of the handle often: ibvcap_cuda_acquire() does, and ibvcap_cuda_poll() is for a program
 * that does something else meanwhile. The library starts no thread. A batch in place holds a lease of the ring, so a
 * program with much work in flight needs more leases than four: lease_blocks of struct ibvcap_rx_options, for which the
 * stream has extra_lease_blocks in ibvcapd.conf(5).
 *
 * A restart of the daemon. ibvcap_cuda_acquire() goes on as ibvcap_rx_acquire() does. The old ring is unregistered when
 * the last event of its batches has passed. The way to read the new ring is found out anew.
 *
 * Contexts. The library retains the primary context of the device, which the runtime API (cudaMalloc(), cuFFT, CuPy,
 * PyTorch) uses, too. Streams must belong to it. The calling thread's current context is the same after each call as
 * before. The library uses the driver API only, so a refusal that it met is never the runtime's last error.
 *
 * Captures of streams into graphs (cudaStreamBeginCapture()). Calls relax the capture mode of the calling thread, and
 * leave it as it was, so that a capture by any thread forbids none of them, and none of them ends a capture. No batch
 * is released on a stream that is being captured, nor on the legacy default stream while one that it waits for is:
 * -EINVAL. An answer of the driver that a capture causes ends no lease, since it says nothing about the work.
 *
 * The driver is libcuda.so.1, loaded when a handle is opened: programs start on machines without it. No function but
 * ibvcap_cuda_open() and ibvcap_cuda_probe() loads it. ibvcap_error_text() has the function of the driver that failed,
 * with the name and the text of its error.
 *
 * The conventions of ibvcap.h hold, too: negative errno, sizes (IBVCAP_INIT), one thread at a time for a handle and its
 * receive handle together, and no calls in a child of fork() (-ECHILD; ibvcap_cuda_close() frees the child's copy
 * only).
 */
#ifndef IBVCAP_CUDA_H
#define IBVCAP_CUDA_H

#include <ibvcap/ibvcap.h>

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* a function and a struct with the same name */
extern "C" {
#endif

struct CUstream_st; /* CUstream and cudaStream_t point to it */

enum ibvcap_cuda_way {
	IBVCAP_CUDA_AUTO = 0, /* the first of the next three that works; PAGEABLE only by the host's page tables */
	IBVCAP_CUDA_IN_PLACE = 1,
	IBVCAP_CUDA_PAGEABLE = 2,
	IBVCAP_CUDA_STAGED = 3,
};

/** Options of ibvcap_cuda_open(). 0 means the default for every field. */
struct ibvcap_cuda_options {
	size_t size;
	enum ibvcap_cuda_way way; /* only this one; AUTO: find one */
	uint32_t device;          /* number of the device, as cuDeviceGet() and CUDA_VISIBLE_DEVICES count */
	uint64_t staging_bytes;   /* of the pinned memory of STAGED; 0 = 16 MiB */
};

/** A receive handle with a device. One thread at a time uses the two. */
struct ibvcap_cuda;

/**
 * Attach a receive handle to a device. The caller goes on owning rx, and closes this handle before it closes rx. From
 * now on the caller acquires and releases only by this handle, and leaves ibvcap_rx_on_unmap() alone. Other calls on rx
 * are allowed: ibvcap_rx_fd(), ibvcap_rx_counts(), ibvcap_rx_info().
 *
 * The way is found out at once if a queue is attached, else when the first one comes. options NULL: defaults. Blocks
 * while the driver starts, which may take seconds.
 *
 * -ENOSYS: libcuda.so.1 is missing, or a function in it · -ENODEV: no such device, or the driver finds none ·
 * -EOPNOTSUPP: the device cannot read the ring in the way that the options ask for · -ENOMEM · -EIO: another error of
 * the driver · -EBUSY: a function of ibvcap_rx_on_unmap() is set · -ECHILD · -EINVAL, -E2BIG: options.
 * ibvcap_error_text() says which and what helps. On failure *cuda is unchanged, and nothing stays registered.
 */
int ibvcap_cuda_open(struct ibvcap_rx *rx, const struct ibvcap_cuda_options *options, struct ibvcap_cuda **cuda);

/**
 * Wait up to timeout_ms (-1 = for ever, 0 = not at all) until the work of all released batches has ended, then free the
 * handle. 0: freed; NULL is allowed. Nothing is freed, and the handle can be used on, if this returns -ETIMEDOUT: work
 * is still queued, also after the daemon has disconnected this consumer; -EBUSY: the caller holds batches that it has
 * not released. A handle whose device has failed is freed at once.
 */
int ibvcap_cuda_close(struct ibvcap_cuda *cuda, int timeout_ms);

/** A batch of rows on the device. Begin with IBVCAP_INIT. */
struct ibvcap_cuda_batch {
	size_t size;
	/* Device addresses of rows.payload, rows.headers and rows.meta, to be read only. The strides are the rows'. */
	uint64_t payload;
	uint64_t headers;
	uint64_t meta;
	uint64_t ticket; /* of the library */
	uint64_t lost;   /* packets that came and got no row since the batch before, as ibvcap_rx_add_losses() says */
	/* The host's view of the same rows: readable until ibvcap_cuda_release(). lease is of no use. */
	struct ibvcap_rx_batch rows; /* the last field, since it may grow */
};

/**
 * As ibvcap_rx_acquire(), with device addresses, and its errors. Leases whose work has ended are given back first. If
 * all leases or all of the staging memory are in use by work that is queued, this waits for that work within
 * timeout_ms. Returns batch->rows.n; 0: no packets in time. While work of released batches is queued, a wait for min
 * packets ends after 20 ms at the latest.
 *
 * -ENOBUFS: all leases, or all of the staging memory, are in use: by batches that the caller holds, or by work that did
 * not end in time; or the epoch has ended, and some are of the old epoch. -EIO: the device has failed, and so do all
 * later calls; or the device's queue in the daemon has. -EOPNOTSUPP: the new ring cannot be read in the way that the
 * options ask for. -ENOMEM. After an error no packet is lost: rows that were leased by then are in the next batch,
 * which may then have fewer rows than min.
 *
 * STAGED: a batch has no more rows than find room. If not one row finds room in staging_bytes: -EMSGSIZE.
 */
int ibvcap_cuda_acquire(struct ibvcap_cuda *cuda, struct ibvcap_cuda_batch *batch, uint32_t max, uint32_t min,
                        int timeout_ms);

/**
 * Return a batch, each once, in any order. Never blocks: its lease ends when all work that is queued on the stream by
 * now has ended. Work on other streams has to be joined to this one by events before. stream: of the device's primary
 * context; NULL: the legacy default stream. Of a batch that no device work reads, NULL works, too.
 *
 * -EINVAL: the caller does not hold this batch, or the driver refuses the stream, which is not of the device's primary
 * context, was destroyed, or is being captured; the latter leaves the batch with the caller, as -ENOMEM does. -EIO: the
 * device has failed, which a stream of the library's own shows, too; the batch is returned.
 */
int ibvcap_cuda_release(struct ibvcap_cuda *cuda, const struct ibvcap_cuda_batch *batch, struct CUstream_st *stream);

/**
 * Give back the leases whose work has ended. Returns the number of released batches whose work has not. Never blocks.
 * -EIO: the device has failed (an illegal address in a kernel, a lost device, a destroyed context). All leases of
 * released batches are given back, since nothing reads them any more. -ECONNABORTED: as of ibvcap_rx_release(): the
 * daemon had disconnected this consumer before a batch that is over now was read; STAGED: before it was copied.
 */
int ibvcap_cuda_poll(struct ibvcap_cuda *cuda);

/**
 * The same, and wait up to timeout_ms (-1 = for ever) for the rest. 0; -ETIMEDOUT: the text says how many batches on
 * how many streams are left; the first error of ibvcap_cuda_poll(), after which nothing is queued any more.
 */
int ibvcap_cuda_wait(struct ibvcap_cuda *cuda, int timeout_ms);

/** An attribute that the driver does not know. */
#define IBVCAP_CUDA_NOT_KNOWN UINT32_MAX

/** What a handle does, and why. Begin with IBVCAP_INIT. */
struct ibvcap_cuda_info {
	size_t size;
	enum ibvcap_cuda_way way; /* AUTO: no ring is attached yet */
	uint32_t device;
	uint32_t driver_version; /* of CUDA that the driver has: 13000 is 13.0 */
	/* Attributes of the device, as the driver has them; IBVCAP_CUDA_NOT_KNOWN. */
	uint32_t host_register;           /* HOST_REGISTER_SUPPORTED */
	uint32_t host_register_read_only; /* READ_ONLY_HOST_REGISTER_SUPPORTED, 113 */
	uint32_t pageable;                /* PAGEABLE_MEMORY_ACCESS */
	uint32_t pageable_by_host_tables; /* PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES */
	uint32_t n_held;                  /* batches that the caller has not released */
	uint32_t n_pending;               /* batches that are released, and whose work has not ended so far */
	uint64_t registered_bytes;        /* of rings, with the driver */
	uint64_t staging_bytes;           /* pinned memory of STAGED */
	uint64_t staging_used_bytes;
	uint64_t batches;    /* acquired so far */
	char name[64];       /* of the device */
	char bus[16];        /* its PCI address */
	char why[512];       /* sentences: why this way, and why not those before it */
	uint32_t has_failed; /* 1: the device has failed */
	uint32_t reserved;
};

/** Never blocks, and asks neither the driver nor the daemon. 0; -EINVAL: the size is not set. */
int ibvcap_cuda_info(const struct ibvcap_cuda *cuda, struct ibvcap_cuda_info *info);

/**
 * Find out how a device would read a ring, without a stream: by memory of the same kind, read-only to this process, of
 * page_bytes (4096, or 2 MiB and more for hugepages). Errors of ibvcap_cuda_open(); -ENOMEM: no such page is free.
 */
int ibvcap_cuda_probe(uint32_t device, uint32_t page_bytes, struct ibvcap_cuda_info *info);

/** "in place", "pageable", "staged", "auto". NULL: there is no such way. Pure. */
const char *ibvcap_cuda_way_word(enum ibvcap_cuda_way way);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
