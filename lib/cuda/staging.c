// SPDX-License-Identifier: Apache-2.0
/* The pinned memory that rows are copied to, for devices that cannot read the ring itself. */
#include "lib/cuda/staging.h"

#include "lib/base/min.h"
#include "lib/ibvcap/client/error.h"

#include <errno.h>
#include <stdlib.h>

#define PIECES_MIN 64

int cuda_staging_init(struct cuda_staging *staging, const struct cuda_device *device, uint64_t bytes)
{
	const struct cuda_driver *driver = &device->driver;
	unsigned long long address;
	void *host;
	int result;

	if (staging->host)
		return 0;
	result = driver->host_alloc(&host, bytes, CUDA_DRIVER_HOST_PORTABLE | CUDA_DRIVER_HOST_DEVICEMAP);
	if (result != CUDA_DRIVER_SUCCESS)
		return cuda_driver_explain(driver, "cuMemHostAlloc", result);
	result = driver->host_device_pointer(&address, host, 0);
	if (result != CUDA_DRIVER_SUCCESS) {
		driver->host_free(host);
		return cuda_driver_explain(driver, "cuMemHostGetDevicePointer", result);
	}
	*staging = (struct cuda_staging){.host = host, .device = address, .bytes = bytes};
	return 0;
}

void cuda_staging_deinit(struct cuda_staging *staging, const struct cuda_device *device)
{
	if (staging->host)
		device->driver.host_free(staging->host);
	free(staging->pieces);
	*staging = (struct cuda_staging){0};
}

/* Free bytes from head to the end of the memory, or to the oldest piece. */
static uint64_t room_behind(const struct cuda_staging *staging)
{
	return u64_min(staging->bytes - staging->head % staging->bytes,
	               staging->bytes - (staging->head - staging->tail));
}

/* Free bytes at the front of the memory, before the oldest piece. */
static uint64_t room_in_front(const struct cuda_staging *staging)
{
	return staging->bytes - (staging->head - staging->tail) - room_behind(staging);
}

uint64_t cuda_staging_room(const struct cuda_staging *staging)
{
	return u64_max(room_behind(staging), room_in_front(staging));
}

static int make_room_for_piece(struct cuda_staging *staging)
{
	uint64_t max = staging->n_pieces_max ? 2 * staging->n_pieces_max : PIECES_MIN;
	struct cuda_piece *pieces;

	if (staging->next - staging->first < staging->n_pieces_max)
		return 0;
	pieces = calloc(max, sizeof(*pieces));
	if (!pieces)
		return error_set(-ENOMEM, "out of memory");
	for (uint64_t i = staging->first; i < staging->next; i++)
		pieces[i & (max - 1)] = staging->pieces[i & (staging->n_pieces_max - 1)];
	free(staging->pieces);
	staging->pieces = pieces;
	staging->n_pieces_max = max;
	return 0;
}

int cuda_staging_take(struct cuda_staging *staging, uint64_t bytes, uint64_t *offset, uint64_t *piece)
{
	int r = make_room_for_piece(staging);

	if (r < 0)
		return r;
	if (room_behind(staging) < bytes)
		staging->head += room_behind(staging);
	*offset = staging->head % staging->bytes;
	*piece = staging->next++;
	staging->head += bytes;
	staging->pieces[*piece & (staging->n_pieces_max - 1)] = (struct cuda_piece){.end = staging->head};
	return 0;
}

void cuda_staging_give_back(struct cuda_staging *staging, uint64_t piece)
{
	const uint64_t mask = staging->n_pieces_max - 1;

	staging->pieces[piece & mask].is_back = true;
	while (staging->first < staging->next && staging->pieces[staging->first & mask].is_back)
		staging->tail = staging->pieces[staging->first++ & mask].end;
	if (staging->first == staging->next)
		staging->head = staging->tail =
			0; /* all is free: from the front again, so that the largest piece fits */
}
