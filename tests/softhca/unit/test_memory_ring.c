// SPDX-License-Identifier: Apache-2.0
/* The ring of a memory wire: two programs write it, and neither trusts the other. */
#include "wire/memory_ring.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FRAME_BYTES 1522u
#define RING_BYTES  (64u << 10)

/* Both ends, as two programs have them. */
struct pair {
	struct memory_ring in, out;
};

static struct pair open_pair(void)
{
	struct pair p;
	int fd;

	cr_assert_eq(memory_ring_create(&p.in, RING_BYTES, FRAME_BYTES, &fd), 0);
	cr_assert_eq(memory_ring_map(&p.out, fd), 0);
	close(fd);
	return p;
}

static void close_pair(struct pair *p)
{
	memory_ring_unmap(&p->in);
	memory_ring_unmap(&p->out);
}

static void put(struct pair *p, uint8_t byte, uint32_t bytes)
{
	static uint8_t data[4096];
	struct iovec iov[2] = {{data, bytes / 2}, {data + bytes / 2, bytes - bytes / 2}};

	memset(data, byte, bytes);
	memory_ring_put(&p->out, iov, 2, 7);
}

Test(memory_ring, frames_come_in_order_round_and_round)
{
	struct pair p = open_pair();

	for (uint32_t i = 0; i < 5 * p.in.n_slots; i++) {
		put(&p, (uint8_t)i, 60 + i % 1000);
		struct memory_slot *s = memory_ring_next(&p.in);

		cr_assert_not_null(s);
		cr_assert_eq(s->len, 60 + i % 1000);
		cr_assert_eq(s->frame[0], (uint8_t)i);
		cr_assert_eq(s->frame[s->len - 1], (uint8_t)i);
		cr_assert_eq(s->realtime_ns, 7);
		cr_assert_null(memory_ring_next(&p.in));
		memory_ring_release(&p.in);
	}
	cr_assert_eq(p.in.shared->discards, 0);
	close_pair(&p);
}

Test(memory_ring, a_full_ring_discards_and_counts)
{
	struct pair p = open_pair();
	uint32_t n = 0;

	for (uint32_t i = 0; i < p.in.n_slots + 3; i++)
		put(&p, (uint8_t)i, 60);
	for (struct memory_slot *s; (s = memory_ring_next(&p.in)); n++)
		cr_assert_eq(s->frame[0], (uint8_t)n);
	cr_assert_eq(n, p.in.n_slots);
	cr_assert_eq(p.in.shared->discards, 3);
	/* Looked at, not given back: still no room. */
	put(&p, 0, 60);
	cr_assert_eq(p.in.shared->discards, 4);
	memory_ring_release(&p.in);
	put(&p, 0, 60);
	cr_assert_eq(p.in.shared->discards, 4);
	close_pair(&p);
}

Test(memory_ring, a_frame_longer_than_a_slot_is_a_discard)
{
	struct pair p = open_pair();

	put(&p, 1, FRAME_BYTES);
	cr_assert_not_null(memory_ring_next(&p.in));
	put(&p, 1, 2 * FRAME_BYTES);
	cr_assert_null(memory_ring_next(&p.in));
	cr_assert_eq(p.in.shared->discards, 1);
	close_pair(&p);
}

Test(memory_ring, a_sleeper_is_woken_once)
{
	struct pair p = open_pair();

	cr_assert(memory_ring_sleep(&p.in));
	cr_assert(memory_ring_must_wake(&p.out));
	cr_assert_not(memory_ring_must_wake(&p.out));
	put(&p, 1, 60);
	cr_assert_not(memory_ring_sleep(&p.in), "a frame waits");
	memory_ring_awake(&p.in);
	cr_assert_not(memory_ring_must_wake(&p.out));
	close_pair(&p);
}

/* Where the other end could still shrink it, whoever reads would be killed (SIGBUS). */
Test(memory_ring, memory_that_could_shrink_is_refused)
{
	struct memory_ring r;
	int fd = memfd_create("test", MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, RING_BYTES), 0);
	cr_assert_eq(memory_ring_map(&r, fd), -EPROTO);
	close(fd);
	fd = open("/dev/null", O_RDWR);
	cr_assert_eq(memory_ring_map(&r, fd), -EPROTO);
	close(fd);
}

Test(memory_ring, a_shape_beyond_the_memory_is_refused)
{
	const struct {
		uint32_t n_slots, slot_bytes;
	} shapes[] = {{0, 1600}, {3, 1600}, {1u << 31, 1600}, {64, 1600},
	              {2, 0},    {2, 16},   {2, 100},         {1, UINT32_MAX & ~63u}};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		struct memory_ring in, out;
		int fd;

		cr_assert_eq(memory_ring_create(&in, RING_BYTES, FRAME_BYTES, &fd), 0);
		in.shared->n_slots = shapes[i].n_slots;
		in.shared->slot_bytes = shapes[i].slot_bytes;
		cr_assert_eq(memory_ring_map(&out, fd), -EPROTO, "shape %zu", i);
		cr_assert_null(out.shared);
		memory_ring_unmap(&in);
		close(fd);
	}
}
