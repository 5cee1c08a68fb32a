// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cuda/cuda_bed.h"

#include "lib/ibvcap/ring.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void bed_init(struct cuda_bed *bed)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = 20000};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fds[PROTOCOL_FD_N], socket_fd;

	*bed = (struct cuda_bed){.b.epoch = EPOCH + 1};
	softcuda_reset();
	strcpy(bed->directory, "/tmp/ibvcap-cuda-XXXXXX");
	cr_assert_not_null(mkdtemp(bed->directory));
	snprintf(bed->path, sizeof(bed->path), "%s/s", bed->directory);
	strcpy(address.sun_path, bed->path);
	bed->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(bed->listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(bed->listener, 8), 0);
	attached_prepare(&bed->a, fds, &socket_fd);
	cr_assert_eq(attached_open(&bed->rx, socket_fd, fds, EPOCH, bed->path, &options), 0, "%s", ibvcap_error_text());
	cr_assert_eq(cuInit(0), 0);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&bed->context, 0), 0);
	cr_assert_eq(cuCtxPushCurrent_v2(bed->context), 0);
	for (unsigned i = 0; i < BED_STREAMS; i++)
		cr_assert_eq(cuStreamCreate(&bed->streams[i], 1), 0);
}

void bed_open(struct cuda_bed *bed, enum ibvcap_cuda_way way)
{
	const struct ibvcap_cuda_options options = {.size = sizeof(options), .way = way};

	cr_assert_eq(ibvcap_cuda_open(bed->rx, &options, &bed->cuda), 0, "%s", ibvcap_error_text());
}

static void check_nothing_left(void)
{
	struct softcuda_counts counts = softcuda_count();

	cr_expect_eq(counts.registrations, 0);
	cr_expect_eq(counts.host_allocations, 0);
	cr_expect_eq(counts.device_allocations, 0);
	cr_expect_eq(counts.events, 0);
	cr_expect_eq(counts.streams, BED_STREAMS, "those of the test");
	cr_expect_eq(counts.retained, 1, "by the test");
	cr_expect_eq(counts.pushed, 1, "by the test");
	cr_expect_eq(counts.capture_mode, 0, "as the thread began");
}

static void free_attached(struct attached *attached)
{
	close(attached->daemon_socket);
	close(attached->daemon_wake);
	shm_deinit(&attached->consumer.state_shm);
	shm_deinit(&attached->consumer.page_shm);
	rx_ring_deinit(&attached->ring);
}

void bed_deinit(struct cuda_bed *bed)
{
	softcuda_set_hold(false);
	softcuda_run((void *)-1, -1u);
	cr_assert_eq(ibvcap_cuda_close(bed->cuda, 10000), 0, "%s", ibvcap_error_text());
	ibvcap_rx_close(bed->rx);
	check_nothing_left();
	for (unsigned i = 0; i < BED_STREAMS; i++)
		cr_assert_eq(cuStreamDestroy_v2(bed->streams[i]), 0);
	cuCtxSetCurrent(NULL);
	cr_assert_eq(cuDevicePrimaryCtxRelease_v2(0), 0);
	cr_expect_eq(softcuda_count().left_behind, 0);
	free_attached(&bed->a);
	if (bed->has_next)
		free_attached(&bed->b);
	close(bed->listener);
	unlink(bed->path);
	rmdir(bed->directory);
}

void bed_revive_device(struct cuda_bed *bed)
{
	cr_expect_eq(ibvcap_cuda_close(bed->cuda, 0), 0, "%s", ibvcap_error_text());
	bed->cuda = NULL;
	cr_assert_eq(cuDevicePrimaryCtxRelease_v2(0), 0);
	softcuda_lose_device(0, 0);
	cr_assert_eq(cuDevicePrimaryCtxRetain(&bed->context, 0), 0);
	cr_assert_eq(cuCtxSetCurrent(bed->context), 0);
	for (unsigned i = 0; i < BED_STREAMS; i++)
		cr_assert_eq(cuStreamCreate(&bed->streams[i], 1), 0);
}

void bed_end_daemon(struct cuda_bed *bed)
{
	rx_ring_close(&bed->a.ring, IBVCAP_RING_END_STOPPED);
}

bool bed_next_daemon(struct cuda_bed *bed)
{
	struct protocol_attached message = {.epoch = bed->b.epoch};
	int fds[PROTOCOL_FD_N], unused, fd;
	union protocol_message request;

	if (poll(&(struct pollfd){.fd = bed->listener, .events = POLLIN}, 1, 0) != 1)
		return false;
	fd = accept(bed->listener, NULL, NULL);
	cr_assert_eq(protocol_recv(fd, &request, NULL, NULL), 1);
	attached_prepare(&bed->b, fds, &unused);
	bed->has_next = true;
	close(unused);
	close(bed->b.daemon_socket);
	bed->b.daemon_socket = fd;
	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	cr_assert_eq(protocol_send(fd, &message.header, fds, PROTOCOL_FD_N), 0);
	for (unsigned i = 0; i < PROTOCOL_FD_N; i++)
		close(fds[i]);
	return true;
}

void bed_read(struct cuda_bed *bed, const struct ibvcap_cuda_batch *batch, unsigned stream, uint64_t *sum)
{
	const struct ibvcap_rx_batch *rows = &batch->rows;
	struct CUstream_st *to = bed->streams[stream];

	*sum = 0;
	cr_assert_eq(softcuda_launch_sum(to, batch->payload, (size_t)rows->n * rows->stride, sum), 0);
	cr_assert_eq(softcuda_launch_sum(to, batch->headers, (size_t)rows->n * rows->header_stride, sum), 0);
	cr_assert_eq(softcuda_launch_sum(to, batch->meta, rows->n * sizeof(*rows->meta), sum), 0);
}

static uint64_t sum_bytes(const void *from, size_t n)
{
	const uint8_t *bytes = from;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += bytes[i];
	return sum;
}

uint64_t bed_sum(const struct ibvcap_cuda_batch *batch)
{
	const struct ibvcap_rx_batch *rows = &batch->rows;

	return sum_bytes(rows->payload, (size_t)rows->n * rows->stride) +
	       sum_bytes(rows->headers, (size_t)rows->n * rows->header_stride) +
	       sum_bytes(rows->meta, rows->n * sizeof(*rows->meta));
}

unsigned bed_count_leases(const struct attached *attached)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < QUOTA; i++)
		n += daemon_load_lease(attached->consumer.page, i) != 0;
	return n;
}

void bed_check_counts(const struct cuda_bed *bed)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	cr_assert_eq(ibvcap_rx_counts(bed->rx, &counts), 0);
	cr_expect_eq(counts.published, counts.delivered + counts.skipped + counts.lag);
}

struct ibvcap_cuda_info bed_info(const struct cuda_bed *bed)
{
	struct ibvcap_cuda_info info = IBVCAP_INIT(struct ibvcap_cuda_info);

	cr_assert_eq(ibvcap_cuda_info(bed->cuda, &info), 0);
	return info;
}
