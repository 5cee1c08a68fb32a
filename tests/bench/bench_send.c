// SPDX-License-Identifier: Apache-2.0
/*
 * What a packet costs the daemon on its way out, from a sender's descriptor to its completion, with packets
 * waiting: a queue's worth is submitted while nobody looks, then taken and posted under the clock; and once the
 * device has sent it, reaped and published under the clock.
 *
 *     bench_send [--payload BYTES] [--rounds N] [--senders N] [--checksums NAME] [--mtu BYTES]
 *     bench_send … --interface A                                                    on verbs
 *
 * Checksums: device, zero or software. With --mtu, packets that are longer are cut into fragments; a round is as many
 * of them as the queue has room for.
 *
 * Under callgrind (--collect-atstart=no --instr-atstart=no is set up by scripts/bench) only that is counted. Prints one
 * JSON line.
 */
#include "daemon/backend/choice/backends.h"
#include "daemon/worker/tx_worker.h"
#include "lib/base/time.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/senders.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#define QUEUE_SLOTS 1024u
#define SENDERS_MAX (QUEUE_SLOTS / IBVCAP_TX_SLOTS_MIN)
#define GIVE_UP_NS  UINT64_C(20000000000)

struct bench {
	uint32_t payload_bytes;
	uint32_t rounds;
	uint32_t n_senders;
	uint32_t mtu;       /* 0: nothing is cut */
	uint32_t n_packets; /* of a round, all senders together */
	uint32_t n_frames;
	const char *interface; /* NULL = scripted */
	const char *checksums_name;
	enum packet_checksums checksums;
	bool warm; /* what is done is counted */
	const struct backend_ops *ops;
	struct backend *backend;
	struct tx_queue *channel;
	struct worker *transmit;
	struct test_sender senders[SENDERS_MAX];
	_Atomic uint32_t identification;
};

static const char *const checksum_names[] = {"device", "zero", "software"};
/* Nothing is paced, nothing is due. */
static const struct tx_clock_sample now = {.monotonic_ns = 1000000000, .utc_ns = 1000000000};

static void die(const char *what, const char *why)
{
	fprintf(stderr, "bench_send: %s: %s\n", what, why);
	exit(EXIT_FAILURE);
}

static void parse_checksums(struct bench *bench, const char *name)
{
	unsigned i = 0;

	while (i < 3 && strcmp(checksum_names[i], name) != 0)
		i++;
	if (i == 3)
		die("usage", "--checksums device, zero or software");
	bench->checksums = (enum packet_checksums)i;
	bench->checksums_name = checksum_names[i];
}

static void count_frames(struct bench *bench)
{
	struct packet_cut cut = {.n = 1};

	if (bench->mtu)
		packet_cut_init(&cut, false, bench->payload_bytes, bench->mtu);
	if (cut.n == 0 || cut.n > TX_QUEUE_FRAGMENTS_MAX)
		die("usage", "--mtu makes too many fragments");
	bench->n_packets = QUEUE_SLOTS / cut.n / bench->n_senders * bench->n_senders;
	bench->n_frames = bench->n_packets * cut.n;
}

static void parse(struct bench *bench, int argc, char **argv)
{
	static const struct option options[] = {{"payload", required_argument, NULL, 'p'},
	                                        {"rounds", required_argument, NULL, 'r'},
	                                        {"senders", required_argument, NULL, 's'},
	                                        {"checksums", required_argument, NULL, 'c'},
	                                        {"interface", required_argument, NULL, 'i'},
	                                        {"mtu", required_argument, NULL, 'm'},
	                                        {0}};
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (option == 'p')
			bench->payload_bytes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'r')
			bench->rounds = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 's')
			bench->n_senders = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'c')
			parse_checksums(bench, optarg);
		else if (option == 'i')
			bench->interface = optarg;
		else if (option == 'm')
			bench->mtu = (uint32_t)strtoul(optarg, NULL, 10);
		else
			exit(EX_USAGE);
	}
	if (bench->payload_bytes > 65000 || !bench->rounds || !bench->n_senders || bench->n_senders > SENDERS_MAX ||
	    QUEUE_SLOTS % bench->n_senders != 0)
		die("usage", "--payload 0..65000 --rounds N --senders 1|2|4|8|16 [--checksums NAME] [--mtu BYTES] "
		             "[--interface A]");
	count_frames(bench);
}

/* ---- the channel --------------------------------------------------------------------------------- */

/* 10.0.0.1:1000 → 10.0.0.2:2000 */
static void build_headers(const struct bench *bench, struct packet_template *headers)
{
	const struct packet_route route = {
		.family = AF_INET,
		.destination_mac = {2, 0, 0, 0, 0, 2},
		.source_mac = {2, 0, 0, 0, 0, 1},
		.destination = {10, 0, 0, 2},
		.source = {10, 0, 0, 1},
		.destination_port = 2000,
		.source_port = 1000,
		.vlan = -1,
		.hop_limit = 64,
	};

	if (!packet_template_init(headers, &route, bench->checksums))
		die("headers", "are refused");
}

static void tell(const struct bench *bench, const struct mail *mail)
{
	struct mail answer;

	if (mailbox_send(bench->transmit->inbox, mail) < 0)
		die("worker", "takes no mail");
	tx_worker_do_work(bench->transmit, &now);
	while (mailbox_receive(bench->transmit->outbox, &answer)) {
		if (answer.error)
			die("worker", strerror(-answer.error));
	}
}

static void create(struct bench *bench)
{
	const struct worker_options transmit = {.name = "bench", .cpu = -1};
	struct tx_queue_options channel = {
		.name = "bench",
		.queue_slots = QUEUE_SLOTS,
		.slot_bytes = bench->payload_bytes,
		.cut_bytes = bench->mtu,
		.n_destinations = 1,
		.checksums = bench->checksums,
	};
	struct mail destination = {.type = MAIL_DESTINATION};
	struct failure failure = {0};

	bench->ops = bench->interface ? backend_find("verbs") : &scripted_backend_ops;
	if (!bench->ops)
		die("backend", "verbs is not in this build");
	const struct backend_open_options options = {.interface = bench->interface};

	if (bench->ops->open(&options, &bench->backend, &failure) < 0)
		die("device", failure.text);
	channel.backend = bench->backend;
	if (tx_queue_new(&bench->channel, &channel, &failure) < 0)
		die("channel", failure.text);
	if (tx_worker_new(&bench->transmit, &transmit) < 0)
		die("worker", "cannot be made");
	destination.tx_queue = bench->channel;
	destination.destination.mtu = bench->mtu;
	destination.destination.identification = &bench->identification;
	build_headers(bench, &destination.destination.headers);
	tell(bench, &(struct mail){.type = MAIL_ADD_TX_QUEUE, .tx_queue = bench->channel});
	tell(bench, &destination);
}

static void add_senders(struct bench *bench)
{
	for (uint32_t i = 0; i < bench->n_senders; i++) {
		struct test_sender *sender = &bench->senders[i];

		if (test_sender_init(sender, bench->backend, bench->transmit, QUEUE_SLOTS / bench->n_senders,
		                     bench->payload_bytes) < 0)
			die("sender", "cannot be made");
		tell(bench,
		     &(struct mail){.type = MAIL_ADD_SENDER, .tx_queue = bench->channel, .sender = &sender->sender});
	}
}

/* The worker is not asked any more: what it has is back. */
static void tear_down(struct bench *bench)
{
	tx_worker_free(bench->transmit);
	tx_queue_free(bench->channel);
	for (uint32_t i = 0; i < bench->n_senders; i++)
		test_sender_deinit(&bench->senders[i]);
	bench->ops->close(bench->backend);
}

/* ---- the measurement ----------------------------------------------------------------------------- */

/* A queue's worth, of all senders the same. */
static void submit(struct bench *bench)
{
	const struct ibvcap_tx_descriptor descriptor = {.length = (uint16_t)bench->payload_bytes};

	for (uint32_t i = 0; i < bench->n_senders; i++) {
		for (uint32_t k = 0; k < bench->n_packets / bench->n_senders; k++)
			test_sender_write(&bench->senders[i], descriptor);
		test_sender_submit(&bench->senders[i]);
	}
}

/* Descriptors to the device. */
static __attribute__((noinline)) void post(const struct bench *bench)
{
	uint64_t all = bench->channel->first + bench->n_frames;

	while (bench->channel->next < all || bench->channel->n_ready)
		tx_worker_do_work(bench->transmit, &now);
}

static bool is_done(const struct bench *bench)
{
	return bench->channel->first == bench->channel->next;
}

/* Completions to the senders, until there are no more. */
static __attribute__((noinline)) void reap(const struct bench *bench)
{
	while (!is_done(bench) && tx_worker_do_work(bench->transmit, &now) > 0)
		;
}

/* Nobody says that a device has sent everything, but its completions. */
static void let_out(const struct bench *bench)
{
	if (bench->interface)
		usleep(RUNNING_ON_VALGRIND ? 20000 : 5000);
	else
		scripted_send(bench->channel->queue, QUEUE_SLOTS);
}

/* Nanoseconds. */
static uint64_t counted(const struct bench *bench, void (*part)(const struct bench *bench))
{
	uint64_t before, ns;

	if (bench->warm) {
		CALLGRIND_START_INSTRUMENTATION;
		CALLGRIND_TOGGLE_COLLECT;
	}
	before = time_monotonic_ns();
	part(bench);
	ns = time_monotonic_ns() - before;
	if (bench->warm)
		CALLGRIND_TOGGLE_COLLECT;
	return ns;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void expect_all_sent(const struct bench *bench, uint32_t rounds)
{
	if (bench->channel->counters[IBVCAP_TX_COUNTER_COMPLETED] != (uint64_t)rounds * bench->n_packets)
		die("packets", "were not all sent");
}

/* One queue's worth; nanoseconds. */
static uint64_t one_round(struct bench *bench)
{
	uint64_t spent, give_up = time_monotonic_ns() + GIVE_UP_NS;

	submit(bench);
	spent = counted(bench, post);
	while (!is_done(bench)) {
		if (time_monotonic_ns() > give_up)
			die("device", "packets were posted and never completed");
		let_out(bench);
		spent += counted(bench, reap);
	}
	return spent;
}

static void run(struct bench *bench)
{
	double *ns = calloc(bench->rounds, sizeof(*ns));

	if (!ns)
		die("memory", strerror(ENOMEM));
	one_round(bench); /* first touch of everything */
	bench->warm = true;
	for (uint32_t i = 0; i < bench->rounds; i++)
		ns[i] = (double)one_round(bench) / bench->n_packets;
	expect_all_sent(bench, bench->rounds + 1);
	qsort(ns, bench->rounds, sizeof(*ns), compare);
	printf("{\"backend\": \"%s\", \"payload_bytes\": %u, \"senders\": %u, \"checksums\": \"%s\", "
	       "\"mtu\": %u, \"packets\": %llu, \"ns_per_packet\": {\"min\": %.1f, \"median\": %.1f, \"max\": %.1f}}\n",
	       bench->ops->name, bench->payload_bytes, bench->n_senders, bench->checksums_name, bench->mtu,
	       (unsigned long long)bench->rounds * bench->n_packets, ns[0], ns[bench->rounds / 2],
	       ns[bench->rounds - 1]);
	free(ns);
}

int main(int argc, char **argv)
{
	struct bench bench = {.payload_bytes = 64, .rounds = 50, .n_senders = 1, .checksums_name = checksum_names[0]};

	parse(&bench, argc, argv);
	create(&bench);
	add_senders(&bench);
	run(&bench);
	tear_down(&bench);
	return EXIT_SUCCESS;
}
