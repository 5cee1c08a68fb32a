// SPDX-License-Identifier: Apache-2.0
/*
 * Measures how a device reads the ring of a stream, for scripts/gpu-test. Each command prints JSON, one object a line.
 *
 *   gpu_measure device
 *   gpu_measure read STREAM WAY                 rate at which a kernel reads rows that are leased, again and again
 *   gpu_measure drain STREAM WAY                rate at which a full ring is taken
 *   gpu_measure live STREAM WAY BYTES SECONDS   CPU time, losses and contents while packets come
 *   gpu_measure latency STREAM WAY N
 *   gpu_measure follow STREAM WAY BYTES         until SIGTERM, over restarts of the daemon
 *   gpu_measure hold STREAM WAY                 keep all leases, with work queued, until it is killed
 *
 * WAY: auto, in-place, pageable, staged, or copy: a copy from memory that is not registered, by the runtime.
 */
#include "tests/hardware/gpu/gpu_work.h"

#include <dirent.h>
#include <errno.h>
#include <ibvcap/cuda.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S      UINT64_C(1000000000)
#define LEASES        16
#define STAGING_BYTES (UINT64_C(64) << 20)
#define COPY_BYTES    (UINT64_C(256) << 20)

static volatile sig_atomic_t ending;

static void end_follow(int number)
{
	(void)number;
	ending = 1;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_nsec;
}

static double cpu_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void must(bool good, const char *what)
{
	if (!good) {
		fprintf(stderr, "gpu_measure: %s: %s\n", what, ibvcap_error_text());
		exit(1);
	}
}

/* A stream, read by the device, or copied to it. */
struct reader {
	struct ibvcap_rx *rx;
	struct ibvcap_cuda *cuda; /* NULL: copy */
	uint32_t stream;          /* of the device: in turns */
};

static enum ibvcap_cuda_way way_of(const char *word)
{
	static const struct {
		const char *word;
		enum ibvcap_cuda_way way;
	} ways[] = {{"auto", IBVCAP_CUDA_AUTO},
	            {"in-place", IBVCAP_CUDA_IN_PLACE},
	            {"pageable", IBVCAP_CUDA_PAGEABLE},
	            {"staged", IBVCAP_CUDA_STAGED}};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (strcmp(ways[i].word, word) == 0)
			return ways[i].way;
	fprintf(stderr, "gpu_measure: there is no way %s\n", word);
	exit(64);
}

static void reader_open(struct reader *reader, const char *stream, const char *way, enum ibvcap_start start)
{
	struct ibvcap_rx_options options = IBVCAP_INIT(struct ibvcap_rx_options);
	struct ibvcap_cuda_options device = IBVCAP_INIT(struct ibvcap_cuda_options);

	options.start = start;
	options.lease_blocks = LEASES;
	device.staging_bytes = STAGING_BYTES;
	gpu_work_init(0);
	*reader = (struct reader){.rx = NULL};
	must(ibvcap_rx_open(NULL, stream, &options, &reader->rx) == 0, "open");
	if (strcmp(way, "copy") == 0)
		return;
	device.way = way_of(way);
	must(ibvcap_cuda_open(reader->rx, &device, &reader->cuda) == 0, "the device");
}

static void reader_close(struct reader *reader)
{
	must(ibvcap_cuda_close(reader->cuda, 5000) == 0, "close");
	ibvcap_rx_close(reader->rx);
}

static struct gpu_work_rows rows_of(const struct ibvcap_cuda_batch *batch, uint32_t bytes)
{
	return (struct gpu_work_rows){.payload = batch->payload,
	                              .meta = batch->meta,
	                              .n = batch->rows.n,
	                              .stride = batch->rows.stride,
	                              .bytes = bytes};
}

/* Take a batch and queue its check. Returns its packets, or a negative errno. */
static int reader_step(struct reader *reader, uint32_t bytes, int timeout_ms, struct ibvcap_cuda_batch *batch)
{
	const uint32_t stream = reader->stream++ % GPU_WORK_STREAMS;
	struct gpu_work_rows rows;
	int r;

	*batch = (struct ibvcap_cuda_batch){.size = sizeof(*batch), .rows.size = sizeof(batch->rows)};
	r = reader->cuda ? ibvcap_cuda_acquire(reader->cuda, batch, UINT32_MAX, 1, timeout_ms)
	                 : ibvcap_rx_acquire(reader->rx, &batch->rows, UINT32_MAX, 1, timeout_ms);
	if (r <= 0)
		return r;
	rows = rows_of(batch, bytes ? bytes : batch->rows.meta[0].length);
	if (reader->cuda) {
		gpu_work_check(stream, &rows);
		must(ibvcap_cuda_release(reader->cuda, batch, gpu_work_stream(stream)) == 0, "release");
	} else {
		gpu_work_copy_and_check(0, batch->rows.payload, batch->rows.meta, r * sizeof(*batch->rows.meta), &rows);
		must(ibvcap_rx_release(reader->rx, &batch->rows) == 0, "release");
	}
	return r;
}

/* ---- what the device is --------------------------------------------------------------------------- */

static void print_probe(uint32_t page_bytes)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);
	int r = ibvcap_cuda_probe(0, page_bytes, &info);

	printf("{\"page_bytes\": %u, \"way\": \"%s\", \"why\": \"%s\", \"name\": \"%s\", \"bus\": \"%s\", \"driver\": "
	       "%u, "
	       "\"host_register\": %d, \"host_register_read_only\": %d, \"pageable\": %d, \"pageable_by_host_tables\": "
	       "%d}\n",
	       page_bytes, r == 0 ? ibvcap_cuda_way_word(info.way) : "none", r == 0 ? info.why : ibvcap_error_text(),
	       info.name, info.bus, info.driver_version, (int)info.host_register, (int)info.host_register_read_only,
	       (int)info.pageable, (int)info.pageable_by_host_tables);
}

static int measure_device(void)
{
	const uint32_t n_times = 8;
	void *pinned, *pageable;

	print_probe(4096);
	print_probe(2 << 20);
	gpu_work_init(0);
	pinned = gpu_work_pinned(COPY_BYTES);
	pageable = malloc(COPY_BYTES);
	must(pageable != NULL, "memory");
	memset(pinned, 1, COPY_BYTES);
	memset(pageable, 1, COPY_BYTES);
	printf("{\"is_real\": %s, \"pinned_gb_s\": %.2f, \"pageable_gb_s\": %.2f}\n",
	       gpu_work_is_real() ? "true" : "false",
	       (double)COPY_BYTES * n_times / gpu_work_copy(pinned, COPY_BYTES, n_times) / 1e9,
	       (double)COPY_BYTES * n_times / gpu_work_copy(pageable, COPY_BYTES, n_times) / 1e9);
	free(pageable);
	return 0;
}

/* ---- rates ----------------------------------------------------------------------------------------- */

/* Lease whole blocks of the ring. How many. */
static uint32_t lease_blocks(struct reader *reader, struct ibvcap_cuda_batch *batches, struct gpu_work_rows *rows)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);
	uint32_t n = 0;

	must(ibvcap_rx_info(reader->rx, &info) == 0, "info");
	while (n < LEASES) {
		batches[n] =
			(struct ibvcap_cuda_batch){.size = sizeof(batches[n]), .rows.size = sizeof(batches[n].rows)};
		if (ibvcap_cuda_acquire(reader->cuda, &batches[n], UINT32_MAX, 1, 0) <= 0)
			break;
		rows[n] = rows_of(&batches[n], batches[n].rows.meta[0].length);
		if (rows[n].n == info.slots_per_block)
			n++;
		else
			must(ibvcap_cuda_release(reader->cuda, &batches[n], NULL) == 0, "release");
	}
	return n;
}

static int measure_read(const char *stream, const char *way)
{
	struct ibvcap_cuda_batch batches[LEASES];
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);
	struct gpu_work_rows rows[LEASES];
	const uint32_t n_times = 20;
	double bytes, kernel_s, copy_s = 0;
	struct reader reader;
	uint32_t n;

	reader_open(&reader, stream, way, IBVCAP_START_OLDEST);
	n = lease_blocks(&reader, batches, rows);
	must(n > 0, "the ring has no whole block");
	must(ibvcap_cuda_info(reader.cuda, &info) == 0, "info");
	bytes = (double)n * rows[0].n * rows[0].bytes * n_times;
	kernel_s = gpu_work_read(rows, n, n_times);
	/* The device's copy engine, from the same memory, rows and what is between them. */
	for (uint32_t i = 0; i < n; i++)
		copy_s += gpu_work_copy(batches[i].rows.payload, (size_t)rows[i].n * rows[i].stride, n_times);
	printf("{\"way\": \"%s\", \"bytes\": %.0f, \"kernel_gb_s\": %.2f, \"copy_gb_s\": %.2f, \"registered_mb\": "
	       "%.1f}\n",
	       ibvcap_cuda_way_word(info.way), bytes / n_times, bytes / kernel_s / 1e9, bytes / copy_s / 1e9,
	       (double)info.registered_bytes / 1e6);
	for (uint32_t i = 0; i < n; i++)
		must(ibvcap_cuda_release(reader.cuda, &batches[i], gpu_work_stream(0)) == 0, "release");
	reader_close(&reader);
	return 0;
}

static int measure_drain(const char *stream, const char *way)
{
	struct ibvcap_cuda_batch batch;
	struct gpu_work_result result;
	uint64_t n = 0, bytes = 0, start;
	struct reader reader;
	double seconds;
	int r;

	reader_open(&reader, stream, way, IBVCAP_START_OLDEST);
	gpu_work_collect();
	start = clock_ns(CLOCK_MONOTONIC);
	while ((r = reader_step(&reader, 0, n ? 0 : 1000, &batch)) > 0 || r == -ENOBUFS) {
		if (r < 0) /* all leases are in use by the device */
			continue;
		n += (uint32_t)r;
		bytes += (uint64_t)(uint32_t)r * batch.rows.stride;
	}
	must(r == 0, "acquire");
	result = gpu_work_collect();
	seconds = (double)(clock_ns(CLOCK_MONOTONIC) - start) / (double)NS_PER_S;
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"gb_s\": %.2f}\n", n, bytes,
	       result.wrong, (double)bytes / seconds / 1e9);
	reader_close(&reader);
	return result.rows == n ? 0 : 1;
}

/* ---- live ------------------------------------------------------------------------------------------ */

/* n_before: rows that were checked before the measured time. */
static void print_counts(const struct reader *reader, double seconds, double cpu, uint64_t batches, uint64_t n_before)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);
	struct gpu_work_result result = gpu_work_collect();

	must(ibvcap_rx_counts(reader->rx, &counts) == 0, "counts");
	printf("{\"seconds\": %.3f, \"cpu_s\": %.4f, \"batches\": %" PRIu64 ", \"packets\": %" PRIu64
	       ", \"checked\": %" PRIu64 ", \"wrong\": %" PRIu64 ", \"published\": %" PRIu64 ", \"delivered\": %" PRIu64
	       ", \"skipped\": %" PRIu64 ", \"lag\": %" PRIu64 ", \"epochs\": %" PRIu64 "}\n",
	       seconds, cpu, batches, result.rows - n_before, result.rows, result.wrong, counts.published,
	       counts.delivered, counts.skipped, counts.lag, counts.epochs);
	fflush(stdout);
}

static int measure_live(const char *stream, const char *way, uint32_t bytes, uint32_t seconds)
{
	struct ibvcap_cuda_batch batch;
	struct reader reader;
	uint64_t batches = 0, n_before, start, end;
	double cpu;
	int r = 0;

	reader_open(&reader, stream, way, IBVCAP_START_NEWEST);
	/* Kernels are loaded, and buffers taken, before the measurement. */
	while (batches < 20 && (r = reader_step(&reader, bytes, 1000, &batch)) > 0)
		batches++;
	n_before = gpu_work_collect().rows;
	batches = 0;
	start = clock_ns(CLOCK_MONOTONIC);
	end = start + seconds * NS_PER_S;
	cpu = cpu_s();
	while (r >= 0 && clock_ns(CLOCK_MONOTONIC) < end) {
		r = reader_step(&reader, bytes, 100, &batch);
		batches += r > 0;
	}
	must(r >= 0, "acquire");
	print_counts(&reader, (double)(clock_ns(CLOCK_MONOTONIC) - start) / (double)NS_PER_S, cpu_s() - cpu, batches,
	             n_before);
	reader_close(&reader);
	return 0;
}

static int compare_times(const void *a, const void *b)
{
	const double first = *(const double *)a, second = *(const double *)b;

	return (first > second) - (first < second);
}

/* From send() of the sender until a kernel has the packet's word, and the host its answer. */
static int measure_latency(const char *stream, const char *way, uint32_t n)
{
	double *us = calloc(n, sizeof(*us));
	struct reader reader;

	must(us && n, "memory");
	reader_open(&reader, stream, way, IBVCAP_START_NEWEST);
	for (int64_t i = -100; i < (int64_t)n; i++) {
		struct ibvcap_cuda_batch batch = IBVCAP_INIT(struct ibvcap_cuda_batch);
		uint64_t sent_ns;

		batch.rows.size = sizeof(batch.rows);
		must(ibvcap_cuda_acquire(reader.cuda, &batch, UINT32_MAX, 1, 5000) > 0, "acquire");
		sent_ns = gpu_work_answer(0, batch.payload + (uint64_t)(batch.rows.n - 1) * batch.rows.stride +
		                                     GPU_PACKET_TIME_AT);
		if (i >= 0)
			us[i] = (double)(clock_ns(CLOCK_REALTIME) - sent_ns) * 1e-3;
		must(ibvcap_cuda_release(reader.cuda, &batch, gpu_work_stream(0)) == 0, "release");
	}
	qsort(us, n, sizeof(*us), compare_times);
	printf("{\"n\": %u, \"min_us\": %.1f, \"median_us\": %.1f, \"p99_us\": %.1f}\n", n, us[0], us[n / 2],
	       us[n - n / 100 - 1]);
	free(us);
	reader_close(&reader);
	return 0;
}

/* ---- restarts, and the end -------------------------------------------------------------------------- */

static uint32_t count_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (directory && readdir(directory))
		n++;
	if (directory)
		closedir(directory);
	return n;
}

/* Resident memory that is no one else's, in KiB. */
static unsigned long anonymous_kib(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "RssAnon: %lu", &kib);
	if (file)
		fclose(file);
	return kib;
}

static void print_epoch(const struct reader *reader, uint64_t epoch)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);

	must(ibvcap_cuda_info(reader->cuda, &info) == 0, "info");
	printf("{\"epoch\": %" PRIu64 ", \"way\": \"%s\", \"registered\": %" PRIu64 ", \"descriptors\": %u, "
	       "\"anonymous_kib\": %lu, \"device_free\": %" PRIu64 "}\n",
	       epoch, ibvcap_cuda_way_word(info.way), info.registered_bytes, count_descriptors(), anonymous_kib(),
	       gpu_work_free_bytes());
	fflush(stdout);
}

static int measure_follow(const char *stream, const char *way, uint32_t bytes)
{
	uint64_t epoch = 0, batches = 0, start = clock_ns(CLOCK_MONOTONIC);
	struct ibvcap_cuda_batch batch;
	struct reader reader;

	signal(SIGTERM, end_follow);
	reader_open(&reader, stream, way, IBVCAP_START_NEWEST);
	while (!ending) {
		int r = reader_step(&reader, bytes, 100, &batch);

		must(r >= 0 || r == -EINTR || r == -ENOBUFS, "acquire");
		if (r <= 0)
			continue;
		if (batch.rows.epoch != epoch)
			print_epoch(&reader, epoch = batch.rows.epoch);
		batches++;
	}
	must(ibvcap_cuda_wait(reader.cuda, 5000) == 0, "wait");
	print_counts(&reader, (double)(clock_ns(CLOCK_MONOTONIC) - start) / (double)NS_PER_S, cpu_s(), batches, 0);
	reader_close(&reader);
	return 0;
}

static _Noreturn void measure_hold(const char *stream, const char *way)
{
	struct ibvcap_cuda_batch batch;
	struct reader reader;
	uint32_t n = 0;

	reader_open(&reader, stream, way, IBVCAP_START_OLDEST);
	while (n < LEASES) {
		batch = (struct ibvcap_cuda_batch){.size = sizeof(batch), .rows.size = sizeof(batch.rows)};
		if (ibvcap_cuda_acquire(reader.cuda, &batch, UINT32_MAX, 1, 1000) <= 0)
			break;
		gpu_work_check(n++ % GPU_WORK_STREAMS,
		               &(struct gpu_work_rows){batch.payload, batch.meta, batch.rows.n, batch.rows.stride, 32});
	}
	printf("{\"held\": %u}\n", n);
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (strcmp(command, "device") == 0)
		return measure_device();
	if (strcmp(command, "read") == 0 && argc == 4)
		return measure_read(argv[2], argv[3]);
	if (strcmp(command, "drain") == 0 && argc == 4)
		return measure_drain(argv[2], argv[3]);
	if (strcmp(command, "live") == 0 && argc == 6)
		return measure_live(argv[2], argv[3], (uint32_t)atoi(argv[4]), (uint32_t)atoi(argv[5]));
	if (strcmp(command, "latency") == 0 && argc == 5)
		return measure_latency(argv[2], argv[3], (uint32_t)atoi(argv[4]));
	if (strcmp(command, "follow") == 0 && argc == 5)
		return measure_follow(argv[2], argv[3], (uint32_t)atoi(argv[4]));
	if (strcmp(command, "hold") == 0 && argc == 4)
		measure_hold(argv[2], argv[3]);
	fprintf(stderr, "usage: the first comment of tests/hardware/gpu/gpu_measure.c\n");
	return 64;
}
