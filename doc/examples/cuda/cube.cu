// SPDX-License-Identifier: Apache-2.0
/*
 * cube STREAM SOURCES NUMBERS CUBES [OUT]: the packets of several senders in one array on the GPU, in the order of
 * their numbers: float [source][number][sample], with NaN where a packet is missing.
 *
 * The stream has 'sequence' (ibvcapd.conf(5)) with a field of the payload that tells senders apart, big-endian, from 0
 * to SOURCES - 1; all count together. The samples are int8, behind the first 8 bytes. So it is with the packets of
 * ../corner_turn.py:
 *
 *   sequence = { offset = 2; bytes = 6; source = "none"; source_offset = 0; source_bytes = 2; };
 *
 * The CPU reads the number of the first packet only. If the senders are restarted with other numbers, so is this
 * program; a placer (libibvcap_place(3)) notices restarts. OUT gets the cubes, one after the other.
 *
 *   nvcc -O2 -o cube cube.cu $(pkg-config --cflags --libs libibvcap-cuda)
 */
#include <ibvcap/cuda.h>
#include <ibvcap/cuda_place.cuh>

#include <cuda_runtime.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static const uint32_t kSkipBytes = 8; // ahead of the samples
static const uint32_t kCubes = 4;     // in the ring: packets may be late by two cubes, and ahead by one

static void check(bool good, const char *what, const char *why)
{
	if (!good) {
		fprintf(stderr, "cube: %s: %s\n", what, why);
		exit(1);
	}
}

static void check_cuda(cudaError_t error, const char *what)
{
	check(error == cudaSuccess, what, cudaGetErrorString(error));
}

template <typename T> static T *device_memory(size_t n)
{
	T *memory;

	check_cuda(cudaMalloc(&memory, n * sizeof(T)), "memory");
	check_cuda(cudaMemset(memory, 0, n * sizeof(T)), "memory");
	return memory;
}

/* Packets present, and mean power, of each source in a cube. A block of threads a source. */
__global__ void look(const float *cube, const ibvcap_u8 *present, uint32_t ring, uint32_t numbers, uint32_t samples,
                     uint32_t *n_present, float *power)
{
	const uint32_t source = blockIdx.x;
	float sum = 0;

	for (uint32_t i = threadIdx.x; i < numbers * samples; i += blockDim.x) {
		const float value = cube[(uint64_t)source * ring * samples + i];

		sum += isnan(value) ? 0 : value * value;
	}
	atomicAdd(&power[source], sum);
	for (uint32_t i = threadIdx.x; i < numbers; i += blockDim.x)
		atomicAdd(&n_present[source], present[source * ring + i] != 0);
}

/* The ring of cubes on the device, and the records of a batch. */
struct Cubes {
	ibvcap_device_sequence description;
	ibvcap_u64 cycle;
	ibvcap_u64 first; // number of the oldest cube's first packet
	uint32_t oldest;  // cube of the ring
	uint32_t sources, numbers, samples;
	ibvcap_device_sequence *sequence;
	ibvcap_device_source *listed;
	ibvcap_device_placed *placed;
	ibvcap_u64 *counts;
	ibvcap_u8 *present;
	float *cube;
	uint32_t *n_present;
	float *power;
	cudaStream_t stream;
};

static void begin(Cubes *all, const ibvcap_rx *rx, uint32_t slot_bytes, uint32_t application_header_bytes)
{
	std::vector<ibvcap_device_source> listed(all->sources);
	struct ibvcap_sequence sequence;

	check(ibvcap_rx_sequence(rx, &sequence) == 1, "the stream", "its configuration has no 'sequence'");
	static_assert(sizeof(sequence) == sizeof(all->description), "the same layout");
	memcpy(&all->description, &sequence, sizeof(sequence));
	check(sequence.source_bytes > 0, "the stream's sequence", "it has no source_bytes");
	all->cycle = ibvcap_device_cycle(&all->description);
	for (uint32_t i = 0; i < all->sources; i++) {
		listed[i].field[sequence.source_bytes - 1] = (uint8_t)i;
		if (sequence.source_bytes > 1)
			listed[i].field[sequence.source_bytes - 2] = (uint8_t)(i >> 8);
	}
	all->samples = slot_bytes + application_header_bytes - kSkipBytes;
	all->sequence = device_memory<ibvcap_device_sequence>(1);
	all->listed = device_memory<ibvcap_device_source>(all->sources);
	all->counts = device_memory<ibvcap_u64>(IBVCAP_DEVICE_COUNTS);
	all->placed = device_memory<ibvcap_device_placed>(all->numbers);
	all->present = device_memory<ibvcap_u8>(((size_t)all->sources * kCubes * all->numbers + 3) / 4 * 4);
	all->cube = device_memory<float>((size_t)all->sources * kCubes * all->numbers * all->samples);
	all->n_present = device_memory<uint32_t>(all->sources);
	all->power = device_memory<float>(all->sources);
	check_cuda(cudaMemcpy(all->sequence, &all->description, sizeof(all->description), cudaMemcpyDefault),
	           "the sequence");
	check_cuda(cudaMemcpy(all->listed, listed.data(), listed.size() * sizeof(listed[0]), cudaMemcpyDefault),
	           "sources");
	check_cuda(cudaStreamCreateWithFlags(&all->stream, cudaStreamNonBlocking), "a stream");
}

/* Begin with the cube of the first packet of the batch that has a number. */
static bool begin_with(Cubes *all, const ibvcap_rx_batch &rows)
{
	const ibvcap_device_rows host = {
		rows.payload,       rows.headers,      (const ibvcap_device_meta *)rows.meta, rows.n, rows.stride,
		rows.header_stride, rows.header_bytes, rows.application_header_bytes};
	ibvcap_device_packet packet;
	ibvcap_device_reading reading;

	for (uint32_t i = 0; i < rows.n; i++)
		if (ibvcap_device_packet_of_row(&host, i, &packet) &&
		    ibvcap_device_read(&all->description, &packet, &reading)) {
			all->first = reading.number / all->numbers * all->numbers;
			return true;
		}
	return false;
}

static void place(const Cubes &all, const ibvcap_cuda_batch &batch)
{
	const uint32_t ring = kCubes * all.numbers;
	const ibvcap_rx_batch &rows = batch.rows;

	ibvcap_index_rows<<<8, 64, 0, all.stream>>>(
		(const ibvcap_u8 *)batch.payload, (const ibvcap_u8 *)batch.headers,
		(const ibvcap_device_meta *)batch.meta, rows.n, rows.stride, rows.header_stride, rows.header_bytes,
		rows.application_header_bytes, all.sequence, all.listed, all.sources, all.first,
		all.oldest * all.numbers, ring, 0, all.present, all.placed, all.counts);
	ibvcap_copy_rows<<<(rows.n + 7) / 8, 256, 0, all.stream>>>(
		(const ibvcap_u8 *)batch.payload, (const ibvcap_u8 *)batch.headers,
		(const ibvcap_device_meta *)batch.meta, rows.n, rows.stride, rows.header_stride, rows.header_bytes,
		rows.application_header_bytes, all.placed, (ibvcap_u8 *)all.cube, nullptr, 1, all.sources, ring,
		all.samples, kSkipBytes, IBVCAP_SAMPLES_I8, NAN);
	check_cuda(cudaGetLastError(), "a kernel");
}

/* How far the packets have come, in numbers from the first one of the ring. */
static ibvcap_u64 ahead(const Cubes &all)
{
	ibvcap_u64 counts[IBVCAP_DEVICE_COUNTS];

	check_cuda(cudaMemcpyAsync(counts, all.counts, sizeof(counts), cudaMemcpyDeviceToHost, all.stream),
	           "the counts");
	check_cuda(cudaStreamSynchronize(all.stream), "the work on the device");
	return counts[IBVCAP_DEVICE_COUNT_AHEAD];
}

/* Use the oldest cube: here it is looked at, and written. Its place is the newest cube's then. */
static void finish(Cubes *all, FILE *out)
{
	const uint32_t ring = kCubes * all->numbers, at = all->oldest * all->numbers;
	const size_t row = all->samples, a_cube = (size_t)all->numbers * row;
	std::vector<uint32_t> n_present(all->sources);
	std::vector<float> power(all->sources), cube(out ? all->sources * a_cube : 0);

	check_cuda(cudaMemsetAsync(all->n_present, 0, all->sources * sizeof(uint32_t), all->stream), "memory");
	check_cuda(cudaMemsetAsync(all->power, 0, all->sources * sizeof(float), all->stream), "memory");
	for (uint32_t i = 0; i < all->sources; i++)
		ibvcap_fill_missing<<<32, 256, 0, all->stream>>>(
			all->present + (size_t)i * ring + at, (ibvcap_u8 *)(all->cube + ((size_t)i * ring + at) * row),
			nullptr, all->numbers, row, IBVCAP_SAMPLES_I8, NAN);
	look<<<all->sources, 256, 0, all->stream>>>(all->cube + at * row, all->present + at, ring, all->numbers, row,
	                                            all->n_present, all->power);
	check_cuda(cudaMemcpyAsync(n_present.data(), all->n_present, n_present.size() * sizeof(uint32_t),
	                           cudaMemcpyDefault, all->stream),
	           "the result");
	check_cuda(
		cudaMemcpyAsync(power.data(), all->power, power.size() * sizeof(float), cudaMemcpyDefault, all->stream),
		"the result");
	for (uint32_t i = 0; i < all->sources; i++) {
		if (out)
			check_cuda(cudaMemcpyAsync(cube.data() + i * a_cube, all->cube + ((size_t)i * ring + at) * row,
			                           a_cube * sizeof(float), cudaMemcpyDefault, all->stream),
			           "the cube");
		check_cuda(cudaMemsetAsync(all->present + (size_t)i * ring + at, 0, all->numbers, all->stream),
		           "memory");
	}
	check_cuda(cudaMemsetAsync(all->counts + IBVCAP_DEVICE_COUNT_AHEAD, 0, sizeof(ibvcap_u64), all->stream),
	           "memory");
	check_cuda(cudaStreamSynchronize(all->stream), "the work on the device");
	printf("cube from %llu:", all->first);
	for (uint32_t i = 0; i < all->sources; i++)
		printf("  %u of %u, power %.3f", n_present[i], all->numbers,
		       n_present[i] ? power[i] / n_present[i] / row : 0.0);
	printf("\n");
	if (out)
		check(fwrite(cube.data(), sizeof(float), cube.size(), out) == cube.size(), "OUT", strerror(errno));
	all->oldest = (all->oldest + 1) % kCubes;
	all->first = all->cycle ? (all->first + all->numbers) % all->cycle : all->first + all->numbers;
}

/* A batch at a time, of at most a cube's numbers, so that all of its packets find place behind the oldest two cubes. */
static void run(Cubes *all, ibvcap_cuda *cuda, uint32_t n, FILE *out)
{
	bool has_begun = false;

	while (n > 0) {
		struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);

		check(ibvcap_cuda_acquire(cuda, &batch, all->numbers, 1, -1) > 0, "the stream", ibvcap_error_text());
		has_begun = has_begun || begin_with(all, batch.rows);
		if (has_begun)
			place(*all, batch);
		check(ibvcap_cuda_release(cuda, &batch, all->stream) == 0, "a batch", ibvcap_error_text());
		for (ibvcap_u64 end = has_begun ? ahead(*all) : 0; n > 0 && end > 3ull * all->numbers;
		     end -= all->numbers, n--)
			finish(all, out);
	}
}

int main(int argc, char **argv)
{
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	FILE *out = argc > 5 ? fopen(argv[5], "wb") : nullptr;
	struct ibvcap_cuda *cuda;
	struct ibvcap_rx *rx;
	ibvcap_u64 counts[IBVCAP_DEVICE_COUNTS];
	Cubes all = {};

	if (argc < 5) {
		fprintf(stderr, "usage: cube STREAM SOURCES NUMBERS CUBES [OUT]\n");
		return 64;
	}
	check(argc < 6 || out, argv[argc - 1], strerror(errno));
	all.sources = (uint32_t)strtoul(argv[2], nullptr, 10);
	all.numbers = (uint32_t)strtoul(argv[3], nullptr, 10);
	options.start = IBVCAP_START_OLDEST;
	check(ibvcap_rx_open(nullptr, argv[1], &options, &rx) == 0, "open", ibvcap_error_text());
	check(ibvcap_rx_info(rx, &info) == 0, "open", ibvcap_error_text());
	check(ibvcap_cuda_open(rx, nullptr, &cuda) == 0, "the device", ibvcap_error_text());
	begin(&all, rx, info.slot_bytes, info.application_header_bytes);
	run(&all, cuda, (uint32_t)strtoul(argv[4], nullptr, 10), out);
	check_cuda(cudaMemcpy(counts, all.counts, sizeof(counts), cudaMemcpyDefault), "the counts");
	fprintf(stderr, "%llu placed, %llu twice, %llu late, %llu far, %llu of other senders, %llu without a number\n",
	        counts[IBVCAP_DEVICE_FIRST], counts[IBVCAP_DEVICE_DUPLICATE], counts[IBVCAP_DEVICE_LATE],
	        counts[IBVCAP_DEVICE_FAR], counts[IBVCAP_DEVICE_UNLISTED], counts[IBVCAP_DEVICE_UNREAD]);
	check(ibvcap_cuda_close(cuda, 1000) == 0, "close", ibvcap_error_text());
	ibvcap_rx_close(rx);
	check(!out || fclose(out) == 0, "OUT", strerror(errno));
	return 0;
}
