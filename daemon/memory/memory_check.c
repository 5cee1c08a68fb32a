// SPDX-License-Identifier: Apache-2.0
/* Compares the memory of streams and channels with that of the machine, and with the limit on locked memory. */
#include "daemon/memory/memory_check.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/base/log.h"
#include "daemon/base/machine.h"
#include "daemon/memory/geometry.h"
#include "daemon/priv/priv.h"
#include "daemon/ring/pages.h"
#include "lib/base/files.h"
#include "lib/base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/capability.h>
#include <sys/resource.h>

const uint32_t memory_huge_bytes[MEMORY_HUGE_SIZES] = {2u << 20, 1u << 30};

void memory_add_ring(struct service_memory *memory, const struct config_stream *stream, uint64_t bytes, bool is_locked)
{
	memory->ring_bytes += bytes;
	memory->locked_ring_bytes += is_locked ? bytes : 0;
	memory->small_ring_bytes += stream->page_bytes == SMALL_PAGE_BYTES ? bytes : 0;
	for (unsigned size = 0; size < MEMORY_HUGE_SIZES; size++)
		if (stream->page_bytes == memory_huge_bytes[size])
			memory->n_hugepages[size] += bytes / stream->page_bytes;
}

int memory_check_hugepages(const struct service_memory *all, const struct service_memory *held, unsigned size,
                           struct failure *failure)
{
	const uint32_t page_bytes = memory_huge_bytes[size];
	const struct pages_supply supply = pages_read_supply(page_bytes);
	const uint64_t wanted = all->n_hugepages[size], lacking = wanted - held->n_hugepages[size];
	char advice[PAGES_ADVICE_MAX];

	if (wanted > supply.n_max)
		return failure_set(
			failure, EX_TEMPFAIL, ENOMEM,
			"the rings take %llu hugepages of %u kB, and the control group of this process allows %llu "
			"(hugetlb; in Kubernetes the limit hugepages-%s): raise the limit, or lower history_blocks; "
			"page_size = \"4K\" takes none",
			(unsigned long long)wanted, page_bytes / 1024, (unsigned long long)supply.n_max,
			page_bytes == 2u << 20 ? "2Mi" : "1Gi");
	if (lacking <= supply.n_free)
		return 0;
	return failure_set(failure, EX_TEMPFAIL, wanted > supply.n_all ? ENOMEM : EAGAIN,
	                   "the rings take %llu hugepages of %u kB, and so many are not %s %s%s",
	                   (unsigned long long)wanted, page_bytes / 1024, wanted > supply.n_all ? "there" : "free",
	                   pages_advice(advice, page_bytes, lacking, "history_blocks"),
	                   wanted > supply.n_all ? "" : "; " PAGES_HOLDERS);
}

int memory_check_rings(const struct config *config, struct failure *failure)
{
	uint64_t memory = machine_memory_bytes(), all = 0, largest = 0;
	const struct config_stream *stream = NULL;

	for (uint32_t i = 0; i < config->n_streams; i++) {
		/* NULL: of "auto", whose ring may be larger. */
		const struct backend_ops *ops = backend_find(config_backend_name(config->streams[i].backend));
		uint64_t bytes = geometry_ring_bytes(&config->streams[i], !ops || !ops->pins_memory);

		all += bytes;
		if (bytes > largest) {
			largest = bytes;
			stream = &config->streams[i];
		}
	}
	if (!stream || all <= memory)
		return 0;
	return failure_set(failure, EX_CONFIG, EINVAL,
	                   "%s:%d: stream '%s': history_blocks = %u makes a ring of %llu MiB, all rings together are "
	                   "%llu MiB, and this machine has %llu MiB of memory: lower history_blocks, slots_per_block "
	                   "or payload_size",
	                   stream->file, stream->line, stream->name, stream->history_blocks,
	                   (unsigned long long)(largest >> 20), (unsigned long long)(all >> 20),
	                   (unsigned long long)(memory >> 20));
}

/* 0: the kernel does not tell. */
static uint64_t memory_available_bytes(void)
{
	char kib[32];

	files_read_labelled("/proc/meminfo", "MemAvailable:", kib, sizeof(kib));
	return strtoull(kib, NULL, 10) * 1024;
}

int memory_check_free(const struct service_memory *added, const struct service_memory *running, struct failure *failure)
{
	uint64_t available = memory_available_bytes();

	if (available && added->small_ring_bytes + added->kernel_bytes > available)
		return failure_set(
			failure, EX_TEMPFAIL, ENOMEM,
			"the rings in 4 kB pages want %llu MiB of memory and the kernel's buffers of receive "
			"queues %llu MiB, %llu MiB are available; lower history_blocks, slots_per_block, "
			"payload_size or receive_queue_slots",
			(unsigned long long)(added->small_ring_bytes >> 20),
			(unsigned long long)(added->kernel_bytes >> 20), (unsigned long long)(available >> 20));
	return added->locked_ring_bytes
	               ? priv_memlock_allows(added->locked_ring_bytes + running->locked_ring_bytes, failure)
	               : 0;
}

bool memory_needs_ipc_lock(const struct service_memory *memory)
{
	unsigned long long bytes =
		memory->locked_ring_bytes + memory->locked_channel_bytes + memory->locked_device_bytes;
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0 || limit.rlim_cur >= bytes)
		return false;
	if (priv_has(CAP_IPC_LOCK))
		log_info("%llu bytes are locked, or will be with all senders, and RLIMIT_MEMLOCK allows %llu: "
		         "CAP_IPC_LOCK is "
		         "kept",
		         bytes, (unsigned long long)limit.rlim_cur);
	else if (memory->locked_channel_bytes)
		log_warning("with all senders %llu bytes will be locked, and RLIMIT_MEMLOCK allows %llu: some senders "
		            "will be refused; raise the limit (systemd: LimitMEMLOCK=infinity), grant CAP_IPC_LOCK and "
		            "restart the daemon (systemctl restart ibvcapd), or lower max_senders or arena_slots",
		            bytes, (unsigned long long)limit.rlim_cur);
	return true;
}
