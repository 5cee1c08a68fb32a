// SPDX-License-Identifier: Apache-2.0
/* What a transmit worker is to be told reaches it, however much that is. The worker takes turns with the event loop. */
#include "daemon/channel/channel.h"
#include "daemon/events.h"
#include "daemon/port/interface_tx.h"
#include "daemon/state/service.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/senders.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#define DESTINATIONS 256u /* more than a mailbox takes */
#define TURNS        100  /* of 10 ms at most */

static struct daemon state;
static struct interface_tx tx = {.daemon = &state};
static struct config_channel config = {.name = "out", .n_destinations = DESTINATIONS};
static struct channel_destination destinations[DESTINATIONS];
static struct interface interface = {.link_up = true};
static struct channel channel = {.interface = &interface, .config = &config, .tx = &tx, .destinations = destinations};
static struct backend *backend;

static void refresh(struct daemon *daemon, struct service *service)
{
	(void)daemon;
	channel_mail(channel_of(service));
}

static const struct service_ops ops = {.kind = SERVICE_CHANNEL, .refresh = refresh};

static void block_signals(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
}

static void set_up(void)
{
	struct tx_queue_options options = {
		.name = "out", .queue_slots = 64, .slot_bytes = 100, .n_destinations = DESTINATIONS};
	const struct worker_options worker = {.name = "test", .cpu = -1};

	block_signals();
	TAILQ_INIT(&state.services);
	TAILQ_INIT(&state.interfaces);
	cr_assert(eq(int, scripted_backend_ops.open(NULL, &backend, NULL), 0));
	options.backend = backend;
	cr_assert(eq(int, tx_queue_new(&channel.queue, &options, NULL), 0));
	cr_assert(eq(int, tx_worker_new(&tx.worker, &worker), 0));
	cr_assert(ge(int, sd_event_new(&state.event), 0));
	cr_assert(eq(int, events_add(&state, NULL), 0));
	while (sd_event_source_get_enabled(state.mailer, NULL) > 0) /* the look for what was left at start */
		cr_assert(ge(int, sd_event_run(state.event, 10000), 0));
	channel.service.ops = &ops;
	TAILQ_INSERT_TAIL(&state.services, &channel.service, link);
}

static void tear_down(void)
{
	events_drop(&state);
	sd_event_unref(state.event);
	tx_worker_free(tx.worker);
	tx_queue_free(channel.queue);
	scripted_backend_ops.close(backend);
}

TestSuite(channel, .init = set_up, .fini = tear_down, .timeout = 30);

static void turn(void)
{
	tx_worker_do_work(tx.worker, &(struct tx_clock_sample){.monotonic_ns = 1, .utc_ns = 1});
	cr_assert(ge(int, sd_event_run(state.event, 10000), 0));
}

static uint32_t count_known(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < DESTINATIONS; i++)
		n += channel.queue->destinations[i].error == 0;
	return n;
}

static void set_all_destinations(void)
{
	for (uint32_t i = 0; i < DESTINATIONS; i++) {
		struct tx_queue_destination found = test_destination(i, PACKET_CHECKSUMS_DEVICE);

		channel_set_destination(&channel, i, &found);
	}
}

Test(channel, all_destinations_become_known_soon)
{
	channel_lend(&channel);
	set_all_destinations();
	cr_assert(mailbox_full(tx.worker->inbox));
	for (int i = 0; i < TURNS && count_known() < DESTINATIONS; i++)
		turn();
	cr_expect(eq(u32, count_known(), DESTINATIONS));
}

Test(channel, a_removal_is_told_though_the_mailbox_was_full)
{
	struct mail mail = {0};

	channel_lend(&channel);
	set_all_destinations();
	channel_take_back(&channel);
	for (int i = 0; i < TURNS && mail.type != MAIL_TX_QUEUE_REMOVED; i++) {
		turn();
		while (mail.type != MAIL_TX_QUEUE_REMOVED && mailbox_receive(tx.worker->outbox, &mail))
			;
	}
	cr_expect(eq(int, mail.type, MAIL_TX_QUEUE_REMOVED));
	cr_expect(eq(ptr, mail.tx_queue, channel.queue));
}

Test(channel, a_worker_that_is_told_nothing_new_is_left_alone)
{
	channel_lend(&channel);
	set_all_destinations();
	for (int i = 0; i < TURNS && count_known() < DESTINATIONS; i++)
		turn();
	turn();
	set_all_destinations();
	channel_set_link(&channel, true);
	cr_expect(eq(int, tx_worker_do_work(tx.worker, &(struct tx_clock_sample){0}), 0));
}

/* It was freed with its last channel, before what it said was read. */
Test(channel, a_stop_does_not_wait_for_a_worker_that_is_gone)
{
	struct config nothing = {.older = NULL};
	int code;

	TAILQ_INIT(&state.services);
	state.config = &nothing;
	state.stopping = true;
	schedule_reap(&state);
	cr_assert(ge(int, sd_event_run(state.event, 0), 0));
	cr_expect(eq(int, sd_event_get_exit_code(state.event, &code), 0));
}
