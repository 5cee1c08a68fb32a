// SPDX-License-Identifier: Apache-2.0
/*
 * Random histories of a daemon and its readers, and what the library says of each interval between two moments. No
 * interval in which a packet is missing may be called complete, none without a loss incomplete, and the bounds must
 * hold. IBVCAP_HISTORIES: how many; IBVCAP_HISTORY_SEED: of the first one.
 */
#include "tests/unit/ibvcap/history.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HISTORIES_DEFAULT 3000
#define SECOND_NS         UINT64_C(1000000000)

static char directory[] = "/tmp/ibvcap-histories-XXXXXX";
static char path[64];
static int listener;
static struct history history;
static unsigned seed;
static bool is_calm; /* no faults, and a worker that keeps up */
static struct sum {
	uint64_t intervals, complete, incomplete, not_proven, truly_complete, counts_all;
} sums[2]; /* of the others, of calm ones */

/* ---- judging --------------------------------------------------------------------------------------- */

/* Is the loss before (-1) or behind (1) the boundary? */
static int side_of(const struct history_loss *loss, const struct history_moment *moment)
{
	uint32_t epoch = moment->epoch[loss->queue];
	uint64_t sequence = moment->sequence[loss->queue];

	if (loss->epoch != epoch)
		return loss->epoch < epoch ? -1 : 1;
	if (loss->sequence != sequence)
		return loss->sequence < sequence ? -1 : 1;
	return loss->place == PLACE_READER || loss->at_ns >= moment->at_ns ? 1 : -1;
}

static bool is_inside(const struct history_loss *loss, const struct history_moment *from,
                      const struct history_moment *until)
{
	return side_of(loss, from) > 0 && side_of(loss, until) < 0;
}

static void count_missing(const struct history_moment *from, const struct history_moment *until, uint64_t n[N_PLACES])
{
	for (uint32_t i = 0; i < history.n_losses; i++)
		n[history.losses[i].place] += is_inside(&history.losses[i], from, until);
}

static void judge(uint32_t first, uint32_t last)
{
	const struct history_moment *from = &history.moments[first], *until = &history.moments[last];
	struct ibvcap_rx_account account = IBVCAP_INIT(struct ibvcap_rx_account);
	struct ibvcap_rx_moment of_stream[2] = {{.size = sizeof(of_stream[0])}, {.size = sizeof(of_stream[1])}};
	uint64_t missing[N_PLACES] = {0}, n;
	struct sum *sum = &sums[is_calm];
	enum ibvcap_verdict verdict;

	for (uint32_t i = 0; i < history.n_queues; i++) {
		cr_assert_eq(ibvcap_moment_add_queue(&of_stream[0], &from->moments[i]), 0);
		cr_assert_eq(ibvcap_moment_add_queue(&of_stream[1], &until->moments[i]), 0);
	}
	cr_assert_eq(ibvcap_rx_account_between(&of_stream[0], &of_stream[1], &account), 0);
	verdict = ibvcap_account_verdict(&account);
	count_missing(from, until, missing);
	n = missing[PLACE_WIRE] + missing[PLACE_INTERFACE] + missing[PLACE_DEVICE] + missing[PLACE_READER];
	if (verdict == IBVCAP_VERDICT_COMPLETE)
		sum->counts_all += account.interface_counts_all;
	cr_assert(!account.interface_counts_all || account.restarts || account.unknown || !missing[PLACE_PROGRAM],
	          "seed %u, moments %u to %u: the interface counts all, but a program dropped %lu", seed, first, last,
	          missing[PLACE_PROGRAM]);
	sum->intervals++;
	sum->truly_complete += n == 0;
	sum->complete += verdict == IBVCAP_VERDICT_COMPLETE;
	sum->incomplete += verdict == IBVCAP_VERDICT_INCOMPLETE;
	sum->not_proven += verdict == IBVCAP_VERDICT_NOT_PROVEN;
	cr_assert(verdict != IBVCAP_VERDICT_COMPLETE || n == 0,
	          "seed %u, moments %u to %u: complete, but lost on the wire %lu, by the interface %lu, by the device "
	          "%lu, "
	          "by the reader %lu",
	          seed, first, last, missing[PLACE_WIRE], missing[PLACE_INTERFACE], missing[PLACE_DEVICE],
	          missing[PLACE_READER]);
	if (!account.restarts && account.unknown == IBVCAP_UNKNOWN_INTERFACE)
		cr_assert_gt(account.interface_lost, 0);
	cr_assert(verdict != IBVCAP_VERDICT_INCOMPLETE || n > 0,
	          "seed %u, moments %u to %u: incomplete, no_buffer at least %lu, skipped %lu", seed, first, last,
	          account.no_buffer_least, account.skipped);
	cr_assert_eq(account.restarts ? 0 : account.skipped, account.restarts ? 0 : missing[PLACE_READER]);
	if (!account.restarts && !(account.unknown & (IBVCAP_UNKNOWN_FAILED | IBVCAP_UNKNOWN_AWAY)))
		cr_assert(missing[PLACE_DEVICE] <= account.no_buffer_most &&
		                  missing[PLACE_DEVICE] >= account.no_buffer_least,
		          "seed %u, moments %u to %u: %lu lost, not %lu to %lu", seed, first, last,
		          missing[PLACE_DEVICE], account.no_buffer_least, account.no_buffer_most);
}

/* ---- a history ------------------------------------------------------------------------------------- */

static uint32_t up_to(uint32_t n)
{
	return (uint32_t)random() % (n + 1);
}

static void pass(uint64_t ns)
{
	history_now_ns += 1 + up_to((uint32_t)ns);
}

/* The worker runs now and then, and polls as often as it wants. */
static void work_all(uint32_t rounds)
{
	for (uint32_t i = 0; i < history.n_queues; i++)
		history_work(&history, i, up_to(rounds));
}

static void arrive(void)
{
	if (is_calm) {
		history_arrive(&history, up_to(30), up_to(3) ? 0 : up_to(DEVICE_LATE_NS));
		pass(2 * DEVICE_LATE_NS);
		work_all(10);
		return;
	}
	/* Packets whose completions are late are few, for a queue that holds so many is not at its end. */
	if (up_to(3)) {
		history_arrive(&history, up_to(30), up_to(3) ? 0 : up_to(DEVICE_LATE_NS));
	} else {
		history_now_ns += DEVICE_LATE_NS;
		history_arrive(&history, up_to(500), 0);
	}
}

static void read_all(uint32_t max)
{
	for (uint32_t i = 0; i < history.n_queues; i++)
		if (up_to(3))
			history_acquire(&history, i, 1 + up_to(max));
}

static void settle(uint64_t ns)
{
	pass(ns);
	history_read_interface(&history);
	history_read_counters(&history);
	pass(1000000);
	history_mail_reading(&history);
	for (uint32_t round = 0; round < 4; round++) {
		pass(3000000);
		work_all(20);
	}
	history_settle_moments(&history);
}

/* Time without packets in which all is settled. The long one leaves the interface's losses behind. */
static void rest(void)
{
	uint64_t ns = up_to(3) ? 50000000 : 2200000000;

	history_let_in(&history);
	for (uint32_t i = 0; i < 4; i++)
		settle(ns);
}

/* The interface drops packets behind others that wait in it. All is read, and a file may begin, before these come. */
static void drop_before_the_flow_rules(void)
{
	bool has_program = up_to(5) == 0, stays = up_to(5) == 0;

	history.programs += has_program;
	history_hold(&history, up_to(40), up_to(3) ? 0 : 1 + up_to(5));
	history.programs += has_program && !stays;
	if (up_to(1))
		return;
	settle(20000000);
	history_take_moment(&history, 0);
	if (up_to(1))
		return;
	history_let_in(&history);
	work_all(40);
	history_take_moment(&history, 0);
}

static void step(uint32_t faults)
{
	uint32_t what = up_to(99);

	pass(up_to(3) ? 20000 : 2000000);
	if (history.n_waiting && (up_to(9) == 0 || history_now_ns - history.waiting[0].at_ns > SECOND_NS / 2))
		history_let_in(&history);
	if (up_to(9) == 0)
		history_read_interface(&history);
	if (faults & 8 && up_to(29) == 0)
		drop_before_the_flow_rules();
	if (what < 35)
		arrive();
	else if (what < 55)
		work_all(what % 2 ? 3 : 40);
	else if (what < 70)
		read_all(what % 2 ? 20 : 4096);
	else if (what < 78)
		history_read_counters(&history);
	else if (what < 88)
		history_mail_reading(&history);
	else if (what < 92)
		history_take_moment(&history, up_to(1) ? 0 : up_to(40));
	else if (what < 96)
		history_settle_moments(&history);
	else if (what < 98)
		rest();
	else if (faults & 1 && up_to(1))
		history_fail_queue(&history, up_to(history.n_queues - 1), up_to(7) == 0);
	else if (faults & 2 && up_to(1))
		history_set_outage(&history, !history.is_outage);
	else if (faults & 4 && up_to(1) && !history.is_away) {
		history_let_in(&history);
		up_to(1) ? history_kill(&history) : history_stop(&history);
	}
	if (history.is_away && up_to(9) == 0)
		history_begin(&history);
}

static void run_history(void)
{
	uint32_t n_steps, faults;

	srandom(seed);
	is_calm = up_to(2) == 0;
	n_steps = 20 + up_to(300);
	faults = is_calm || up_to(1) ? 0 : up_to(7) | (up_to(3) ? 0 : 8);
	history_now_ns = 1000 * SECOND_NS;
	history_init(&history, 1 + up_to(HISTORY_QUEUES_MAX - 1), up_to(1), path, listener);
	history_take_moment(&history, 0);
	for (uint32_t i = 0; i < n_steps; i++)
		step(faults);
	if (up_to(3))
		rest();
	for (uint32_t i = 0; i < 40; i++)
		read_all(4096);
	history_take_moment(&history, 0);
	if (up_to(3))
		rest();
	for (uint32_t i = 0; i + 1 < history.n_moments; i++)
		judge(i, i + 1);
	judge(0, history.n_moments - 1);
	history_deinit(&history);
}

/* ---- the tests ------------------------------------------------------------------------------------- */

static unsigned number_of(const char *name, unsigned otherwise)
{
	const char *value = getenv(name);

	return value ? (unsigned)strtoul(value, NULL, 10) : otherwise;
}

static void listen_for_readers(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	cr_assert(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/s", directory);
	strcpy(address.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 64), 0);
}

Test(histories, no_interval_that_lacks_a_packet_is_called_complete, .timeout = 0)
{
	unsigned n = number_of("IBVCAP_HISTORIES", HISTORIES_DEFAULT), first = number_of("IBVCAP_HISTORY_SEED", 1);

	listen_for_readers();
	for (unsigned i = 0; i < n; i++) {
		seed = first + i;
		run_history();
	}
	close(listener);
	unlink(path);
	rmdir(directory);
	for (unsigned i = 0; i < 2; i++)
		printf("%s histories: %lu intervals: %lu complete (%lu also before the flow rules), of %lu without a "
		       "loss; %lu incomplete, %lu not proven\n",
		       i ? "calm" : "wild", sums[i].intervals, sums[i].complete, sums[i].counts_all,
		       sums[i].truly_complete, sums[i].incomplete, sums[i].not_proven);
	/* A verdict that is never given is none. */
	cr_expect_gt(sums[1].complete, sums[1].truly_complete * 3 / 4);
	cr_expect_gt(sums[0].complete, sums[0].truly_complete / 20);
	cr_expect_gt(sums[0].counts_all, sums[0].complete / 5);
	cr_expect_gt(sums[0].incomplete, sums[0].intervals / 5);
	cr_expect_gt(sums[0].not_proven, sums[0].intervals / 5);
}
