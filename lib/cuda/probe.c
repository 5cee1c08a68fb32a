// SPDX-License-Identifier: Apache-2.0
/* Says how a device would read a ring, by memory that is made and mapped as the daemon and a client make a ring. */
#include "lib/cuda/device.h"
#include "lib/cuda/ring.h"

#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/client/sized_struct.h"
#include "lib/ibvcap/shm.h"

#include <errno.h>
#include <string.h>

#define PROBE_WORD UINT64_C(0x6962766361703031)

/* The daemon's mapping and a client's of one page. */
struct probe_memory {
	struct shm writer;
	struct shm reader;
};

static void probe_memory_deinit(struct probe_memory *memory)
{
	shm_deinit(&memory->reader);
	shm_deinit(&memory->writer);
}

static int probe_memory_init(struct probe_memory *memory, uint32_t page_bytes)
{
	const uint64_t word = PROBE_WORD;
	int r;

	*memory = (struct probe_memory){SHM_INIT, SHM_INIT};
	r = shm_create(&memory->writer, "ibvcap-cuda-probe", page_bytes, page_bytes);
	if (r == 0) {
		memcpy(memory->writer.address, &word, sizeof(word));
		r = shm_seal_readonly(&memory->writer);
	}
	if (r == 0)
		r = shm_reopen_readonly(&memory->writer);
	if (r >= 0)
		r = shm_map(&memory->reader, r, false);
	if (r == 0)
		return 0;
	probe_memory_deinit(memory);
	return error_set(r, "a page of %u KiB for the probe: %s", page_bytes >> 10, strerror(-r));
}

/* The first way that works. Staged does for every device. */
static enum ibvcap_cuda_way probe_ways(const struct cuda_device *device, struct cuda_ring *ring, struct cuda_why *why)
{
	bool is_by_faults = device->info.pageable == 1 && device->info.pageable_by_host_tables != 1;

	if (cuda_ring_attach(ring, device, IBVCAP_CUDA_IN_PLACE, CUDA_PIECE_BYTES, why) == 0) {
		cuda_why_add(why, IBVCAP_CUDA_IN_PLACE,
		             "read-only memory can be registered, and the device has read it");
		return IBVCAP_CUDA_IN_PLACE;
	}
	if (is_by_faults) {
		cuda_why_add(why, IBVCAP_CUDA_PAGEABLE,
		             "only if it is asked for: the device reads by page faults (HMM)");
	} else if (cuda_ring_attach(ring, device, IBVCAP_CUDA_PAGEABLE, CUDA_PIECE_BYTES, why) == 0) {
		cuda_why_add(why, IBVCAP_CUDA_PAGEABLE,
		             "the device reads by the page tables of the host, and has done so");
		return IBVCAP_CUDA_PAGEABLE;
	}
	cuda_why_add(why, IBVCAP_CUDA_STAGED, "rows are copied once, to pinned memory");
	return IBVCAP_CUDA_STAGED;
}

static int probe_by_memory(struct cuda_device *device, const struct shm *memory, struct ibvcap_cuda_info *info)
{
	struct cuda_ring ring = {.way = IBVCAP_CUDA_AUTO};
	struct cuda_why why = {""};
	int mode, r = cuda_device_enter(device, &mode);

	if (r < 0)
		return r;
	ring.mappings[0].memory = (struct ibvcap_rx_memory){.address = memory->address, .bytes = memory->bytes};
	*info = device->info;
	info->way = probe_ways(device, &ring, &why);
	memcpy(info->why, why.text, sizeof(info->why));
	cuda_ring_detach(&ring, device);
	cuda_device_leave(device, mode);
	return 0;
}

int ibvcap_cuda_probe(uint32_t device, uint32_t page_bytes, struct ibvcap_cuda_info *info)
{
	struct cuda_device opened;
	struct probe_memory memory;
	struct ibvcap_cuda_info found;
	int r = sized_struct_check(info, sizeof(size_t), "ibvcap_cuda_info");

	if (r == 0)
		r = cuda_device_open(&opened, device);
	if (r < 0)
		return r;
	r = probe_memory_init(&memory, page_bytes);
	if (r == 0) {
		r = probe_by_memory(&opened, &memory.reader, &found);
		probe_memory_deinit(&memory);
	}
	cuda_device_close(&opened);
	if (r == 0)
		sized_struct_copy(info, &found, sizeof(found));
	return r;
}
