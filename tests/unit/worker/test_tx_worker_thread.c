// SPDX-License-Identifier: Apache-2.0
/* The transmit worker as a thread: it sleeps, is kicked, keeps times, and ends. */
#include "lib/ibvcap/ring_tx.h"
#include "tests/unit/worker/tx_worker_bench.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static struct bench bench;

static void await_completed(uint32_t sender, uint64_t n)
{
	for (int i = 0; i < 20000 && sender_load_completed(bench.senders[sender].sender.state) < n; i++)
		usleep(500);
	cr_assert(eq(u64, sender_load_completed(bench.senders[sender].sender.state), n));
}

static void stop(void)
{
	struct mail mail = {0};

	mailbox_send(bench.worker->inbox, &(struct mail){.type = MAIL_STOP});
	for (int i = 0; i < 20000 && !mailbox_receive(bench.worker->outbox, &mail); i++)
		usleep(500);
	cr_assert(eq(int, mail.type, MAIL_STOPPED));
	worker_join(bench.worker);
}

/* Until it wants to be kicked: then it is asleep, or about to be. */
static void await_sleep(uint32_t sender)
{
	for (int i = 0; i < 20000 && !sender_load_need_kick(bench.senders[sender].sender.state); i++)
		usleep(500);
	cr_assert(sender_load_need_kick(bench.senders[sender].sender.state));
}

static void kick(uint32_t sender, uint64_t n)
{
	cr_assert(eq(int, eventfd_write(bench.senders[sender].sender.kick.eventfd, n), 0));
}

static uint64_t utc_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

Test(tx_worker_thread, each_idle_policy_sends_what_is_submitted_and_stops, .timeout = 60)
{
	const uint64_t policies[] = {0, 50000, WORKER_SPIN_FOREVER};

	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		bench_set_up(&bench, &(struct bench_setting){.spin_ns = policies[i], .n_senders = 2, .at_once = true});
		cr_assert(eq(int, worker_start(bench.worker), 0));
		for (uint32_t round = 1; round <= 20; round++) {
			bench_submit(&bench, round % 2, 10, 100);
			await_completed(round % 2, (round + round % 2) / 2 * 10);
		}
		stop();
		bench_expect_sums(&bench, 0);
		bench_tear_down(&bench);
	}
}

Test(tx_worker_thread, it_makes_a_round_when_it_is_asked, .timeout = 60)
{
	struct heartbeats list = LIST_HEAD_INITIALIZER(list);

	bench_set_up(&bench, &(struct bench_setting){.at_once = true});
	cr_assert(eq(int, worker_start(bench.worker), 0));
	heartbeat_watch(&list, &bench.worker->heartbeat, "it");
	for (int look = 0; look < 5; look++) {
		await_sleep(0);
		while (heartbeat_find_stopped(&list))
			usleep(100);
	}
	stop();
	cr_expect(eq(ptr, LIST_FIRST(&list), NULL));
	bench_tear_down(&bench);
}

Test(tx_worker_thread, one_that_sleeps_is_kicked_by_each_sender, .timeout = 60)
{
	bench_set_up(&bench, &(struct bench_setting){.n_senders = 3, .at_once = true});
	cr_assert(eq(int, worker_start(bench.worker), 0));
	for (uint32_t i = 0; i < 300; i++) {
		await_sleep(i % 3);
		bench_submit(&bench, i % 3, 1, 100);
		await_completed(i % 3, i / 3 + 1);
	}
	stop();
	bench_tear_down(&bench);
}

Test(tx_worker_thread, it_sleeps_when_nobody_sends_also_after_kicks, .timeout = 60)
{
	struct timespec before, after;
	clockid_t cpu_clock;

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	cr_assert(eq(int, worker_start(bench.worker), 0));
	await_sleep(1);
	kick(0, 1);
	usleep(20000);
	cr_assert(eq(int, clock_getcpuclockid(0, &cpu_clock), 0));
	clock_gettime(cpu_clock, &before);
	usleep(200000);
	clock_gettime(cpu_clock, &after);
	double used = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;

	cr_expect(lt(dbl, used, 0.05), "%f s of CPU in 0.2 s", used);
	bench_submit(&bench, 1, 1, 100);
	await_completed(1, 1);
	stop();
	bench_tear_down(&bench);
}

Test(tx_worker_thread, who_kicks_and_submits_nothing_is_counted, .timeout = 60)
{
	const struct ibvcap_sender_state *state;

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	state = bench.senders[0].sender.state;
	cr_assert(eq(int, worker_start(bench.worker), 0));
	await_sleep(0);
	for (int i = 0; i < 20000 && counter_get(&state->counters[IBVCAP_TX_COUNTER_IDLE_KICKS]) < 3; i++) {
		kick(0, 1);
		usleep(500);
	}
	stop();
	cr_expect(ge(u64, counter_get(&state->counters[IBVCAP_TX_COUNTER_IDLE_KICKS]), 3));
	cr_expect(eq(u64, counter_get(&bench.senders[1].sender.state->counters[IBVCAP_TX_COUNTER_IDLE_KICKS]), 0));
	cr_expect(ge(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_IDLE_KICKS), 3));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

/* Each kick after that of a packet is for nothing: the worker has read all there is. */
static uint32_t kick_until_put_out(uint32_t sender, struct mail *mail)
{
	uint32_t n = 0;

	for (int i = 0; i < 20000 && !mailbox_receive(bench.worker->outbox, mail); i++) {
		const _Atomic uint64_t *counters = bench.senders[sender].sender.state->counters;
		uint64_t before = counter_get(&counters[IBVCAP_TX_COUNTER_IDLE_KICKS]);

		kick(sender, 1);
		for (int k = 0; k < 100 && counter_get(&counters[IBVCAP_TX_COUNTER_IDLE_KICKS]) == before; k++)
			usleep(100);
		n++;
	}
	return n;
}

Test(tx_worker_thread, who_kicks_more_often_than_it_submits_is_put_out, .timeout = 60)
{
	struct mail mail = {0};

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	cr_assert(eq(int, worker_start(bench.worker), 0));
	for (uint32_t i = 0; i < 10; i++) /* the allowance does not grow with packets */
		bench_submit(&bench, 0, 20, 100);
	await_completed(0, 200);
	uint32_t n = kick_until_put_out(0, &mail);

	cr_expect(ge(u32, n, SENDER_KICK_CREDIT));
	cr_expect(le(u32, n, SENDER_KICK_CREDIT + 20), "a kick may come while the worker is awake");
	cr_assert(eq(int, mail.type, MAIL_SENDER_BAD));
	cr_expect(eq(ptr, mail.sender, &bench.senders[0].sender));
	cr_expect(eq(u32, mail.reason, IBVCAP_DISCONNECT_IDLE_KICKS));
	await_sleep(1);
	bench_submit(&bench, 1, 1, 100);
	await_completed(1, 1);
	stop();
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_BAD_SENDERS), 1));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

/* As often as a client may: with each packet, whether the worker asks for it or not. */
Test(tx_worker_thread, who_kicks_with_each_packet_stays, .timeout = 60)
{
	struct test_sender *sender = &bench.senders[0];

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	cr_assert(eq(int, worker_start(bench.worker), 0));
	for (uint64_t i = 1; i <= 20000; i++) {
		while (!test_sender_has_room(sender))
			;
		test_sender_write(sender, (struct ibvcap_tx_descriptor){.length = 8});
		sender_store_submitted(sender->sender.page, sender->submitted);
		kick(0, 1);
		if (i % 3 == 0)
			await_completed(0, i);
	}
	await_completed(0, 20000);
	stop();
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_BAD_SENDERS), 0));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

/* A client may read and fill the counter of its eventfd: neither hides a kick or stops the worker. */
Test(tx_worker_thread, who_reads_or_fills_its_eventfd_harms_itself_alone, .timeout = 60)
{
	struct mail mail = {0};
	eventfd_t value = 0;

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 3, .at_once = true});
	cr_assert(eq(int, worker_start(bench.worker), 0));
	await_sleep(0);
	cr_assert(eq(int, eventfd_read(bench.senders[0].sender.kick.eventfd, &value), 0));
	cr_expect(eq(u64, value, 1));
	for (int i = 0; i < 20000 && !mailbox_receive(bench.worker->outbox, &mail); i++) {
		kick(0, 1);
		eventfd_read(bench.senders[0].sender.kick.eventfd, &value);
		usleep(500);
	}
	cr_expect(eq(int, mail.type, MAIL_SENDER_BAD));
	cr_expect(eq(ptr, mail.sender, &bench.senders[0].sender));
	kick(1, UINT64_MAX - 1 - (UINT64_C(1) << 63));
	cr_expect(lt(int, eventfd_write(bench.senders[1].sender.kick.eventfd, 1), 0), "it is full");
	for (uint64_t i = 1; i <= 100; i++) {
		await_sleep(2);
		bench_submit(&bench, 2, 1, 100);
		await_completed(2, i);
	}
	bench_submit(&bench, 1, 1, 100);
	bench_submit(&bench, 2, 1, 100);
	await_completed(1, 1); /* as the worker is awake for another one */
	stop();
	bench_tear_down(&bench);
}

/* Never early; how late is a matter of the machine, and measured elsewhere. */
Test(tx_worker_thread, a_timed_packet_leaves_when_its_time_has_come_and_nobody_kicks, .timeout = 60)
{
	struct test_sender *sender = &bench.senders[0];

	bench_set_up(&bench, &(struct bench_setting){.at_once = true});
	cr_assert(eq(int, worker_start(bench.worker), 0));
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t due_ns = utc_ns() + 3000000;

		test_sender_write(sender, (struct ibvcap_tx_descriptor){.length = 100, .not_before_ns = due_ns});
		test_sender_submit(sender);
		while (sender_load_completed(sender->sender.state) == i) {
			if (utc_ns() < due_ns)
				usleep(100);
		}
		cr_expect(ge(u64, utc_ns(), due_ns));
	}
	stop();
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_TIMED), 20));
	bench_tear_down(&bench);
}

Test(tx_worker_thread, the_doorbell_rings_once_for_a_request_that_has_come, .timeout = 60)
{
	struct test_sender *sender = &bench.senders[0];

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	struct pollfd bell = {.fd = tx_worker_doorbell(bench.worker), .events = POLLIN};

	cr_assert(eq(int, worker_start(bench.worker), 0));
	client_request_wake(&sender->sender.page->wake, 5, false);
	bench_submit(&bench, 0, 4, 100);
	await_completed(0, 4);
	bench_submit(&bench, 1, 4, 100);
	await_completed(1, 4);
	cr_expect(eq(int, poll(&bell, 1, 50), 0), "not yet");
	bench_submit(&bench, 0, 1, 100);
	cr_expect(eq(int, poll(&bell, 1, 10000), 1));
	bench_submit(&bench, 0, 1, 100);
	await_completed(0, 6);
	stop();
	cr_expect(eq(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_WAKES), 1));
	bench_tear_down(&bench);
}
