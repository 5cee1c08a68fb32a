// SPDX-License-Identifier: Apache-2.0
/* Streams of the xdp backend, and what they count, for tests. */
#include "tests/unit/backend/xdp_queues.h"

#include "daemon/base/log.h"
#include "tests/unit/net/namespace.h"

#include <arpa/inet.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <syslog.h>
#include <unistd.h>

#define IDLE_MS 50

struct backend *backend;
struct failure failure;
uint32_t queue_slots = SLOTS;
bool queue_timestamps;
static int sender = -1;

/* ---- the interface --------------------------------------------------------------------------------- */

void make_veth(const char *mtu, const char *queues)
{
	char command[512];

	snprintf(command, sizeof(command),
	         "ip link del test0 && ip link add test0 numrxqueues %s numtxqueues %s mtu %s address " TEST_MAC
	         " type veth peer name test1 numrxqueues %s numtxqueues %s mtu %s && ip link set test0 up && "
	         "ip link set test1 up && ethtool -L test0 rx %s tx %s && ethtool -L test1 rx %s tx %s",
	         queues, queues, mtu, queues, queues, mtu, queues, queues, queues, queues);
	cr_assert(system(command) == 0);
}

int open_with(enum backend_xdp_mode mode, struct backend **out)
{
	const struct backend_open_options options = {.interface = "test0", .queues = N_QUEUES, .xdp_mode = mode};

	return xdp_backend_ops.open(&options, out, &failure);
}

void open_sender(void)
{
	const struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex("test1")};

	sender = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	cr_assert(sender >= 0 && bind(sender, (const struct sockaddr *)&address, sizeof(address)) == 0);
}

void open_backend(const char *mtu, const char *queues)
{
	int r;

	make_veth(mtu, queues);
	r = open_with(BACKEND_XDP_AUTO, &backend);
	if (r == -EPERM || r == -EAFNOSUPPORT)
		cr_skip_test("this machine lets us use no XDP: %s", failure.text);
	cr_assert(eq(int, r, 0), "%s", failure.text);
	open_sender();
}

void set_up_xdp(void)
{
	enter_namespace();
	log_set_level(LOG_WARNING);
}

void tear_down_xdp(void)
{
	if (backend)
		xdp_backend_ops.close(backend);
}

/* If the other end had no CPU and has no room, the kernel drops the frame and says so: send it again. */
static void send_frame(const uint8_t *frame, size_t bytes)
{
	ssize_t r;

	for (uint32_t attempt = 0; (r = send(sender, frame, bytes, 0)) < 0 && errno == ENOBUFS && attempt < 30000;
	     attempt++)
		usleep(1000);
	cr_assert(eq(sz, (size_t)r, bytes), "%s", strerror(errno));
}

/* Frame i of those to a port; a veth pair chooses the queue by the source port. */
void send_frames(uint16_t port, uint32_t n, uint32_t payload_bytes)
{
	static uint8_t frame[HEADER_BYTES + 65507] = {
		0x02, 0, 0, 0, 0x0a, 0x01, [12] = 0x08, [14] = 0x45, [23] = 17, [30] = 10, [33] = 1};
	uint16_t port_be = htons(port), udp_be = htons((uint16_t)(8 + payload_bytes)),
		 ip_be = htons((uint16_t)(28 + payload_bytes));

	memcpy(frame + 16, &ip_be, 2);
	memcpy(frame + 36, &port_be, 2);
	memcpy(frame + 38, &udp_be, 2);
	for (uint32_t i = 0; i < payload_bytes; i++)
		frame[HEADER_BYTES + i] = (uint8_t)(i * 7 + port);
	for (uint32_t i = 0; i < n; i++) {
		frame[35] = (uint8_t)i;
		send_frame(frame, HEADER_BYTES + payload_bytes);
	}
}

/* ---- streams --------------------------------------------------------------------------------------- */

struct flow_rule stream_rule(uint16_t port)
{
	return (struct flow_rule){
		.family = AF_INET,
		.value = {.destination_mac = {0x02, 0, 0, 0, 0x0a, 0x01},
	                  .destination = {10, 0, 0, 1},
	                  .protocol = IPPROTO_UDP,
	                  .destination_port_be = htons(port)},
		.mask = FLOW_MASK_UDP_IPV4,
	};
}

void stream_post(struct stream *stream, uint32_t slot, uint32_t n)
{
	const struct backend_run run = {slot, n, stream->payload + (size_t)slot * stream->slot_bytes,
	                                stream->headers + (size_t)slot * HEADER_STRIDE};

	cr_assert(eq(int, xdp_backend_ops.post(stream->queue, &run), (int)n));
}

int stream_create(struct stream *stream, uint32_t slot_bytes)
{
	const struct backend_queue_options options = {
		.slots = queue_slots,
		.header_bytes = HEADER_BYTES,
		.header_stride = HEADER_STRIDE,
		.slot_bytes = slot_bytes,
		.row_stride = slot_bytes,
		.completion_events = true,
		.timestamps = queue_timestamps,
	};

	*stream = (struct stream){
		.payload = malloc((size_t)SLOTS * slot_bytes),
		.headers = malloc((size_t)SLOTS * HEADER_STRIDE),
		.slot_bytes = slot_bytes,
		.payload_bytes = slot_bytes,
	};
	return xdp_backend_ops.create_queue(backend, &options, &stream->queue, &failure);
}

void stream_open(struct stream *stream, uint16_t port, uint32_t slot_bytes)
{
	const struct flow_rule rule = stream_rule(port);

	cr_assert(eq(int, stream_create(stream, slot_bytes), 0), "%s", failure.text);
	stream_post(stream, 0, SLOTS);
	cr_assert(eq(int, xdp_backend_ops.start(stream->queue), 0));
	cr_assert(eq(int, xdp_backend_ops.add_flow(stream->queue, &rule, &stream->flow, &failure), 0), "%s",
	          failure.text);
}

void stream_close(struct stream *stream)
{
	if (stream->flow)
		xdp_backend_ops.remove_flow(stream->flow);
	xdp_backend_ops.destroy_queue(stream->queue);
	free(stream->payload);
	free(stream->headers);
}

static bool stream_has_bytes(const struct stream *stream, uint32_t slot)
{
	const uint8_t *headers = stream->headers + (size_t)slot * HEADER_STRIDE;
	const uint8_t *payload = stream->payload + (size_t)slot * stream->slot_bytes;
	uint8_t port = headers[37];

	for (uint32_t i = 0; i < stream->payload_bytes; i++)
		if (payload[i] != (uint8_t)(i * 7 + port))
			return false;
	return true;
}

int stream_poll(struct stream *stream)
{
	struct backend_event events[64];
	int n = xdp_backend_ops.poll(stream->queue, events, 64);

	for (int i = 0; i < n; i++) {
		stream->n_wrong += events[i].bytes != HEADER_BYTES + stream->payload_bytes ||
		                   !stream_has_bytes(stream, events[i].slot);
		stream_post(stream, events[i].slot, 1);
	}
	stream->n_received += (uint64_t)n;
	return n;
}

void stream_take_all(struct stream *stream)
{
	for (int idle_ms = 0; idle_ms < IDLE_MS; idle_ms++) {
		while (stream_poll(stream) > 0)
			idle_ms = 0;
		poll(NULL, 0, 1);
	}
}

uint64_t stream_drops(const struct stream *stream, enum backend_drop reason)
{
	return atomic_load(&stream->queue->n_dropped[reason]);
}

uint64_t stream_all_drops(const struct stream *stream)
{
	uint64_t sum = 0;

	for (int i = 0; i < BACKEND_N_DROPS; i++)
		sum += stream_drops(stream, i);
	return sum;
}

uint64_t expect_sum(const struct stream *stream)
{
	uint64_t matched = 0;

	cr_assert(eq(int, xdp_backend_ops.read_matched(stream->queue, &matched), 0));
	cr_expect(eq(u64, matched, stream->n_received + stream_all_drops(stream)),
	          "no_frame %llu, ring_full %llu, no_socket %llu, unbound %llu",
	          (unsigned long long)stream_drops(stream, BACKEND_DROP_NO_FRAME),
	          (unsigned long long)stream_drops(stream, BACKEND_DROP_RING_FULL),
	          (unsigned long long)stream_drops(stream, BACKEND_DROP_NO_SOCKET),
	          (unsigned long long)stream_drops(stream, BACKEND_DROP_UNBOUND));
	cr_expect(eq(u64, stream->n_wrong, 0));
	return matched;
}

uint32_t n_frames_lost(void)
{
	const struct xdp_backend *xdp = xdp_backend(backend);
	uint32_t n_lost = 0;

	for (uint32_t i = 0; i < xdp->interface.n_card_queues; i++) {
		const struct xdp_card_queue *card_queue = &xdp->card_queues[i];

		n_lost += card_queue->n_frames - card_queue->n_spare -
		          (*card_queue->fill.producer - *card_queue->fill.consumer);
	}
	return n_lost;
}
