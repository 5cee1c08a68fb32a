// SPDX-License-Identifier: Apache-2.0
/* A field of a published row is read where the row has it, and not once the row is recycled or has no such field. */
#include "daemon/ring/rx_peek.h"
#include "tests/support/small_ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <ibvcap/ibvcap.h>
#include <string.h>

#define N           64u
#define APPLICATION 16u
#define TIME_NS     UINT64_C(1790000000000000000)

static struct rx_ring ring;

static void init(void)
{
	struct rx_ring_options options = small_ring();
	struct failure failure = {0};

	options.history_blocks = 2;
	options.posted_slots = 2 * N;
	options.spare_blocks = 4;
	options.header_bytes = 42 + APPLICATION;
	options.application_header_bytes = APPLICATION;
	cr_assert(eq(int, rx_ring_init(&ring, &options, &failure), 0), "%s", failure.text);
}

/* Packets of APPLICATION and 20 bytes more, of which the first of each part has the number of the packet. */
static void publish_block(void)
{
	struct rx_span span;

	rx_ring_post_span(&ring, N, &span);
	cr_assert(eq(u32, span.n, N));
	for (uint32_t i = 0; i < N; i++) {
		span.payload[i * ring.row_stride] = (uint8_t)(span.sequence + i);
		span.headers[i * ring.header_stride + 42] = (uint8_t)(span.sequence + i);
		span.meta[i] = (struct ibvcap_meta){.timestamp_ns = TIME_NS + i, .length = 20, .header_length = 42};
	}
	rx_ring_publish(&ring, N);
}

static bool peek(uint64_t sequence, uint32_t offset, uint32_t bytes)
{
	uint8_t field[16] = {0xff};
	uint64_t timestamp_ns;
	bool found = rx_peek(&ring, sequence, (struct rx_peek_field){offset, bytes}, field, &timestamp_ns);

	if (found) {
		cr_expect(eq(u8, field[0], offset % APPLICATION ? 0 : (uint8_t)sequence));
		cr_expect(eq(u64, timestamp_ns, TIME_NS + sequence % N));
	}
	return found;
}

static struct ibvcap_meta *meta_of(uint64_t sequence)
{
	uint32_t physical = consumer_load_table_at(ring_table(ring.ring), ring.table_mask, sequence / N);

	return ring.meta + physical * N + sequence % N;
}

Test(rx_peek, of_published_rows)
{
	init();
	publish_block();
	for (uint64_t sequence = 0; sequence < N; sequence++) {
		cr_assert(peek(sequence, 0, 4), "in the application's header");
		cr_assert(peek(sequence, APPLICATION, 8), "in the payload");
	}
	cr_expect(peek(3, APPLICATION + 12, 8));
	cr_expect(not(peek(3, APPLICATION + 13, 8)), "the packet ends before");
	cr_expect(not(peek(N, 0, 4)), "it is not published");
	rx_ring_deinit(&ring);
}

Test(rx_peek, rows_without_a_payload_or_a_time_are_passed_over)
{
	init();
	publish_block();
	meta_of(1)->flags = IBVCAP_PACKET_FLAG_ERROR;
	meta_of(2)->flags = IBVCAP_PACKET_FLAG_FRAGMENT;
	meta_of(3)->timestamp_ns = 0;
	meta_of(4)->flags = IBVCAP_PACKET_FLAG_KERNEL_TIME;
	for (uint64_t sequence = 1; sequence < 4; sequence++)
		cr_expect(not(peek(sequence, 0, 4)));
	cr_expect(peek(4, 0, 4));
	rx_ring_deinit(&ring);
}

Test(rx_peek, a_row_that_is_recycled_is_not_read)
{
	init();
	for (int i = 0; i < 12; i++)
		publish_block();
	cr_expect(not(peek(0, 0, 4)));
	cr_expect(peek(12 * N - 1, 0, 4));
	rx_ring_deinit(&ring);
}
