// SPDX-License-Identifier: Apache-2.0
/* What a row holds by the keys of its stream: geometry, worker and library together, on the scripted backend. */
#include "daemon/memory/geometry.h"
#include "daemon/worker/rx_worker.h"
#include "lib/ibvcap/ring.h"
#include "lib/recording/row_frame.h"
#include "tests/support/flows.h"
#include "tests/support/frames.h"
#include "tests/support/scripted_backend.h"

#include <ibvcap/ibvcap.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/mman.h>

#define SEED    3
#define OLD     0xee
#define NETWORK 42u
#define SUM_AT  40u /* of the checksum of UDP */

static struct config_flow flow = {FLOW_DEFAULTS};
static struct config_stream config;
static struct backend *backend;
static struct backend_queue *queue;
static struct backend_flow *rule;
static struct rx_ring ring;
static struct losses losses;
static struct worker *worker;
static struct ibvcap_rx_batch batch; /* all rows so far */

static void set_up(void)
{
	flow.destination.family = AF_INET;
	config = (struct config_stream){
		.name = "rows",
		.flows = &flow,
		.n_flows = 1,
		.queues = 1,
		.payload_size = 100,
		.slots_per_block = 64,
		.history_blocks = 2,
		.receive_queue_slots = 64,
		.page_bytes = 4096,
		.max_consumers = 1,
		.lease_blocks = 1,
	};
}

static void tear_down(void)
{
	scripted_backend_ops.remove_flow(rule);
	rx_worker_free(worker);
	rx_ring_deinit(&ring);
	scripted_backend_ops.destroy_queue(queue);
	scripted_backend_ops.close(backend);
}

TestSuite(rx_rows, .init = set_up, .fini = tear_down);

/* The device reaches memory that a consumer lent, and the daemon does not: an access is a SIGSEGV. */
static void reach_lent_rows(bool can)
{
	if (config.payload_is_lent)
		cr_assert(
			eq(int,
		           mprotect(ring.payload.address, ring.payload.bytes, can ? PROT_READ | PROT_WRITE : PROT_NONE),
		           0));
}

static void begin(void)
{
	const struct rx_ring_options options = geometry_of_ring(&config, false, 0, 1);
	struct rx_worker_options worker_options = {.worker.name = "rows",
	                                           .worker.cpu = -1,
	                                           .device_timestamps = true,
	                                           .losses = &losses.queues[0],
	                                           .verify_checksums = config.verify_checksums};
	struct backend_queue_options queue_options = {.slots = config.receive_queue_slots,
	                                              .oversize_sink = true,
	                                              .timestamps = true,
	                                              .flow_tags = config.flow_numbers};
	const struct backend_ops *ops = &scripted_backend_ops;

	cr_assert(eq(int, rx_ring_init(&ring, &options, NULL), 0));
	reach_lent_rows(true);
	memset(ring.payload.address, OLD, ring.payload.bytes);
	memset(ring.headers.address, OLD, ring.headers.bytes);
	queue_options.header_bytes = ring.header_bytes;
	queue_options.header_stride = ring.header_stride;
	queue_options.slot_bytes = ring.slot_bytes;
	queue_options.row_stride = ring.row_stride;
	cr_assert(eq(int, ops->open(NULL, &backend, NULL), 0));
	cr_assert(eq(int, ops->create_queue(backend, &queue_options, &queue, NULL), 0));
	worker_options.queue = queue;
	worker_options.ring = &ring;
	losses_init(&losses, 1, config.receive_queue_slots, false, false, LOSSES_DRAIN_NS_MIN);
	cr_assert(eq(int, rx_worker_new(&worker, &worker_options), 0));
	cr_assert(eq(int, rx_worker_prime(worker), 0));
	cr_assert(eq(int, ops->start(queue), 0));
	cr_assert(eq(int, ops->add_flow(queue, &(struct flow_rule){0}, &rule, NULL), 0));
}

/* The row of the next packet. */
static uint32_t arrive(const uint8_t *frame, uint32_t bytes)
{
	uint32_t i = (uint32_t)consumer_load_head(ring.ring);

	cr_assert(scripted_arrive(queue, frame, bytes));
	reach_lent_rows(false);
	while (rx_worker_do_work(worker) > 0)
		;
	reach_lent_rows(true);
	cr_assert(eq(u64, consumer_load_head(ring.ring), i + 1u));
	batch = (struct ibvcap_rx_batch){
		.payload = ring.payload.address,
		.headers = ring.headers.address,
		.meta = ring_meta(ring.ring),
		.stride = ring.ring->row_stride,
		.header_stride = ring.ring->header_stride,
		.header_bytes = ring.ring->header_bytes,
		.application_header_bytes = ring.ring->application_header_bytes,
	};
	return i;
}

static uint32_t arrive_udp(const struct frame_options *options, uint8_t frame[FRAME_BYTES_MAX], uint32_t *bytes)
{
	*bytes = frame_build(options, SEED, frame);
	return arrive(frame, *bytes);
}

static void expect_bytes(const uint8_t *found, const uint8_t *wanted, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		cr_assert(eq(u8, found[i], wanted[i]), "byte %u", i);
}

static void expect_all(const uint8_t *found, uint8_t byte, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		cr_assert(eq(u8, found[i], byte), "byte %u", i);
}

Test(rx_rows, an_application_header_lies_behind_the_network_headers_and_the_row_has_the_samples)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	config.application_header_bytes = 36;
	config.row_stride = 128;
	begin();
	cr_expect(eq(u32, ring.header_bytes, NETWORK + 36));
	cr_expect(eq(u32, ring.header_stride, 128));
	cr_expect(eq(u32, ring.slot_bytes, 64));
	for (int round = 0; round < 2; round++) {
		i = arrive_udp(&(struct frame_options){.payload_bytes = 100}, frame, &bytes);
		cr_expect(eq(u32, batch.meta[i].flags, 0));
		cr_expect(eq(u32, batch.meta[i].length, 64));
		cr_expect(eq(u32, batch.meta[i].wire_length, 64));
		cr_expect(eq(u32, batch.meta[i].header_length, NETWORK));
		cr_expect(eq(ptr, (void *)ibvcap_rx_payload(&batch, i), (void *)(batch.payload + i * 128)));
		expect_bytes(ibvcap_rx_headers(&batch, i), frame, NETWORK + 36);
		expect_bytes(ibvcap_rx_payload(&batch, i), frame + NETWORK + 36, 64);
		expect_all(ibvcap_rx_payload(&batch, i) + 64, OLD, 64);
	}
}

Test(rx_rows, longer_headers_move_the_payload_and_a_packet_that_ends_in_its_header_is_unusable)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	config.application_header_bytes = 36;
	begin();
	i = arrive_udp(&(struct frame_options){.payload_bytes = 90, .n_vlan_tags = 1}, frame, &bytes);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_SHORT));
	cr_expect(eq(u32, batch.meta[i].header_length, NETWORK + 4));
	cr_expect(eq(u32, batch.meta[i].length, 90 - 36));
	expect_bytes(ibvcap_rx_payload(&batch, i), frame + NETWORK + 4 + 36, 90 - 36);
	i = arrive_udp(&(struct frame_options){.payload_bytes = 150}, frame, &bytes);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_TRUNCATED));
	cr_expect(eq(u32, batch.meta[i].length, 64));
	cr_expect(eq(u32, batch.meta[i].wire_length, 150 - 36));
	i = arrive_udp(&(struct frame_options){.payload_bytes = 36}, frame, &bytes);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_SHORT), "a header and no sample");
	cr_expect(eq(u32, batch.meta[i].length, 0));
	for (uint32_t n = 0; n < 36; n += 35) {
		i = arrive_udp(&(struct frame_options){.payload_bytes = n}, frame, &bytes);
		cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_UNUSABLE));
		cr_expect(eq(u32, batch.meta[i].length, 0));
		cr_expect(eq(u32, batch.meta[i].header_length, NETWORK));
		expect_bytes(ibvcap_rx_headers(&batch, i), frame, NETWORK + n);
	}
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_ERRORED]), 0));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_PUBLISHED]), 5));
}

Test(rx_rows, the_worker_touches_no_lent_row_whatever_comes)
{
	static const struct frame_options kinds[] = {
		{.payload_bytes = 100},
		{.payload_bytes = 20},
		{.payload_bytes = 150},
		{.payload_bytes = 0},
		{.payload_bytes = 60, .n_vlan_tags = 1},
		{.payload_bytes = 60, .n_vlan_tags = 4},
		{.payload_bytes = 200, .n_vlan_tags = 2},
	};
	const uint16_t cut = IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_UNUSABLE;
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	config.payload_is_lent = true;
	begin();
	cr_expect(ring.payload.fd < 0 && ring.flags == IBVCAP_RING_FLAG_LENT);
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		i = arrive_udp(&kinds[k], frame, &bytes);
		cr_expect(eq(u32, batch.meta[i].flags & cut, kinds[k].n_vlan_tags ? cut : 0), "kind %zu", k);
		expect_bytes(batch.payload + (size_t)i * batch.stride, frame + NETWORK,
		             bytes - NETWORK < 100 ? bytes - NETWORK : 100);
	}
	for (size_t n = 0; n < sizeof(frame); n += 7) {
		scripted_next_status(queue, n % 2 ? BACKEND_LENGTH_ERROR : BACKEND_OK);
		arrive(frame, (uint32_t)(n ? n : 1));
	}
}

/* With a header row that has room for the tag, the packet is as it is in the daemon's memory. */
Test(rx_rows, longer_headers_that_fit_a_header_row_are_read_there)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	config.payload_is_lent = true;
	config.application_header_bytes = 16;
	begin();
	i = arrive_udp(&(struct frame_options){.payload_bytes = 90, .n_vlan_tags = 1}, frame, &bytes);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_SHORT));
	cr_expect(eq(u32, batch.meta[i].length, 90 - 16));
	expect_bytes(ibvcap_rx_payload(&batch, i), frame + NETWORK + 4 + 16, 90 - 16);
}

Test(rx_rows, frames_are_whole_whatever_is_in_them)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	config.layout = CONFIG_LAYOUT_FRAME;
	begin();
	cr_expect(eq(u32, ring.header_stride, 0));
	cr_expect(eq(u64, ring.headers.bytes, 4096));
	i = arrive_udp(&(struct frame_options){.payload_bytes = 58, .protocol = 6}, frame, &bytes);
	cr_assert(eq(u32, bytes, 100));
	cr_expect(eq(u32, batch.meta[i].flags, 0));
	cr_expect(eq(u32, batch.meta[i].header_length, 0));
	cr_expect(eq(u32, batch.meta[i].length, 100));
	expect_bytes(ibvcap_rx_payload(&batch, i), frame, 100);
	frame[12] = 0xae;
	frame[13] = 0xfe;
	i = arrive(frame, 60);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_SHORT));
	cr_expect(eq(u32, batch.meta[i].length, 60));
	expect_bytes(ibvcap_rx_payload(&batch, i), frame, 60);
	i = arrive(frame, 101);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_TRUNCATED));
	cr_expect(eq(u32, batch.meta[i].length, 100));
	cr_expect(eq(u32, batch.meta[i].wire_length, 101));
	scripted_next_status(queue, BACKEND_SLOT_ERROR);
	i = arrive(frame, 60);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_ERROR));
}

Test(rx_rows, a_frame_has_an_application_header_too)
{
	uint8_t frame[FRAME_BYTES_MAX] = {[12] = 0xae, [13] = 0xfe, [22] = 1, [99] = 2};
	uint32_t i;

	config.layout = CONFIG_LAYOUT_FRAME;
	config.application_header_bytes = 22;
	begin();
	cr_expect(eq(u32, ring.header_stride, 64));
	i = arrive(frame, 100);
	cr_expect(eq(u32, batch.meta[i].flags, 0));
	cr_expect(eq(u32, batch.meta[i].length, 78));
	expect_bytes(ibvcap_rx_headers(&batch, i), frame, 22);
	expect_bytes(ibvcap_rx_payload(&batch, i), frame + 22, 78);
	i = arrive(frame, 20);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_UNUSABLE));
	cr_expect(eq(u32, batch.meta[i].length, 0));
}

Test(rx_rows, what_a_packet_has_not_filled_is_old_or_0)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	begin();
	i = arrive_udp(&(struct frame_options){.payload_bytes = 40}, frame, &bytes);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_SHORT));
	expect_all(ibvcap_rx_payload(&batch, i) + 40, OLD, 60);
	tear_down();

	config.zero_rest = true;
	config.row_stride = 128;
	begin();
	for (uint32_t n = 0; n < 100; n += 33) { /* 0: Ethernet pads it, and the padding goes too */
		i = arrive_udp(&(struct frame_options){.payload_bytes = n}, frame, &bytes);
		cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_SHORT));
		expect_bytes(ibvcap_rx_payload(&batch, i), frame + NETWORK, n);
		expect_all(ibvcap_rx_payload(&batch, i) + n, 0, 100 - n);
		expect_all(ibvcap_rx_payload(&batch, i) + 100, OLD, 28);
	}
	i = arrive_udp(&(struct frame_options){.payload_bytes = 40, .ip_option_bytes = 8}, frame, &bytes);
	expect_bytes(ibvcap_rx_payload(&batch, i), frame + NETWORK + 8, 40);
	expect_all(ibvcap_rx_payload(&batch, i) + 40, 0, 52);
	scripted_next_status(queue, BACKEND_SLOT_ERROR);
	i = arrive(frame, 60);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_ERROR));
	expect_all(ibvcap_rx_payload(&batch, i), 0, 100);
	expect_all(ibvcap_rx_headers(&batch, i), 0, NETWORK);
	i = arrive_udp(&(struct frame_options){.payload_bytes = 100}, frame, &bytes);
	cr_expect(eq(u32, batch.meta[i].flags, 0));
	expect_bytes(ibvcap_rx_payload(&batch, i), frame + NETWORK, 100);
}

/* What is left of the application's header takes the whole row, and would take more. */
Test(rx_rows, zeros_end_with_a_row_that_is_shorter_than_the_longer_headers)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	config.zero_rest = true;
	config.application_header_bytes = 36;
	config.payload_size = 40;
	config.row_stride = 64;
	begin();
	i = arrive_udp(&(struct frame_options){.payload_bytes = 40, .ip_option_bytes = 40}, frame, &bytes);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_IRREGULAR | IBVCAP_PACKET_FLAG_TRUNCATED));
	cr_expect(eq(u32, batch.meta[i].length, 0));
	expect_bytes(batch.payload + i * 64, frame + NETWORK + 36, 4);
	expect_all(batch.payload + i * 64 + 4, OLD, 60);
}

/* A frame with these lengths in its headers. Its row is recorded as it came. */
static void expect_malformed(uint8_t *frame, uint32_t bytes, uint32_t ip_length, uint32_t udp_length)
{
	uint32_t i, behind = bytes > NETWORK ? bytes - NETWORK : 0;
	struct row_frame recorded;

	frame[16] = (uint8_t)(ip_length >> 8);
	frame[17] = (uint8_t)ip_length;
	frame[38] = (uint8_t)(udp_length >> 8);
	frame[39] = (uint8_t)udp_length;
	i = arrive(frame, bytes);
	cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_MALFORMED | IBVCAP_PACKET_FLAG_UNUSABLE),
	          "%u bytes, IP length %u, UDP length %u", bytes, ip_length, udp_length);
	cr_expect(eq(u32, batch.meta[i].length, behind < 100 ? behind : 100));
	cr_expect(eq(u32, batch.meta[i].wire_length, behind));
	row_frame_of(&batch, i, &recorded);
	cr_expect(eq(u32, recorded.wire_bytes, bytes));
	cr_expect(eq(u32, recorded.bytes[0], bytes - behind));
	cr_expect(eq(u32, recorded.bytes[1], behind < 100 ? behind : 100));
	expect_bytes(recorded.at[0], frame, recorded.bytes[0]);
	expect_bytes(recorded.at[1], frame + NETWORK, recorded.bytes[1]);
}

/* 60 bytes of payload, 8 bytes that no length counts. */
Test(rx_rows, a_packet_whose_lengths_are_wrong_is_malformed_also_among_good_ones)
{
	static const struct {
		uint32_t bytes, ip_length, udp_length;
	} wrong[] = {{110, 87, 68},  {110, 88, 69}, {110, 97, 68}, {110, 88, 7},   {110, 88, 0},     {110, 27, 68},
	             {110, 19, 68},  {110, 0, 68},  {109, 97, 68}, {110, 88, 500}, {110, 1500, 500}, {300, 700, 400},
	             {300, 88, 100}, {42, 88, 68},  {41, 88, 68},  {38, 28, 8}};
	const struct frame_options options = {.payload_bytes = 68, .udp_length = 68};
	const uint32_t n_wrong = sizeof(wrong) / sizeof(wrong[0]);
	uint8_t frame[FRAME_BYTES_MAX] = {0};
	uint32_t i;

	begin();
	for (uint32_t k = 0; k < n_wrong; k++) {
		for (uint8_t ip_length = 88; ip_length <= 96; ip_length += 4) {
			frame_build(&options, SEED, frame);
			frame[17] = ip_length;
			i = arrive(frame, 110);
			cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_SHORT));
			cr_expect(eq(u32, batch.meta[i].length, 60));
		}
		expect_malformed(frame, wrong[k].bytes, wrong[k].ip_length, wrong[k].udp_length);
	}
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_MALFORMED]), n_wrong));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_PUBLISHED]), 4 * n_wrong));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_TRUNCATED]), 0));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_IRREGULAR]), 0));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_ERRORED]), 0));
}

Test(rx_rows, a_header_row_that_a_packet_does_not_fill_is_none_whatever_length_the_packet_names)
{
	static const struct frame_options options[] = {{.payload_bytes = 100},
	                                               {.payload_bytes = 100, .n_vlan_tags = 1}};
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t i;

	config.application_header_bytes = 36;
	begin();
	for (uint32_t k = 0; k < 2; k++) {
		frame_build(&options[k], SEED, frame);
		i = arrive(frame, NETWORK + 30);
		cr_expect(eq(u32, batch.meta[i].flags, IBVCAP_PACKET_FLAG_MALFORMED | IBVCAP_PACKET_FLAG_UNUSABLE));
		cr_expect(eq(u32, batch.meta[i].length, 0));
		expect_bytes(ibvcap_rx_headers(&batch, i), frame, NETWORK + 30);
		expect_all(ibvcap_rx_headers(&batch, i) + NETWORK + 30, 0, 6);
	}
}

Test(rx_rows, a_row_says_which_flow_matched)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	config.flow_numbers = true;
	begin();
	cr_expect(eq(u32, ring.ring->flags, IBVCAP_RING_FLAG_FLOWS));
	for (uint32_t tag = 0; tag < 256; tag += 51) {
		scripted_set_tag(queue, tag);
		i = arrive_udp(&(struct frame_options){.payload_bytes = 100}, frame, &bytes);
		cr_expect(eq(u32, batch.meta[i].flow, tag));
		i = arrive_udp(&(struct frame_options){.payload_bytes = 40, .ip_option_bytes = 8}, frame, &bytes);
		cr_expect(eq(u32, batch.meta[i].flow, tag), "an irregular one, too");
	}
}

Test(rx_rows, a_partial_checksum_is_marked_whatever_a_row_holds)
{
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes, i;

	for (int layout = 0; layout < 2; layout++) {
		config.layout = layout ? CONFIG_LAYOUT_FRAME : CONFIG_LAYOUT_UDP;
		config.zero_rest = true;
		begin();
		for (uint32_t round = 0; round < 3; round++) {
			scripted_set_flags(queue, round == 1 ? 0 : BACKEND_EVENT_CHECKSUM_PARTIAL);
			i = arrive_udp(&(struct frame_options){.payload_bytes = 40}, frame, &bytes);
			cr_expect(
				eq(u32, batch.meta[i].flags,
			           IBVCAP_PACKET_FLAG_SHORT | (round == 1 ? 0 : IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM)));
			cr_expect(eq(u32, batch.meta[i].length, layout ? bytes : 40));
			expect_all(ibvcap_rx_payload(&batch, i) + batch.meta[i].length, 0, 100 - batch.meta[i].length);
		}
		cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_BAD_CHECKSUM]), 0));
		if (!layout)
			tear_down();
	}
}

Test(rx_rows, the_worker_sums_what_the_device_has_not_found_right)
{
	static const struct {
		uint8_t event;
		bool is_wrong;
		uint16_t row;
	} cases[] = {
		{0, false, 0},
		{0, true, IBVCAP_PACKET_FLAG_BAD_CHECKSUM},
		{BACKEND_EVENT_CHECKSUM_GOOD, true, 0},
		{BACKEND_EVENT_CHECKSUM_PARTIAL, true, IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM},
		{BACKEND_EVENT_CHECKSUM_GOOD, false, 0},
	};
	uint8_t frame[FRAME_BYTES_MAX];
	uint32_t bytes = frame_build(&(struct frame_options){.payload_bytes = 100}, SEED, frame), i;
	uint16_t sum;

	config.verify_checksums = true;
	begin();
	frame_sum(frame, bytes);
	memcpy(&sum, frame + SUM_AT, sizeof(sum));
	for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
		memcpy(frame + SUM_AT, &sum, sizeof(sum));
		frame[SUM_AT] ^= (uint8_t)cases[k].is_wrong;
		scripted_set_flags(queue, cases[k].event);
		i = arrive(frame, bytes);
		cr_expect(eq(u32, batch.meta[i].flags, cases[k].row), "case %zu", k);
		cr_expect(eq(u32, batch.meta[i].length, 100));
	}
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_BAD_CHECKSUM]), 1));
}

/* ---- packets of all kinds between each other --------------------------------------------------------- */

struct kind {
	struct frame_options frame;
	uint8_t status;
	uint8_t flags;           /* of the event */
	struct ibvcap_meta meta; /* without a time */
};

#define SHORT   IBVCAP_PACKET_FLAG_SHORT
#define PARTIAL IBVCAP_PACKET_FLAG_PARTIAL_CHECKSUM

/* Rows have 100 bytes. */
static const struct kind kinds[] = {
	{.frame = {.payload_bytes = 100},
         .meta = {.length = 100, .flags = 0, .header_length = NETWORK, .wire_length = 100}},
	{.frame = {.payload_bytes = 40},
         .meta = {.length = 40, .flags = SHORT, .header_length = NETWORK, .wire_length = 40}},
	{.frame = {.payload_bytes = 40, .udp_length = 8 + 30},
         .meta = {.length = 30, .flags = SHORT, .header_length = NETWORK, .wire_length = 30}},
	{.frame = {.payload_bytes = 40, .no_padding = true},
         .meta = {.length = 40, .flags = SHORT, .header_length = NETWORK, .wire_length = 40}},
	{.frame = {.payload_bytes = 2},
         .meta = {.length = 2, .flags = SHORT, .header_length = NETWORK, .wire_length = 2}},
	{.frame = {.payload_bytes = 2, .no_padding = true},
         .meta = {.length = 2, .flags = SHORT, .header_length = NETWORK, .wire_length = 2}},
	{.frame = {.payload_bytes = 101},
         .meta = {.length = 100, .flags = IBVCAP_PACKET_FLAG_TRUNCATED, .header_length = NETWORK, .wire_length = 101}},
	{.frame = {.payload_bytes = 100},
         .flags = BACKEND_EVENT_CHECKSUM_BAD,
         .meta = {.length = 100,
                  .flags = IBVCAP_PACKET_FLAG_BAD_CHECKSUM,
                  .header_length = NETWORK,
                  .wire_length = 100}},
	{.frame = {.payload_bytes = 100},
         .flags = BACKEND_EVENT_CHECKSUM_PARTIAL,
         .meta = {.length = 100, .flags = PARTIAL, .header_length = NETWORK, .wire_length = 100}},
	{.frame = {.payload_bytes = 40},
         .flags = BACKEND_EVENT_CHECKSUM_PARTIAL,
         .meta = {.length = 40, .flags = SHORT | PARTIAL, .header_length = NETWORK, .wire_length = 40}},
	{.frame = {.payload_bytes = 101},
         .flags = BACKEND_EVENT_CHECKSUM_PARTIAL,
         .meta = {.length = 100,
                  .flags = IBVCAP_PACKET_FLAG_TRUNCATED | PARTIAL,
                  .header_length = NETWORK,
                  .wire_length = 101}},
	{.frame = {.payload_bytes = 40, .ip_option_bytes = 8},
         .meta = {.length = 40,
                  .flags = SHORT | IBVCAP_PACKET_FLAG_IRREGULAR,
                  .header_length = NETWORK + 8,
                  .wire_length = 40}},
	{.frame = {.payload_bytes = 100},
         .status = BACKEND_SLOT_ERROR,
         .meta = {.length = 0, .flags = IBVCAP_PACKET_FLAG_ERROR, .header_length = NETWORK, .wire_length = 0}},
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

static const struct ibvcap_meta *meta_at(uint64_t sequence)
{
	return ring.meta + (size_t)ring.physical[sequence / 64 & ring.table_mask] * 64 + sequence % 64;
}

Test(rx_rows, each_packet_has_the_meta_of_its_kind_whatever_came_before_it)
{
	const struct kind *sent[64];
	uint64_t head = 0, bytes = 0, shorts = 0, errored = 0, newest_ns = 0;
	uint8_t frame[FRAME_BYTES_MAX];

	config.receive_queue_slots = 128;
	begin();
	srand(1);
	for (uint32_t round = 0; round < 2000; round++) {
		uint32_t n = 1 + (uint32_t)rand() % 64, n_kinds = 1 + (uint32_t)rand() % N_KINDS,
			 first = (uint32_t)rand() % N_KINDS;

		for (uint32_t i = 0; i < n; i++) {
			const struct kind *kind = sent[i] = &kinds[(first + (uint32_t)rand() % n_kinds) % N_KINDS];

			scripted_set_flags(queue, kind->flags);
			if (kind->status)
				scripted_next_status(queue, kind->status);
			cr_assert(scripted_arrive(queue, frame, frame_build(&kind->frame, SEED, frame)));
			bytes += kind->meta.length;
			shorts += !!(kind->meta.flags & SHORT);
			errored += !!kind->status;
		}
		while (rx_worker_do_work(worker) > 0)
			;
		cr_assert(eq(u64, consumer_load_head(ring.ring), head + n));
		for (uint32_t i = 0; i < n; i++) {
			struct ibvcap_meta meta = *meta_at(head + i), wanted = sent[i]->meta;

			cr_assert(ge(u64, meta.timestamp_ns, newest_ns));
			newest_ns = wanted.timestamp_ns = meta.timestamp_ns;
			cr_assert(eq(int, memcmp(&meta, &wanted, sizeof(meta)), 0), "round %u, packet %u, kind %td",
			          round, i, sent[i] - kinds);
		}
		head += n;
	}
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_PUBLISHED]), head - errored));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_ERRORED]), errored));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_PUBLISHED_BYTES]), bytes));
	cr_expect(eq(u64, counter_get(&ring.ring->counters[IBVCAP_RX_COUNTER_SHORT]), shorts));
}
