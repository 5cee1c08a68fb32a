// SPDX-License-Identifier: Apache-2.0
/* Batches of random packets for the kernels of ibvcap/cuda_place.cuh, and these kernels, run for each thread. */
#include "tests/unit/ibvcap/device_batch.h"

#include "tests/support/frames.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * UINT64_C(0x2545f4914f6cdd1d) >> 16;
}

uint32_t below(uint32_t n)
{
	return (uint32_t)(next_random() % n);
}

void fill_random(void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = (uint8_t)next_random();
}

/* Of that size exactly; no byte of it is 0 by chance. */
void *allocate(size_t n)
{
	void *memory = malloc(n ? n : 1);

	cr_assert(memory);
	memset(memory, 0xa5, n);
	return memory;
}

struct made_batch make_batch(uint32_t n, uint32_t header_bytes, uint32_t application_header_bytes, uint32_t stride)
{
	const uint32_t header_stride = (header_bytes + 63) / 64 * 64;
	struct made_batch made = {
		.payload = allocate((size_t)n * stride),
		.headers = allocate((size_t)n * header_stride),
		.meta = allocate(n * sizeof(*made.meta)),
	};

	memset(made.meta, 0, n * sizeof(*made.meta));
	made.batch = (struct ibvcap_rx_batch){.size = sizeof(made.batch),
	                                      .payload = made.payload,
	                                      .meta = made.meta,
	                                      .headers = made.headers,
	                                      .n = n,
	                                      .stride = stride,
	                                      .header_stride = header_stride,
	                                      .header_bytes = header_bytes,
	                                      .application_header_bytes = application_header_bytes};
	return made;
}

void free_batch(struct made_batch *made)
{
	free(made->payload);
	free(made->headers);
	free(made->meta);
}

/* As a card splits a frame. */
void put_frame(struct made_batch *made, uint32_t i, const uint8_t *frame, uint32_t bytes, uint32_t header_length,
               uint16_t flags)
{
	const struct ibvcap_rx_batch *batch = &made->batch;
	const uint32_t in_headers = bytes < batch->header_bytes ? bytes : batch->header_bytes;
	const uint32_t rest = bytes - in_headers, in_row = rest < batch->stride ? rest : batch->stride;
	const uint32_t payload_at = header_length + batch->application_header_bytes;

	memcpy(made->headers + (size_t)i * batch->header_stride, frame, in_headers);
	memcpy(made->payload + (size_t)i * batch->stride, frame + in_headers, in_row);
	made->meta[i] = (struct ibvcap_meta){
		.length = (uint16_t)(in_headers + in_row > payload_at ? in_headers + in_row - payload_at : 0),
		.flags = flags,
		.header_length = (uint8_t)header_length};
}

static void put_random_packet(struct made_batch *made, uint32_t i)
{
	static uint8_t frame[FRAME_BYTES_MAX];
	struct frame_options options = {.ipv6 = below(2),
	                                .n_vlan_tags = below(4) ? 0 : below(6),
	                                .ip_option_bytes = below(4) ? 0 : 4 * below(11),
	                                .extension_bytes = below(3) ? 0 : 8 * below(5),
	                                .fragment = (uint16_t)(below(3) ? 0 : next_random() & 0x3fff),
	                                .payload_bytes = below(120),
	                                .protocol = (uint8_t)(below(4) ? 0 : below(64)),
	                                .no_padding = below(2)};
	uint32_t bytes = frame_build(&options, (uint8_t)next_random(), frame), header_length = 14 + below(60);

	if (below(4) == 0)
		fill_random(frame + below(14), 40); /* damaged headers */
	put_frame(made, i, frame, bytes, header_length,
	          (uint16_t)(options.fragment || below(8) == 0 ? IBVCAP_PACKET_FLAG_FRAGMENT : 0));
	if (below(3) == 0) { /* a meta that no daemon writes */
		fill_random(&made->meta[i], sizeof(made->meta[i]));
		made->meta[i].flags &= below(2) ? 0xffff : (uint16_t)IBVCAP_PACKET_FLAG_FRAGMENT;
	}
	if (below(6) == 0)
		made->meta[i].header_length = 0; /* layout = "frame" */
}

struct made_batch random_batch(void)
{
	const uint32_t header_bytes = below(3) ? 14 + below(100) : below(80);
	const uint32_t application = below(2) ? 0 : below(header_bytes + 1);
	struct made_batch made = make_batch(ROWS, header_bytes, application, 1 + below(160));

	for (uint32_t i = 0; i < ROWS; i++)
		put_random_packet(&made, i);
	return made;
}

void copy_rows(const struct ibvcap_rx_batch *batch, const struct ibvcap_placed *placed, const struct dense *dense,
               uint32_t threads)
{
	for (uint32_t thread = 0; thread < threads; thread++) {
		ibvcap_device_host = (struct ibvcap_device_grid){thread, threads};
		ibvcap_copy_rows(batch->payload, batch->headers, (const struct ibvcap_device_meta *)batch->meta,
		                 batch->n, batch->stride, batch->header_stride, batch->header_bytes,
		                 batch->application_header_bytes, (const struct ibvcap_device_placed *)placed,
		                 dense->to, dense->lengths, dense->arrays, dense->sources, dense->numbers,
		                 dense->row_bytes, dense->skip_bytes, dense->format, dense->fill);
	}
}

void fill_missing(const uint8_t *present, const struct dense *dense, uint32_t threads)
{
	for (uint32_t thread = 0; thread < threads; thread++) {
		ibvcap_device_host = (struct ibvcap_device_grid){thread, threads};
		ibvcap_fill_missing(present, dense->to, dense->lengths,
		                    (ibvcap_u64)dense->arrays * dense->sources * dense->numbers, dense->row_bytes,
		                    dense->format, dense->fill);
	}
}

uint32_t random_threads(void)
{
	static const uint32_t threads[] = {1, 7, 32, 33, 96, 256};

	return threads[below(sizeof(threads) / sizeof(threads[0]))];
}
