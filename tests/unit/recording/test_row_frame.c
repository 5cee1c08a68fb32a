// SPDX-License-Identifier: Apache-2.0
/* The checksum of a frame whose sender's machine left it to a card, and of which frames it is left as it is. */
#include "lib/recording/row_frame.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_MAX 2048

/* From 10.0.0.1:4000 to 10.0.0.2:7502. */
static const uint8_t known[49] = "\x02\0\0\0\0\1\x02\0\0\0\0\2\x08\0"
				 "\x45\0\0\x23\0\0\x40\0\x40\x11\x26\xc8\x0a\0\0\x01\x0a\0\0\x02"
				 "\x0f\xa0\x1d\x4e\0\x0f\0\0"
				 "partial";

struct made {
	uint8_t bytes[BYTES_MAX];
	uint32_t n;
	uint32_t at;     /* of the checksum */
	uint16_t right;  /* as a number */
	uint16_t pseudo; /* likewise */
};

struct shape {
	int version; /* of IP */
	uint8_t protocol;
	uint32_t payload_bytes;
	bool is_tagged;
	bool has_options; /* IPv6: an extension header */
	uint32_t trailer_bytes;
};

static uint32_t add16(uint32_t sum, const uint8_t *bytes, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void put16(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* With the right checksum. */
static void make(struct made *made, const struct shape *shape)
{
	uint32_t header_bytes = shape->protocol == IPPROTO_TCP ? 20 : 8, n = header_bytes + shape->payload_bytes;
	uint32_t l3 = shape->is_tagged ? 18 : 14, options = shape->has_options ? 8 : 0, l4;
	uint8_t *frame = made->bytes, *ip = frame + l3;

	memset(made, 0, sizeof(*made));
	put16(frame + 12, shape->is_tagged ? 0x8100 : shape->version == 4 ? 0x0800 : 0x86dd);
	if (shape->is_tagged)
		put16(frame + 16, shape->version == 4 ? 0x0800 : 0x86dd);
	l4 = l3 + (shape->version == 4 ? 20 : 40) + options;
	ip[0] = shape->version == 4 ? (uint8_t)(0x45 + options / 4) : 0x60;
	put16(ip + (shape->version == 4 ? 2 : 4), shape->version == 4 ? 20 + options + n : options + n);
	ip[shape->version == 4 ? 9 : 6] = options && shape->version == 6 ? IPPROTO_DSTOPTS : shape->protocol;
	if (options && shape->version == 6)
		ip[40] = shape->protocol;
	for (uint32_t i = shape->version == 4 ? 12 : 8; i < (shape->version == 4 ? 20 : 40u); i++)
		ip[i] = (uint8_t)(rand() % 256);
	for (uint32_t i = 0; i < n; i++)
		frame[l4 + i] = (uint8_t)(rand() % 256);
	if (shape->protocol == IPPROTO_TCP)
		frame[l4 + 12] = 0x50;
	else
		put16(frame + l4 + 4, n);
	made->at = l4 + (shape->protocol == IPPROTO_TCP ? 16 : 6);
	made->n = l4 + n + shape->trailer_bytes;
	put16(frame + made->at, 0);
	made->pseudo = (uint16_t)add16(add16(0, ip + (shape->version == 4 ? 12 : 8), shape->version == 4 ? 8 : 32),
	                               (uint8_t[]){0, shape->protocol, (uint8_t)(n >> 8), (uint8_t)n}, 4);
	made->right = (uint16_t)~add16(made->pseudo, frame + l4, n);
	made->right = made->right ? made->right : 0xffff;
	put16(frame + made->at, made->right);
}

/* Of the first `captured` bytes of a frame of made->n, of which the header row has the first `split`. */
static struct row_frame found_in(const struct made *made, uint32_t captured, uint32_t split)
{
	struct row_frame frame = {
		.at = {made->bytes, made->bytes + split}, .bytes = {split, captured - split}, .wire_bytes = made->n};

	row_frame_find_checksum(&frame);
	return frame;
}

static void expect_found(const struct made *made, uint32_t split)
{
	struct row_frame frame = found_in(made, made->n, split);
	uint8_t checksum[2];

	cr_assert_eq(frame.checksum_at, made->at, "split %u", split);
	memcpy(checksum, &frame.checksum, 2);
	cr_assert_eq(checksum[0] << 8 | checksum[1], made->right, "split %u", split);
}

Test(row_frame, a_known_packet_gets_its_checksum)
{
	struct made made = {.n = sizeof(known), .at = 40, .right = 0x06a8};

	memcpy(made.bytes, known, sizeof(known));
	put16(made.bytes + 40, 0x1423); /* 0x0a00 + 0x0001 + 0x0a00 + 0x0002 + 17 + 15 */
	expect_found(&made, 42);
}

static const struct shape shapes[] = {
	{4, IPPROTO_UDP, 100, false, false, 0},  {4, IPPROTO_UDP, 0, false, false, 0},
	{4, IPPROTO_UDP, 1, false, false, 17},   {4, IPPROTO_UDP, 1473, true, false, 0},
	{4, IPPROTO_UDP, 99, false, true, 0},    {6, IPPROTO_UDP, 101, false, false, 0},
	{6, IPPROTO_UDP, 1452, true, false, 0},  {6, IPPROTO_UDP, 64, false, true, 1},
	{4, IPPROTO_TCP, 1461, false, false, 0}, {6, IPPROTO_TCP, 0, true, false, 0},
};
#define N_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

Test(row_frame, the_checksum_is_the_cards_wherever_the_row_splits_the_frame)
{
	struct made made;

	srand(1);
	for (size_t i = 0; i < N_SHAPES; i++) {
		make(&made, &shapes[i]);
		put16(made.bytes + made.at, made.pseudo);
		for (uint32_t split = 0; split <= made.n; split++)
			expect_found(&made, split);
	}
}

/* Payloads that make the sum all ones: 0 would say that the packet has no checksum. */
Test(row_frame, a_checksum_is_never_0)
{
	struct made made;

	make(&made, &(struct shape){4, IPPROTO_UDP, 64, false, false, 0});
	put16(made.bytes + made.n - 2, add16(0,
	                                     (uint8_t[]){(uint8_t)(made.right >> 8), (uint8_t)made.right,
	                                                 made.bytes[made.n - 2], made.bytes[made.n - 1]},
	                                     4));
	put16(made.bytes + made.at, made.pseudo);
	made.right = 0xffff;
	expect_found(&made, 42);
}

Test(row_frame, other_frames_stay_as_they_are)
{
	struct made made;

	srand(2);
	for (size_t i = 0; i < N_SHAPES; i++) {
		make(&made, &shapes[i]);
		cr_expect_eq(found_in(&made, made.n, 42).checksum_at, 0, "shape %zu: the checksum is right", i);
		put16(made.bytes + made.at, made.right ^ 0x0100);
		cr_expect_eq(found_in(&made, made.n, 42).checksum_at, 0, "shape %zu: the sender's checksum is wrong",
		             i);
		put16(made.bytes + made.at, 0);
		cr_expect_eq(found_in(&made, made.n, 42).checksum_at, 0, "shape %zu: there is none", i);
		put16(made.bytes + made.at, made.pseudo);
		cr_expect_eq(found_in(&made, made.n - shapes[i].trailer_bytes - 1, 20).checksum_at, 0,
		             "shape %zu: bytes are missing", i);
		cr_expect_neq(found_in(&made, made.n, 42).checksum_at, 0, "shape %zu", i);
	}
	make(&made, &shapes[0]);
	put16(made.bytes + made.at, made.pseudo);
	made.bytes[20] = 0x20;
	cr_expect_eq(found_in(&made, made.n, 42).checksum_at, 0, "a first fragment");
	made.bytes[20] = 0;
	made.bytes[21] = 1;
	cr_expect_eq(found_in(&made, made.n, 42).checksum_at, 0, "a later fragment");
	made.bytes[21] = 0;
	put16(made.bytes + 38, 8 + 101);
	cr_expect_eq(found_in(&made, made.n, 42).checksum_at, 0, "UDP's length is behind the frame's end");
	for (uint32_t length = 0; length < 8; length++) {
		put16(made.bytes + 38, length);
		cr_expect_eq(found_in(&made, made.n, 42).checksum_at, 0, "UDP's length is %u", length);
	}
}

/* Whatever the bytes say, none behind them is read. */
Test(row_frame, any_bytes_are_safe)
{
	struct made made;

	srand(3);
	for (uint32_t round = 0; round < 20000; round++) {
		const struct shape *shape = &shapes[(size_t)rand() % N_SHAPES];
		uint32_t split, n;
		uint8_t *copy;

		make(&made, shape);
		for (int i = rand() % 4; i-- > 0;)
			made.bytes[12 + rand() % 60] = (uint8_t)rand();
		n = made.n < 14 ? 0 : (uint32_t)rand() % (made.n + 1);
		split = n ? (uint32_t)rand() % (n + 1) : 0;
		copy = malloc(n + 1);
		cr_assert(copy);
		memcpy(copy, made.bytes, n);
		struct row_frame frame = {.at = {copy, copy + split},
		                          .bytes = {split, n - split},
		                          .wire_bytes = (uint32_t)rand() % 2 * n};

		row_frame_find_checksum(&frame);
		cr_assert(!frame.checksum_at || frame.checksum_at + 2 <= n);
		free(copy);
	}
}
