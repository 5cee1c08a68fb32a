// SPDX-License-Identifier: Apache-2.0
/* A daemon that lies about its ring, one field at a time: refused, nothing left behind, no crash. */
#include "lib/ibvcap/ring.h"
#include "tests/unit/ibvcap/attached.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static struct attached a;
static int fds[PROTOCOL_FD_N], consumer_socket;

static unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void init(void)
{
	attached_prepare(&a, fds, &consumer_socket);
}

static void deinit(void)
{
	attached_deinit(&a);
}

TestSuite(rx_open, .init = init, .fini = deinit);

static int open_queue(uint64_t epoch)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .reattach_ms = IBVCAP_NO_REATTACH};

	return attached_open(&a.rx, consumer_socket, fds, epoch, NULL, &options);
}

static void expect_refused(const char *what)
{
	unsigned before = count_fds();

	cr_expect_eq(open_queue(EPOCH), -EPROTO, "%s", what);
	cr_expect_null(a.rx);
	cr_expect_eq(count_fds(), before - PROTOCOL_FD_N - 1, "%s: all descriptors closed", what);
	cr_expect_gt(strlen(ibvcap_error_text()), 10);
}

/* The mapping of the test is the daemon's own: it may write what it likes. */
#define LIE(name, statement)                                            \
	Test(rx_open, name)                                             \
	{                                                               \
		struct ibvcap_ring *ring = a.ring.ring;                 \
		struct ibvcap_consumer_state *state = a.consumer.state; \
		struct ibvcap_consumer_page *page = a.consumer.page;    \
                                                                        \
		statement;                                              \
		(void)ring, (void)state, (void)page;                    \
		expect_refused(#statement);                             \
	}

LIE(magic_of_the_ring, ring->segment.magic++)
LIE(magic_of_the_state, state->segment.magic++)
LIE(magic_of_the_page, page->segment.magic++)
LIE(another_abi, ring->segment.abi_major++)
LIE(another_epoch, ring->segment.epoch++)
LIE(another_size, ring->segment.bytes++)
LIE(not_ready, ring->segment.ready = 0)
LIE(a_page_not_ready, page->segment.ready = 0)
LIE(no_slots, ring->slots_per_block = 0)
LIE(too_many_slots, ring->slots_per_block = UINT32_MAX)
LIE(a_slot_more, ring->slots_per_block = 128)
LIE(no_slot_bytes, ring->slot_bytes = 0)
LIE(rows_longer_than_the_block, ring->slot_bytes = 4096)
LIE(no_header_stride, ring->header_stride = 0)
LIE(headers_past_their_segment, ring->header_stride = 1u << 20)
LIE(no_blocks, ring->n_blocks = 0)
LIE(too_many_blocks, ring->n_blocks = UINT32_MAX)
LIE(blocks_past_the_payload, ring->block_bytes *= 2)
LIE(blocks_that_overflow, ring->block_bytes = UINT64_MAX / 2)
LIE(no_table, ring->table_entries = 0)
LIE(a_table_of_an_odd_size, ring->table_entries = 3)
LIE(a_table_past_the_ring, ring->table_entries = 1u << 30)
LIE(a_table_elsewhere, ring->table_offset = UINT64_MAX - 7)
LIE(a_table_between_words, ring->table_offset += 2)
LIE(meta_elsewhere, ring->meta_offset = ring->segment.bytes)
LIE(meta_that_overflows, ring->meta_offset = UINT64_MAX - 15)
LIE(meta_between_words, ring->meta_offset += 4)
LIE(memory_that_nobody_lent, ring->flags |= IBVCAP_RING_FLAG_LENT)
LIE(no_quota, state->lease_blocks = 0)
LIE(more_quota_than_slots, state->lease_blocks = IBVCAP_LEASE_SLOTS_MAX + 1)

Test(rx_open, the_truth_is_taken)
{
	cr_expect_eq(open_queue(EPOCH), 0, "%s", ibvcap_error_text());
}

Test(rx_open, another_epoch_than_the_answer_named)
{
	cr_expect_eq(open_queue(EPOCH + 1), -EPROTO);
}

static void replace(unsigned which, int fd)
{
	cr_assert_geq(fd, 0);
	close(fds[which]);
	fds[which] = fd;
}

Test(rx_open, a_segment_that_could_be_shrunk_later)
{
	struct shm open_ended = SHM_INIT;

	cr_assert_eq(shm_create(&open_ended, "test", a.ring.payload.bytes, 4096), 0);
	replace(PROTOCOL_FD_PAYLOAD, dup(open_ended.fd));
	expect_refused("not sealed");
	shm_deinit(&open_ended);
}

Test(rx_open, a_segment_too_small_for_what_it_should_be)
{
	struct shm small = SHM_INIT;

	cr_assert_eq(shm_create(&small, "test", 4096, 4096), 0);
	cr_assert_eq(shm_seal_size(&small), 0);
	replace(PROTOCOL_FD_HEADERS, dup(small.fd));
	expect_refused("headers of one page");
	shm_deinit(&small);
}

Test(rx_open, segments_in_another_order)
{
	int payload = fds[PROTOCOL_FD_PAYLOAD];

	fds[PROTOCOL_FD_PAYLOAD] = fds[PROTOCOL_FD_RING];
	fds[PROTOCOL_FD_RING] = payload;
	expect_refused("payload as ring");
}

Test(rx_open, descriptors_that_are_no_memory)
{
	for (unsigned i = 0; i < PROTOCOL_FD_WAKE_SOCKET; i++)
		replace(i, open("/dev/zero", O_RDONLY | O_CLOEXEC));
	expect_refused("/dev/zero");
}

Test(rx_open, a_pipe_that_would_block_is_made_not_to)
{
	struct ibvcap_rx_batch batch = IBVCAP_INIT(struct ibvcap_rx_batch);

	cr_assert_eq(fcntl(fds[PROTOCOL_FD_WAKE_SOCKET], F_GETFL) & O_NONBLOCK, 0);
	cr_assert_eq(open_queue(EPOCH), 0);
	ibvcap_rx_fd(a.rx);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 1, 1, 0), 0);
	cr_expect_eq(ibvcap_rx_acquire(a.rx, &batch, 1, 1, 0), 0);
}

/* Programs with real-time threads lock all that they map. EAGAIN would mean that the daemon has no place. */
Test(rx_open, a_segment_that_cannot_be_locked_is_a_lack_of_memory)
{
	const struct rlimit none = {.rlim_cur = 4096, .rlim_max = 4096};
	int r;

	cr_assert_eq(setrlimit(RLIMIT_MEMLOCK, &none), 0);
	if (geteuid() == 0)
		cr_assert_eq(setresuid(65534, 65534, 65534), 0);
	cr_assert_eq(mlockall(MCL_FUTURE), 0);
	if (mmap(NULL, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		cr_skip("mlockall() has no effect, as under a sanitizer");
	r = open_queue(EPOCH);
	munlockall();
	cr_expect_eq(r, -ENOMEM);
	cr_expect(strstr(ibvcap_error_text(), "RLIMIT_MEMLOCK") != NULL, "%s", ibvcap_error_text());
}
