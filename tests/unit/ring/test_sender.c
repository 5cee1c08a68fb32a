// SPDX-License-Identifier: Apache-2.0
/* A sender's memory: what it can do to it, and what the daemon makes of what it writes there. */
#include "daemon/ring/rx_ring.h"
#include "daemon/ring/sender.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 64u
#define BYTES 100u

static const struct sender_options options = {
	.channel = "test", .epoch = 7, .n_slots = SLOTS, .slot_bytes = BYTES, .n_destinations = 2, .page_bytes = 4096};

static void set_up(struct sender *sender)
{
	struct failure failure;

	cr_assert(eq(int, sender_init(sender, &options, &failure), 0), "%s", failure.text);
}

static struct ibvcap_tx_descriptor *descriptor(const struct sender *sender, uint64_t k)
{
	return (struct ibvcap_tx_descriptor *)(void *)(sender->page + 1) + k % SLOTS;
}

static void publish(struct sender *sender)
{
	static _Atomic uint64_t channel[IBVCAP_TX_COUNTER_N];

	sender_publish(sender, channel);
}

/* ---- segments ------------------------------------------------------------------------------------ */

Test(sender, its_state_says_what_it_has_and_cannot_be_written)
{
	struct sender sender;
	int fd;

	set_up(&sender);
	cr_expect(eq(u64, sender.state->segment.magic, IBVCAP_SENDER_STATE_MAGIC));
	cr_expect(segment_is_ready(&sender.state->segment));
	cr_expect(eq(u64, sender.state->segment.epoch, 7));
	cr_expect(eq(u32, sender.state->n_slots, SLOTS));
	cr_expect(eq(u32, sender.state->slot_bytes, BYTES));
	cr_expect(eq(u32, sender.state->n_destinations, 2));
	cr_expect(eq(u64, sender.state->arena_segment_bytes, 8192), "64 rows of 100 bytes in whole pages");
	fd = shm_reopen_readonly(&sender.state_shm);
	cr_assert(ge(int, fd, 0));
	cr_expect(eq(ptr, mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED));
	close(fd);
	sender_deinit(&sender);
}

Test(sender, geometries_that_no_arena_has_are_refused)
{
	static const struct {
		uint32_t n_slots, slot_bytes;
	} bad[] = {{63, 100}, {96, 100}, {32, 100}, {0, 100}, {IBVCAP_TX_SLOTS_MAX * 2, 100}, {64, 0}, {64, 65536}};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sender_options wrong = options;
		struct sender sender;
		struct failure failure;

		wrong.n_slots = bad[i].n_slots;
		wrong.slot_bytes = bad[i].slot_bytes;
		cr_expect(eq(int, sender_init(&sender, &wrong, &failure), -EINVAL));
		cr_expect(strstr(failure.text, "arena_slots is a power of two") != NULL, "%s", failure.text);
	}
}

/* What a client does with the descriptor that it is sent. */
static uint8_t *client_map(const struct shm *shm)
{
	uint8_t *mapped = mmap(NULL, shm->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, 0);

	cr_assert(ne(ptr, mapped, MAP_FAILED));
	return mapped;
}

static void expect_no_hole_can_be_made(const struct shm *shm, uint8_t *mapped)
{
	cr_expect(lt(int, madvise(mapped, shm->bytes, MADV_REMOVE), 0), "a hole through the mapping");
	cr_expect(lt(int, fallocate(shm->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)shm->bytes), 0));
	cr_expect(lt(int, ftruncate(shm->fd, 0), 0));
	cr_expect(lt(int, fcntl(shm->fd, F_ADD_SEALS, F_SEAL_WRITE), 0));
	cr_expect(eq(ptr, mmap(NULL, shm->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, shm->fd, 0), MAP_FAILED));
}

Test(sender, once_sealed_its_mapping_writes_on_and_no_hole_can_be_made)
{
	struct sender sender;
	uint8_t *arena, *page;

	set_up(&sender);
	arena = client_map(&sender.arena);
	page = client_map(&sender.page_shm);
	cr_assert(eq(int, madvise(arena, sender.arena.bytes, MADV_REMOVE), 0), "before the seal there is none");
	cr_assert(eq(int, sender_seal(&sender), 0));
	expect_no_hole_can_be_made(&sender.arena, arena);
	expect_no_hole_can_be_made(&sender.page_shm, page);
	arena[4096] = 42;
	cr_expect(eq(int, ((uint8_t *)sender.arena.address)[4096], 42));
	sender_store_submitted((struct ibvcap_sender_page *)(void *)page, 3);
	cr_expect(sender_read_submitted(&sender));
	cr_expect(eq(u64, sender.submitted, 3));
	munmap(arena, sender.arena.bytes);
	munmap(page, sender.page_shm.bytes);
	sender_deinit(&sender);
}

Test(sender, one_that_has_sealed_the_seals_is_refused)
{
	struct sender sender;

	set_up(&sender);
	cr_assert(eq(int, fcntl(sender.arena.fd, F_ADD_SEALS, F_SEAL_SEAL), 0));
	cr_expect(eq(int, sender_seal(&sender), -EPERM));
	sender_deinit(&sender);
}

/* ---- cursors -------------------------------------------------------------------------------------- */

Test(sender, a_cursor_that_goes_back_or_past_its_room_is_bad_and_is_not_used)
{
	static const uint64_t lies[] = {4, 0, 5 + SLOTS + 1, UINT64_MAX, UINT64_C(1) << 63};

	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct sender sender;

		set_up(&sender);
		sender_store_submitted(sender.page, 5);
		cr_assert(sender_read_submitted(&sender));
		for (int k = 0; k < 5; k++) {
			cr_assert(ne(ptr, (void *)sender_peek(&sender), NULL));
			sender_take(&sender);
			sender_complete(&sender, 0, 1, 64);
		}
		publish(&sender);
		sender_store_submitted(sender.page, lies[i]);
		cr_expect(not(sender_read_submitted(&sender)));
		cr_expect(eq(u32, (uint32_t)sender.bad, IBVCAP_DISCONNECT_BAD_CURSOR));
		cr_expect(eq(u64, sender.submitted, 5));
		sender_deinit(&sender);
	}
}

Test(sender, all_its_room_may_be_used_but_only_what_it_was_told_is_free)
{
	struct sender sender;

	set_up(&sender);
	sender_store_submitted(sender.page, SLOTS);
	cr_assert(sender_read_submitted(&sender));
	cr_assert(ne(ptr, (void *)sender_peek(&sender), NULL));
	sender_take(&sender);
	sender_complete(&sender, 0, 1, 64);
	sender_store_submitted(sender.page, SLOTS + 1);
	cr_expect(not(sender_read_submitted(&sender)), "completed, but not published: it cannot know");
	publish(&sender);
	cr_expect(sender_read_submitted(&sender));
	sender_deinit(&sender);
}

Test(sender, cursors_go_over_the_end_of_their_type)
{
	struct sender sender;

	set_up(&sender);
	sender.submitted = sender.taken = sender.completed = sender.published = UINT64_MAX - 1;
	sender_store_submitted(sender.page, 2);
	cr_assert(sender_read_submitted(&sender));
	for (int k = 0; k < 4; k++) {
		cr_assert(ne(ptr, (void *)sender_peek(&sender), NULL));
		sender_take(&sender);
		sender_complete(&sender, 0, 0, 64);
	}
	cr_expect(eq(ptr, (void *)sender_peek(&sender), NULL));
	sender_deinit(&sender);
}

Test(sender, a_descriptor_is_read_once)
{
	struct sender sender;

	set_up(&sender);
	*descriptor(&sender, 0) = (struct ibvcap_tx_descriptor){.length = 10, .destination = 1};
	sender_store_submitted(sender.page, 1);
	cr_assert(sender_read_submitted(&sender));
	cr_assert(eq(u16, sender_peek(&sender)->length, 10));
	*descriptor(&sender, 0) = (struct ibvcap_tx_descriptor){.length = 65535, .destination = 65535};
	cr_expect(eq(u16, sender_peek(&sender)->length, 10));
	cr_expect(eq(u16, sender_peek(&sender)->destination, 1));
	sender_deinit(&sender);
}

Test(sender, a_row_is_where_the_packets_number_says)
{
	struct sender sender;

	set_up(&sender);
	for (uint64_t k = 0; k < 3 * SLOTS; k++) {
		sender_store_submitted(sender.page, k + 1);
		cr_assert(sender_read_submitted(&sender));
		cr_assert(ne(ptr, (void *)sender_peek(&sender), NULL));
		cr_expect(eq(ptr, (void *)sender_take(&sender), (uint8_t *)sender.arena.address + k % SLOTS * BYTES));
		sender_complete(&sender, 0, 0, 64);
		publish(&sender);
	}
	sender_deinit(&sender);
}

/* ---- what becomes of packets ---------------------------------------------------------------------- */

Test(sender, each_status_counts_once_and_the_sum_is_exact)
{
	static const int32_t statuses[] = {0, -EMSGSIZE, 0, -ETIME, -ECANCELED, -EIO};
	enum { N = sizeof(statuses) / sizeof(statuses[0]) };
	struct sender sender;

	set_up(&sender);
	sender_store_submitted(sender.page, N + 3);
	cr_assert(sender_read_submitted(&sender));
	for (int k = 0; k < N; k++) {
		cr_assert(ne(ptr, (void *)sender_peek(&sender), NULL));
		sender_take(&sender);
		sender_complete(&sender, statuses[k], 10, 64);
	}
	cr_expect(eq(u64, sender_load_completed(sender.state), 0), "not published yet");
	cr_expect(not(sender_flush(&sender, 2)));
	cr_expect(sender_flush(&sender, 2));
	publish(&sender);
	cr_expect(eq(u64, sender_load_completed(sender.state), N + 3));
	for (int k = 0; k < N + 3; k++)
		cr_expect(eq(i32, sender.statuses[k], k < N ? statuses[k] : -ECANCELED));
	const _Atomic uint64_t *counters = sender.state->counters;

	cr_expect(eq(u64, counter_get(&counters[IBVCAP_TX_COUNTER_SUBMITTED]), N + 3));
	cr_expect(eq(u64, counter_get(&counters[IBVCAP_TX_COUNTER_COMPLETED]), 2));
	cr_expect(eq(u64, counter_get(&counters[IBVCAP_TX_COUNTER_COMPLETED_BYTES]), 20));
	cr_expect(eq(u64, counter_get(&counters[IBVCAP_TX_COUNTER_WIRE_BYTES]), 128));
	cr_expect(eq(u64, counter_get(&counters[IBVCAP_TX_COUNTER_ERRORED]), 2));
	cr_expect(eq(u64, counter_get(&counters[IBVCAP_TX_COUNTER_LATE_DROPPED]), 1));
	cr_expect(eq(u64, counter_get(&counters[IBVCAP_TX_COUNTER_FLUSHED]), 4));
	sender_deinit(&sender);
}

Test(sender, a_kick_without_anything_new_is_counted)
{
	const _Atomic uint64_t *count;
	struct sender sender;

	set_up(&sender);
	count = &sender.state->counters[IBVCAP_TX_COUNTER_IDLE_KICKS];
	sender_count_kick(&sender); /* the event of the watch itself */
	sender_store_submitted(sender.page, 1);
	sender_count_kick(&sender);
	cr_assert(sender_read_submitted(&sender));
	publish(&sender);
	cr_expect(eq(u64, counter_get(count), 0));
	sender_count_kick(&sender);
	publish(&sender);
	cr_expect(eq(u64, counter_get(count), 1));
	sender_deinit(&sender);
}

Test(sender, a_kick_for_each_packet_is_allowed_before_and_after_it_is_read)
{
	struct sender sender;

	set_up(&sender);
	sender_count_kick(&sender);
	for (uint64_t i = 1; i <= 1000; i++) {
		sender_store_submitted(sender.page, i);
		if (i % 2)
			sender_count_kick(&sender);
		cr_assert(sender_read_submitted(&sender));
		if (i % 2 == 0)
			sender_count_kick(&sender);
		cr_expect(gt(u32, sender.kick_credit, SENDER_KICK_CREDIT - 3));
		sender_peek(&sender);
		sender_take(&sender);
		sender_complete(&sender, 0, 1, 1);
		publish(&sender);
	}
	sender_deinit(&sender);
}

Test(sender, more_kicks_than_packets_are_bad)
{
	struct sender sender;

	set_up(&sender);
	sender_count_kick(&sender);
	for (int i = 0; i < SENDER_KICK_CREDIT; i++)
		sender_count_kick(&sender);
	sender_store_submitted(sender.page, 3); /* each packet allows one more */
	cr_expect(sender_read_submitted(&sender));
	for (int i = 0; i < 3; i++)
		sender_count_kick(&sender);
	cr_expect(eq(u32, (uint32_t)sender.bad, IBVCAP_DISCONNECT_NONE));
	sender_count_kick(&sender);
	cr_expect(eq(u32, (uint32_t)sender.bad, IBVCAP_DISCONNECT_IDLE_KICKS));
	sender_deinit(&sender);
}

Test(sender, a_request_is_due_once_what_it_asked_for_has_come)
{
	struct sender sender;

	set_up(&sender);
	cr_expect(not(sender_wants_wake(&sender)));
	sender_store_submitted(sender.page, 2);
	cr_assert(sender_read_submitted(&sender));
	client_request_wake(&sender.page->wake, 2, false);
	for (int k = 0; k < 2; k++) {
		cr_expect(not(sender_wants_wake(&sender)));
		cr_expect(eq(u64, sender_due_request(sender.state, &sender.page->wake), 0));
		cr_assert(ne(ptr, (void *)sender_peek(&sender), NULL));
		sender_take(&sender);
		sender_complete(&sender, 0, 0, 64);
		publish(&sender);
	}
	uint32_t word = client_load_wake_word(&sender.state->link);

	cr_expect(sender_wants_wake(&sender));
	cr_expect(not(sender_wants_wake(&sender)), "told already");
	cr_expect(eq(u64, sender_due_request(sender.state, &sender.page->wake), 2));
	client_wake(&sender.state->link, &sender.page->wake, -1);
	cr_expect(eq(u32, client_load_wake_word(&sender.state->link), word + 1));
	sender_deinit(&sender);
}
