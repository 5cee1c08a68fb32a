// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/worker/tx_worker_bench.h"

#include "lib/ibvcap/ring_tx.h"

static void add_channel(struct bench *bench, uint32_t i)
{
	const struct bench_setting *setting = &bench->setting;
	const struct tx_queue_options options = {
		.name = "test",
		.backend = bench->backend,
		.queue_slots = setting->queue_slots,
		.slot_bytes = setting->slot_bytes,
		.cut_bytes = setting->mtu ? 9000 : 0,
		.n_destinations = 1,
		.checksums = setting->checksums,
		.rate_bps = setting->rate_bps,
		.burst_bytes = setting->burst_bytes,
		.late_after_ns = setting->late_after_ns,
		.completion_events = true,
	};
	struct failure failure;

	cr_assert(eq(int, tx_queue_new(&bench->queues[i], &options, &failure), 0), "%s", failure.text);
	scripted_send_at_once(bench->queues[i]->queue, setting->at_once);
	bench_mail(bench, &(struct mail){.type = MAIL_ADD_TX_QUEUE, .tx_queue = bench->queues[i]});
	cr_assert(eq(int, bench_expect_mail(bench, MAIL_TX_QUEUE_ADDED).error, 0));
	if (!setting->unresolved)
		bench_resolve(bench, i, setting->mtu);
}

void bench_set_up(struct bench *bench, const struct bench_setting *setting)
{
	*bench = (struct bench){.setting = *setting, .now = {.monotonic_ns = 1000000000, .utc_ns = BENCH_UTC_NS}};
	bench->setting.n_queues = setting->n_queues ? setting->n_queues : 1;
	bench->setting.n_senders = setting->n_senders ? setting->n_senders : 1;
	bench->setting.queue_slots = setting->queue_slots ? setting->queue_slots : 128;
	bench->setting.slot_bytes = setting->slot_bytes ? setting->slot_bytes : BENCH_BYTES;
	bench->setting.late_after_ns = setting->late_after_ns ? setting->late_after_ns : 1000000;
	cr_assert(eq(int, scripted_backend_ops.open(NULL, &bench->backend, NULL), 0));
	const struct worker_options options = {.name = "test", .spin_ns = setting->spin_ns, .cpu = -1};

	cr_assert(eq(int, tx_worker_new(&bench->worker, &options), 0));
	for (uint32_t i = 0; i < bench->setting.n_queues; i++)
		add_channel(bench, i);
	for (uint32_t i = 0; i < bench->setting.n_senders; i++) {
		struct test_sender *sender = &bench->senders[i];

		cr_assert(eq(
			int,
			test_sender_init(sender, bench->backend, bench->worker, BENCH_SLOTS, bench->setting.slot_bytes),
			0));
		bench_mail(bench, &(struct mail){.type = MAIL_ADD_SENDER,
		                                 .tx_queue = bench->queues[i % bench->setting.n_queues],
		                                 .sender = &sender->sender});
		cr_assert(eq(int, bench_expect_mail(bench, MAIL_SENDER_ADDED).error, 0));
	}
}

void bench_tear_down(struct bench *bench)
{
	tx_worker_free(bench->worker);
	for (uint32_t i = 0; i < bench->setting.n_queues; i++)
		tx_queue_free(bench->queues[i]);
	for (uint32_t i = 0; i < bench->setting.n_senders; i++)
		test_sender_deinit(&bench->senders[i]);
	scripted_backend_ops.close(bench->backend);
}

int bench_round(struct bench *bench)
{
	return tx_worker_do_work(bench->worker, &bench->now);
}

void bench_work(struct bench *bench)
{
	while (bench_round(bench) > 0)
		;
}

void bench_pass(struct bench *bench, uint64_t ns)
{
	bench->now.monotonic_ns += ns;
	bench->now.utc_ns += ns;
}

void bench_resolve(struct bench *bench, uint32_t channel, uint32_t mtu)
{
	struct mail mail = {.type = MAIL_DESTINATION,
	                    .tx_queue = bench->queues[channel],
	                    .destination = test_destination(0, bench->setting.checksums)};

	mail.destination.mtu = mtu;
	mail.destination.identification = &bench->identification;
	bench_mail(bench, &mail);
}

void bench_mail(struct bench *bench, const struct mail *mail)
{
	cr_assert(eq(int, mailbox_send(bench->worker->inbox, mail), 0));
	bench_round(bench);
}

struct mail bench_expect_mail(struct bench *bench, enum mail_type type)
{
	struct mail mail = {0};

	bench_round(bench);
	cr_assert(mailbox_receive(bench->worker->outbox, &mail), "no mail");
	cr_assert(eq(int, mail.type, type));
	return mail;
}

void bench_expect_no_mail(struct bench *bench)
{
	struct mail mail = {0};

	bench_round(bench);
	cr_expect(not(mailbox_receive(bench->worker->outbox, &mail)), "mail of type %d", mail.type);
}

void bench_submit(struct bench *bench, uint32_t sender, uint32_t n, uint16_t length)
{
	for (uint32_t i = 0; i < n; i++) {
		cr_assert(test_sender_has_room(&bench->senders[sender]));
		test_sender_write(&bench->senders[sender], (struct ibvcap_tx_descriptor){.length = length});
	}
	test_sender_submit(&bench->senders[sender]);
}

static uint64_t ended(const _Atomic uint64_t *counters)
{
	return counter_get(&counters[IBVCAP_TX_COUNTER_COMPLETED]) + counter_get(&counters[IBVCAP_TX_COUNTER_ERRORED]) +
	       counter_get(&counters[IBVCAP_TX_COUNTER_FLUSHED]) +
	       counter_get(&counters[IBVCAP_TX_COUNTER_LATE_DROPPED]);
}

void bench_expect_sums(const struct bench *bench, uint64_t pending)
{
	uint64_t senders_submitted = 0, channels_submitted = 0;

	for (uint32_t i = 0; i < bench->setting.n_senders; i++) {
		const struct ibvcap_sender_state *state = bench->senders[i].sender.state;

		cr_expect(eq(u64, ended(state->counters), sender_load_completed(state)));
		senders_submitted += counter_get(&state->counters[IBVCAP_TX_COUNTER_SUBMITTED]);
		pending -= counter_get(&state->counters[IBVCAP_TX_COUNTER_SUBMITTED]) - ended(state->counters);
	}
	for (uint32_t i = 0; i < bench->setting.n_queues; i++)
		channels_submitted += bench_count(bench, i, IBVCAP_TX_COUNTER_SUBMITTED);
	cr_expect(eq(u64, senders_submitted, channels_submitted));
	cr_expect(eq(u64, pending, 0));
}

int32_t bench_status(const struct bench *bench, uint32_t sender, uint64_t number)
{
	return bench->senders[sender].sender.statuses[number % BENCH_SLOTS];
}
