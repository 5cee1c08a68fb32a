// SPDX-License-Identifier: Apache-2.0
/* The transmit worker as a thread: it sleeps, is kicked, keeps times, and ends. */
#include "lib/ibvcap/ring_tx.h"
#include "tests/unit/worker/tx_worker_bench.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
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

	mailbox_send(tx_worker_inbox(bench.worker), &(struct mail){.type = MAIL_STOP});
	for (int i = 0; i < 20000 && !mailbox_receive(tx_worker_outbox(bench.worker), &mail); i++)
		usleep(500);
	cr_assert(eq(int, mail.type, MAIL_STOPPED));
	tx_worker_join(bench.worker);
}

/* Until it wants to be kicked: then it is asleep, or about to be. */
static void await_sleep(uint32_t sender)
{
	for (int i = 0; i < 20000 && !sender_load_need_kick(bench.senders[sender].sender.state); i++)
		usleep(500);
	cr_assert(sender_load_need_kick(bench.senders[sender].sender.state));
}

static uint64_t utc_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

Test(tx_worker_thread, each_idle_policy_sends_what_is_submitted_and_stops, .timeout = 60)
{
	const uint64_t policies[] = {0, 50000, TX_WORKER_SPIN_FOREVER};

	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		bench_set_up(&bench, &(struct bench_setting){.spin_ns = policies[i], .n_senders = 2, .at_once = true});
		cr_assert(eq(int, tx_worker_start(bench.worker), 0));
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
	cr_assert(eq(int, tx_worker_start(bench.worker), 0));
	heartbeat_watch(&list, tx_worker_heartbeat(bench.worker), "it");
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
	cr_assert(eq(int, tx_worker_start(bench.worker), 0));
	for (uint32_t i = 0; i < 300; i++) {
		await_sleep(i % 3);
		bench_submit(&bench, i % 3, 1, 100);
		await_completed(i % 3, i / 3 + 1);
	}
	stop();
	bench_tear_down(&bench);
}

Test(tx_worker_thread, it_sleeps_when_nobody_sends_also_if_a_socket_is_shut, .timeout = 60)
{
	struct timespec before, after;
	clockid_t cpu_clock;

	bench_set_up(&bench, &(struct bench_setting){.n_senders = 2, .at_once = true});
	cr_assert(eq(int, tx_worker_start(bench.worker), 0));
	close(bench.senders[0].socket);
	bench.senders[0].socket = -1;
	await_sleep(1);
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
	cr_assert(eq(int, tx_worker_start(bench.worker), 0));
	await_sleep(0);
	for (int i = 0; i < 20000 && counter_get(&state->counters[IBVCAP_TX_COUNTER_IDLE_KICKS]) < 3; i++) {
		(void)send(bench.senders[0].socket, "kk", 2, MSG_DONTWAIT); /* full: its worker has no core */
		usleep(500);
	}
	stop();
	cr_expect(ge(u64, counter_get(&state->counters[IBVCAP_TX_COUNTER_IDLE_KICKS]), 3));
	cr_expect(eq(u64, counter_get(&bench.senders[1].sender.state->counters[IBVCAP_TX_COUNTER_IDLE_KICKS]), 0));
	cr_expect(ge(u64, bench_count(&bench, 0, IBVCAP_TX_COUNTER_IDLE_KICKS), 3));
	bench_expect_sums(&bench, 0);
	bench_tear_down(&bench);
}

/* Never early; how late is a matter of the machine, and measured elsewhere. */
Test(tx_worker_thread, a_timed_packet_leaves_when_its_time_has_come_and_nobody_kicks, .timeout = 60)
{
	struct test_sender *sender = &bench.senders[0];

	bench_set_up(&bench, &(struct bench_setting){.at_once = true});
	cr_assert(eq(int, tx_worker_start(bench.worker), 0));
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

	cr_assert(eq(int, tx_worker_start(bench.worker), 0));
	sender_request_wake(sender->sender.page, 5, false);
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
