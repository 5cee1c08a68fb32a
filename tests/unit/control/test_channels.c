// SPDX-License-Identifier: Apache-2.0
/*
 * Senders at the control socket, with a real transmit worker on the scripted backend. Worker and control take turns on
 * this thread, so every test says when the worker answers; the device sends when the test says so. The scripted backend
 * ends a test that unregisters the memory of packets which are still with it.
 */
#include "daemon/control/control.h"
#include "daemon/worker/tx_worker.h"
#include "lib/ibvcap/ring.h"
#include "lib/ibvcap/ring_tx.h"
#include "lib/ibvcap/tx/tx.h"
#include "lib/ibvcap/protocol.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/senders.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ibvcap/ibvcap.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EPOCH UINT64_C(0x1122334455667788)
#define SLOTS 64u
#define BYTES 100u

static char directory[] = "/tmp/ibvcap-channels-XXXXXX";
static struct config_channel out;
static struct config config;
static struct backend *backend;
static struct tx_queue *channel;
static struct worker *transmit;
static bool worker_rests;
static sd_event *event;
static struct listener listener;
static struct control_tx_worker control_tx_worker;
static struct control_channel control_channel;
static struct control *control;
static struct mail last_said;
static _Atomic uint32_t n_registered;
static int register_result;
static unsigned n_emptied;
static _Atomic bool device_is_slow;

/* ---- the daemon ----------------------------------------------------------------------------------- */

static int register_arena(void *context, const struct shm *arena, const void **registration, struct failure *failure)
{
	struct backend_memory *memory = NULL;
	int r = register_result;

	(void)context;
	while (device_is_slow)
		usleep(1000);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "the device takes no more");
	r = scripted_backend_ops.register_memory(backend, arena->address, arena->bytes, &memory, failure);
	*registration = memory;
	n_registered += r == 0;
	return r;
}

static void unregister_arena(void *context, const void *registration)
{
	(void)context;
	while (device_is_slow)
		usleep(1000);
	scripted_backend_ops.unregister_memory((struct backend_memory *)registration);
	n_registered--;
}

static void emptied(void *context)
{
	(void)context;
	n_emptied++;
}

static void send_time(void *, const char **keeper, const char **why)
{
	*keeper = "card";
	*why = "etf sends each packet at its time";
}

static void said(void *context, const struct control_channel *known, const struct mail *mail)
{
	(void)context;
	(void)known;
	last_said = *mail;
	if (mail->type == MAIL_TX_QUEUE_FAILED || mail->type == MAIL_TX_QUEUE_REMOVED)
		tx_queue_close(channel);
}

static void make_channel(void)
{
	const struct tx_queue_options options = {.name = "out",
	                                         .backend = backend,
	                                         .queue_slots = 64,
	                                         .slot_bytes = BYTES,
	                                         .n_destinations = 1,
	                                         .late_after_ns = 1000000,
	                                         .completion_events = true};
	const struct worker_options worker = {.name = "test", .cpu = -1};
	const struct mail mail = {.type = MAIL_ADD_TX_QUEUE};
	struct mail add = mail;

	cr_assert(eq(int, tx_queue_new(&channel, &options, NULL), 0));
	channel->destinations[0] = test_destination(0, PACKET_CHECKSUMS_DEVICE);
	cr_assert(eq(int, tx_worker_new(&transmit, &worker), 0));
	add.tx_queue = channel;
	cr_assert(eq(int, mailbox_send(transmit->inbox, &add), 0));
}

static void make_control(void)
{
	const struct control_options options = {.config = &config, .event = event, .listener = &listener};

	control_tx_worker = (struct control_tx_worker){
		.inbox = transmit->inbox,
		.outbox = transmit->outbox,
		.doorbell = tx_worker_doorbell(transmit),
		.epoll = tx_worker_epoll(transmit),
		.said = said,
	};
	control_channel = (struct control_channel){
		.config = &out,
		.worker = &control_tx_worker,
		.queue = channel,
		.counters = channel->counters,
		.epoch = EPOCH,
		.device = "scripted0",
		.backend = "scripted",
		.state = "sending",
		.register_arena = register_arena,
		.unregister_arena = unregister_arena,
		.send_time = send_time,
		.emptied = emptied,
	};
	cr_assert(eq(int, control_new(&control, &options, NULL), 0));
	cr_assert(eq(int, control_add_tx_worker(control, &control_tx_worker), 0));
	cr_assert(eq(int, control_add_channel(control, &control_channel), 0));
}

static void set_up(void)
{
	if (geteuid() != 0)
		cr_skip_test("a channel that names nobody is for root: run as root");
	cr_assert(mkdtemp(directory) != NULL);
	out = (struct config_channel){.name = "out",
	                              .interface = "eth7",
	                              .max_senders = 2,
	                              .max_senders_per_user = 2,
	                              .file = "test.conf",
	                              .payload_size = BYTES,
	                              .arena_slots = SLOTS,
	                              .n_destinations = 1,
	                              .page_bytes = 4096,
	                              .send_queue_slots = 64};
	config = (struct config){.file = "test.conf",
	                         .max_clients = 300,
	                         .max_clients_per_user = 300,
	                         .max_messages_per_s = 10000,
	                         .max_messages_per_s_per_user = 10000,
	                         .idle_timeout_s = 60};
	snprintf(config.socket_path, sizeof(config.socket_path), "%s/control.sock", directory);
	cr_assert(ge(int, sd_event_new(&event), 0));
	cr_assert(eq(int, listener_open(&listener, config.socket_path, 0666, (gid_t)-1, NULL), 0));
	cr_assert(eq(int, scripted_backend_ops.open(NULL, &backend, NULL), 0));
	make_channel();
	make_control();
}

static void tear_down(void)
{
	if (!control)
		return;
	tx_queue_close(channel);
	control_free(control);
	cr_expect(eq(u32, n_registered, 0));
	tx_queue_free(channel);
	tx_worker_free(transmit);
	scripted_backend_ops.close(backend);
	listener_close(&listener);
	sd_event_unref(event);
	rmdir(directory);
}

TestSuite(channels, .init = set_up, .fini = tear_down, .timeout = 60);

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void work(uint64_t later_ns)
{
	const uint64_t now_ns = now_ms() * 1000000 + later_ns;

	tx_worker_do_work(transmit, &(struct tx_clock_sample){.monotonic_ns = now_ns, .utc_ns = now_ns});
}

static void turn(void)
{
	if (!worker_rests)
		work(0);
	cr_assert(ge(int, sd_event_run(event, 200), 0));
}

/* And some turns, should all that time have been others'. */
static void turn_for(uint64_t ms)
{
	uint64_t end = now_ms() + ms;

	for (int n = 0; n < 20 || now_ms() < end; n++)
		turn();
}

#define TURN_UNTIL(condition)                                                \
	do {                                                                 \
		uint64_t end = now_ms() + 30000;                             \
		while (!(condition)) {                                       \
			cr_assert(lt(u64, now_ms(), end), "%s", #condition); \
			turn();                                              \
		}                                                            \
	} while (0)

/* ---- a client ------------------------------------------------------------------------------------- */

static bool is_readable(int fd)
{
	struct pollfd poller = {.fd = fd, .events = POLLIN};

	return poll(&poller, 1, 0) > 0;
}

static int connect_client(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(address.sun_path, config.socket_path);
	cr_assert(eq(int, connect(fd, (struct sockaddr *)&address, sizeof(address)), 0));
	return fd;
}

static int receive(int client, union protocol_message *answer, int *fds, unsigned *n_fds)
{
	TURN_UNTIL(is_readable(client));
	return protocol_recv(client, answer, fds, n_fds);
}

static void say(int client, enum protocol_type type)
{
	struct protocol_header header;

	protocol_init(&header, type, sizeof(header));
	cr_assert(eq(int, protocol_send(client, &header, NULL, 0), 0));
}

static char refusal[PROTOCOL_TEXT_MAX]; /* the last */

/* Opened and not mapped yet: 0; else the error that was answered. */
static int open_channel(int client, struct ibvcap_tx **tx)
{
	struct protocol_open_channel request = {.channel = "out", .abi_major = IBVCAP_ABI_MAJOR};
	union protocol_message answer;
	int fds[PROTOCOL_FDS_MAX];
	unsigned n_fds = PROTOCOL_FDS_MAX;

	protocol_init(&request.header, PROTOCOL_OPEN_CHANNEL, sizeof(request));
	cr_assert(eq(int, protocol_send(client, &request.header, NULL, 0), 0));
	cr_assert(eq(int, receive(client, &answer, fds, &n_fds), 1));
	if (answer.header.type == PROTOCOL_ERROR) {
		memcpy(refusal, answer.error.text, sizeof(refusal));
		return answer.error.error;
	}
	cr_assert(eq(int, answer.header.type, PROTOCOL_OPENED));
	cr_assert(eq(u32, n_fds, PROTOCOL_FD_OPENED_N));
	cr_assert(eq(int, tx_handle_new(tx, client, fds, answer.opened.epoch), 0));
	return 0;
}

static int say_mapped(const struct ibvcap_tx *tx)
{
	union protocol_message answer;

	say(tx->waiter.control, PROTOCOL_MAPPED);
	cr_assert(eq(int, receive(tx->waiter.control, &answer, NULL, NULL), 1));
	return answer.header.type == PROTOCOL_READY ? 0 : answer.error.error;
}

static void expect_refusal(int client, int error, const char *text)
{
	union protocol_message answer;

	cr_assert(eq(int, receive(client, &answer, NULL, NULL), 1));
	cr_assert(eq(int, answer.header.type, PROTOCOL_ERROR));
	cr_expect(eq(int, answer.error.error, error));
	cr_expect(ne(ptr, strstr(answer.error.text, text), NULL), "%s", answer.error.text);
}

static struct ibvcap_tx *open_sender(void)
{
	struct ibvcap_tx *tx = NULL;

	cr_assert(eq(int, open_channel(connect_client(), &tx), 0));
	cr_assert(eq(int, say_mapped(tx), 0));
	return tx;
}

static void submit(struct ibvcap_tx *tx, uint32_t n)
{
	struct ibvcap_tx_slots slots = IBVCAP_INIT(struct ibvcap_tx_slots);

	cr_assert(eq(int, ibvcap_tx_reserve(tx, &slots, n, n, 0), (int)n));
	cr_assert(eq(int, ibvcap_tx_submit(tx, n), 0));
}

/* As a reload does. */
static void take_channel_out(void)
{
	const struct mail remove = {.type = MAIL_REMOVE_TX_QUEUE, .tx_queue = channel};

	control_end_channel(&control_channel, IBVCAP_DISCONNECT_REMOVED);
	cr_assert(eq(int, mailbox_send(transmit->inbox, &remove), 0));
}

static uint32_t under_way(void)
{
	struct scripted_send_counts counts;

	scripted_send_counts(channel->queue, &counts);
	return counts.under_way;
}

static uint64_t count(enum ibvcap_tx_counter which)
{
	return counter_get(&channel->counters[which]);
}

static void expect_sum(uint64_t submitted, uint64_t completed, uint64_t flushed)
{
	cr_expect(eq(u64, count(IBVCAP_TX_COUNTER_SUBMITTED), submitted));
	cr_expect(eq(u64, count(IBVCAP_TX_COUNTER_COMPLETED), completed));
	cr_expect(eq(u64, count(IBVCAP_TX_COUNTER_FLUSHED), flushed));
	cr_expect(eq(u64, count(IBVCAP_TX_COUNTER_ERRORED) + count(IBVCAP_TX_COUNTER_LATE_DROPPED), 0));
}

/* ---- tests ---------------------------------------------------------------------------------------- */

Test(channels, who_opens_and_maps_sends)
{
	struct ibvcap_tx *tx = open_sender();

	cr_expect(eq(u64, tx->info.epoch, EPOCH));
	submit(tx, 3);
	TURN_UNTIL(under_way() == 3);
	scripted_send(channel->queue, 3);
	TURN_UNTIL(sender_load_completed(tx->state) == 3);
	expect_sum(3, 3, 0);
	ibvcap_tx_close(tx);
	TURN_UNTIL(n_registered == 0);
}

Test(channels, an_arena_is_given_up_after_its_last_completion)
{
	struct ibvcap_tx *tx = open_sender(), *other = open_sender(), *third = NULL;
	int client = connect_client();

	submit(tx, SLOTS);
	TURN_UNTIL(under_way() == SLOTS);
	cr_expect(eq(int, open_channel(client, &third), -EAGAIN));
	cr_expect(strstr(refusal, "have ended") == NULL);
	ibvcap_tx_close(tx);
	turn_for(20);
	cr_expect(eq(u32, n_registered, 2), "the device reads it");
	cr_expect(eq(int, open_channel(client, &third), -EAGAIN));
	cr_expect(strstr(refusal, "1 of all have ended, and count until the device has") != NULL, "%s", refusal);
	close(client);
	ibvcap_tx_close(other);
	TURN_UNTIL(n_registered == 1);
	scripted_send(channel->queue, SLOTS);
	TURN_UNTIL(n_registered == 0);
	expect_sum(SLOTS, SLOTS, 0);
}

/* A sender that has left, and of which only the arena is kept. */
static struct shm leave_and_keep_arena(void)
{
	struct ibvcap_tx *tx = open_sender();
	struct shm kept = tx->arena;

	tx->arena = (struct shm)SHM_INIT;
	ibvcap_tx_close(tx);
	TURN_UNTIL(n_registered == 0);
	turn_for(250);
	cr_expect(not(control_channel_is_empty(&control_channel)));
	return kept;
}

static void expect_refusal_for_kept(int client)
{
	struct ibvcap_tx *tx = NULL;

	turn_for(250);
	cr_expect(eq(int, open_channel(client, &tx), -EAGAIN));
	cr_expect(strstr(refusal, "1 of all have hung up, and count until no process maps their memory") != NULL, "%s",
	          refusal);
}

/* Only the named one of its segments is kept, by its mapping: the first of two places is lost until that goes. */
static void keep_one(size_t segment)
{
	struct ibvcap_tx *tx = open_sender(), *other = open_sender(), *third = NULL;
	struct shm kept = *(struct shm *)((char *)tx + segment);
	int client = connect_client();

	close(kept.fd);
	*(struct shm *)((char *)tx + segment) = (struct shm)SHM_INIT;
	ibvcap_tx_close(tx);
	TURN_UNTIL(n_registered == 1);
	expect_refusal_for_kept(client);
	munmap(kept.address, kept.bytes);
	cr_expect(eq(int, open_channel(client, &third), 0), "and that is seen at once");
	ibvcap_tx_close(third);
	ibvcap_tx_close(other);
	TURN_UNTIL(n_registered == 0);
}

Test(channels, memory_that_its_client_keeps_has_its_place_until_it_is_let_go)
{
	keep_one(offsetof(struct ibvcap_tx, arena));
	keep_one(offsetof(struct ibvcap_tx, page_shm));
	keep_one(offsetof(struct ibvcap_tx, state_shm));
}

Test(channels, memory_that_is_let_go_is_free_though_nobody_asks_for_it)
{
	struct shm kept = leave_and_keep_arena();

	shm_deinit(&kept);
	TURN_UNTIL(control_channel_is_empty(&control_channel));
}

/* Which opens no file, and has it all the same. */
Test(channels, memory_that_a_client_keeps_by_its_path_has_its_place)
{
	struct ibvcap_tx *tx = open_sender(), *other = open_sender(), *third = NULL;
	int client = connect_client(), path;
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", tx->arena.fd);
	path = open(name, O_PATH | O_CLOEXEC);
	cr_assert(ge(int, path, 0));
	ibvcap_tx_close(tx);
	TURN_UNTIL(n_registered == 1);
	expect_refusal_for_kept(client);
	close(path);
	cr_expect(eq(int, open_channel(client, &third), 0));
	ibvcap_tx_close(third);
	ibvcap_tx_close(other);
	TURN_UNTIL(n_registered == 0);
}

Test(channels, memory_that_a_client_keeps_does_not_keep_a_channel)
{
	struct shm kept = leave_and_keep_arena();

	take_channel_out();
	TURN_UNTIL(n_emptied == 1);
	cr_expect(control_channel_is_empty(&control_channel));
	shm_deinit(&kept);
}

Test(channels, who_leaves_before_the_worker_answers_is_taken_back)
{
	struct ibvcap_tx *tx = NULL;

	worker_rests = true;
	cr_assert(eq(int, open_channel(connect_client(), &tx), 0));
	mailbox_clear(control_tx_worker.inbox);
	say(tx->waiter.control, PROTOCOL_MAPPED);
	TURN_UNTIL(is_readable(mailbox_fd(control_tx_worker.inbox)));
	ibvcap_tx_close(tx);
	turn_for(20);
	cr_expect(eq(u32, n_registered, 1), "the worker may have it");
	worker_rests = false;
	TURN_UNTIL(n_registered == 0);
}

Test(channels, who_takes_long_to_be_made_keeps_nobody_else_waiting)
{
	struct ibvcap_tx *slow = NULL, *gone = NULL;
	int other = connect_client();
	union protocol_message answer;

	cr_assert(eq(int, open_channel(connect_client(), &slow), 0));
	cr_assert(eq(int, open_channel(connect_client(), &gone), 0));
	device_is_slow = true;
	say(slow->waiter.control, PROTOCOL_MAPPED);
	say(gone->waiter.control, PROTOCOL_MAPPED);
	turn_for(10);
	say(other, PROTOCOL_STATUS);
	cr_assert(eq(int, receive(other, &answer, NULL, NULL), 1));
	cr_expect(eq(int, answer.header.type, PROTOCOL_PART));
	ibvcap_tx_close(gone);
	turn_for(10);
	cr_expect(not(is_readable(slow->waiter.control)));
	device_is_slow = false;
	cr_assert(eq(int, receive(slow->waiter.control, &answer, NULL, NULL), 1));
	cr_expect(eq(int, answer.header.type, PROTOCOL_READY));
	TURN_UNTIL(n_registered == 1);
	ibvcap_tx_close(slow);
	TURN_UNTIL(n_registered == 0);
	close(other);
}

Test(channels, an_end_waits_for_what_is_being_made)
{
	struct ibvcap_tx *tx = NULL;

	cr_assert(eq(int, open_channel(connect_client(), &tx), 0));
	device_is_slow = true;
	say(tx->waiter.control, PROTOCOL_MAPPED);
	turn();
	take_channel_out();
	TURN_UNTIL(last_said.type == MAIL_TX_QUEUE_REMOVED);
	cr_expect(eq(u32, n_emptied, 0));
	device_is_slow = false;
	TURN_UNTIL(n_emptied == 1);
	cr_expect(eq(u32, n_registered, 0));
	control_remove_channel(&control_channel);
	ibvcap_tx_close(tx);
}

/* The worker looks at its mail at the end of a round; its channels were served before. */
Test(channels, who_leaves_as_its_channel_is_taken_out_is_waited_for)
{
	struct ibvcap_tx *tx = open_sender();
	struct mail held;

	take_channel_out();
	worker_rests = true;
	work(0); /* takes that, and dismisses all senders */
	ibvcap_tx_close(tx);
	turn();
	turn();
	cr_assert(mailbox_receive(transmit->inbox, &held));
	cr_assert(eq(int, held.type, MAIL_REMOVE_SENDER));
	work(0);
	TURN_UNTIL(last_said.type == MAIL_TX_QUEUE_REMOVED);
	turn_for(20);
	cr_expect(not(control_channel_is_empty(&control_channel)), "its removal is to be answered");
	cr_expect(eq(u32, n_emptied, 0));
	cr_assert(eq(int, mailbox_send(transmit->inbox, &held), 0));
	work(0); /* answers */
	TURN_UNTIL(n_emptied == 1);
	cr_expect(control_channel_is_empty(&control_channel));
	control_remove_channel(&control_channel);
	turn_for(20);
}

/* While its memory is sealed; and before it has mapped it. */
Test(channels, who_waits_as_its_channel_is_taken_out_is_told)
{
	struct ibvcap_tx *tx[2] = {NULL, NULL};

	for (int i = 0; i < 2; i++)
		cr_assert(eq(int, open_channel(connect_client(), &tx[i]), 0));
	device_is_slow = true;
	say(tx[0]->waiter.control, PROTOCOL_MAPPED);
	turn_for(20);
	take_channel_out();
	TURN_UNTIL(last_said.type == MAIL_TX_QUEUE_REMOVED);
	for (int i = 0; i < 2; i++) {
		union protocol_message answer;

		cr_assert(eq(int, receive(tx[i]->waiter.control, &answer, NULL, NULL), 1));
		cr_expect(eq(int, answer.header.type, PROTOCOL_ERROR));
		cr_expect(eq(int, answer.error.error, -ENODEV));
		cr_expect(strstr(answer.error.text, "'out': it ends") != NULL);
	}
	device_is_slow = false;
	TURN_UNTIL(n_emptied == 1);
	for (int i = 0; i < 2; i++)
		ibvcap_tx_close(tx[i]);
}

Test(channels, taking_a_channel_out_keeps_nobody_waiting)
{
	struct ibvcap_tx *tx = open_sender();
	int other = connect_client();
	union protocol_message answer;

	device_is_slow = true;
	take_channel_out();
	TURN_UNTIL(last_said.type == MAIL_TX_QUEUE_REMOVED);
	say(other, PROTOCOL_STATUS);
	cr_assert(eq(int, receive(other, &answer, NULL, NULL), 1));
	cr_expect(eq(int, answer.header.type, PROTOCOL_PART));
	cr_expect(eq(u32, n_emptied, 0));
	cr_expect(eq(u32, client_load_reason(&tx->state->link), IBVCAP_DISCONNECT_REMOVED));
	device_is_slow = false;
	TURN_UNTIL(n_emptied == 1);
	control_remove_channel(&control_channel);
	ibvcap_tx_close(tx);
	close(other);
}

static void lose_queue(void)
{
	scripted_fail_reset(channel->queue, -EIO);
	work(2000000000);
}

/* The device reads its packets until its queue is destroyed, which control does when it hears of the channel. */
Test(channels, memory_outlives_a_queue_that_cannot_be_reset)
{
	struct ibvcap_tx *tx = open_sender();

	submit(tx, 5);
	TURN_UNTIL(under_way() == 5);
	worker_rests = true;
	take_channel_out();
	work(0);
	lose_queue();
	TURN_UNTIL(n_emptied == 1);
	cr_expect(eq(int, last_said.type, MAIL_TX_QUEUE_REMOVED));
	cr_expect(lt(int, last_said.error, 0));
	expect_sum(5, 0, 5);
	control_remove_channel(&control_channel);
	ibvcap_tx_close(tx);
}

Test(channels, memory_of_who_left_outlives_a_queue_that_cannot_be_reset)
{
	enum { MANY = 8192 }; /* flushed in several rounds */
	struct ibvcap_tx *tx = open_sender(), *other;

	out.arena_slots = MANY;
	other = open_sender();
	submit(tx, 5);
	TURN_UNTIL(under_way() == 5);
	submit(other, MANY);
	TURN_UNTIL(under_way() == 64);
	worker_rests = true;
	ibvcap_tx_close(tx);
	turn_for(5);
	take_channel_out();
	work(0);
	lose_queue();
	cr_assert(eq(u32, channel->n_senders, 1));
	turn_for(20);
	cr_expect(eq(u32, n_registered, 2), "the channel is still the worker's, and its queue is there");
	worker_rests = false;
	TURN_UNTIL(n_emptied == 1);
	cr_expect(eq(int, last_said.type, MAIL_TX_QUEUE_REMOVED));
	expect_sum(5 + MANY, 0, 5 + MANY);
	control_remove_channel(&control_channel);
	ibvcap_tx_close(other);
}

Test(channels, places_are_given_back_at_any_step)
{
	for (int step = 0; step < 3; step++) {
		struct ibvcap_tx *senders[2] = {NULL, NULL};
		struct ibvcap_tx *third = NULL;
		int client = connect_client();

		scripted_send_at_once(channel->queue, true);
		for (int i = 0; i < 2; i++) {
			TURN_UNTIL(open_channel(connect_client(), &senders[i]) == 0);
			if (step > 0)
				cr_assert(eq(int, say_mapped(senders[i]), 0));
			if (step > 1)
				submit(senders[i], 1);
		}
		cr_expect(eq(int, open_channel(client, &third), -EAGAIN));
		close(client);
		for (int i = 0; i < 2; i++)
			ibvcap_tx_close(senders[i]);
		TURN_UNTIL(n_registered == 0);
	}
}

Test(channels, memory_that_the_device_does_not_take_is_refused)
{
	struct ibvcap_tx *tx = NULL;

	register_result = -ENOMEM;
	cr_assert(eq(int, open_channel(connect_client(), &tx), 0));
	cr_expect(eq(int, say_mapped(tx), -ENOMEM));
	ibvcap_tx_close(tx);
	register_result = 0;
	ibvcap_tx_close(open_sender());
}

Test(channels, a_sender_that_the_worker_refuses_is_told_and_its_place_is_free)
{
	struct test_sender other;
	struct ibvcap_tx *tx = NULL;

	cr_assert(eq(int, test_sender_init(&other, backend, transmit, 64, BYTES), 0));
	while (tx_queue_add_sender(channel, &other.sender) == 0)
		;
	for (int i = 0; i < 3; i++) {
		int client = connect_client();

		TURN_UNTIL(open_channel(client, &tx) == 0);
		say(client, PROTOCOL_MAPPED);
		expect_refusal(client, -EAGAIN, "'out': its worker cannot take another sender");
		ibvcap_tx_close(tx);
		TURN_UNTIL(n_registered == 0);
	}
	channel->n_senders = 0;
	ibvcap_tx_close(open_sender());
	TURN_UNTIL(n_registered == 0);
	test_sender_deinit(&other);
}

Test(channels, a_worker_with_too_much_mail_is_asked_again)
{
	struct ibvcap_tx *tx = open_sender(), *other = NULL;
	union protocol_message answer;
	const struct mail nothing = {.type = MAIL_TX_QUEUE_ERROR, .tx_queue = channel};

	worker_rests = true;
	while (mailbox_send(transmit->inbox, &nothing) == 0)
		;
	cr_assert(eq(int, open_channel(connect_client(), &other), 0));
	say(other->waiter.control, PROTOCOL_MAPPED);
	ibvcap_tx_close(tx);
	TURN_UNTIL(n_registered == 2);
	turn_for(150);
	cr_expect(not(is_readable(other->waiter.control)));
	worker_rests = false;
	cr_assert(eq(int, receive(other->waiter.control, &answer, NULL, NULL), 1));
	cr_expect(eq(int, answer.header.type, PROTOCOL_READY));
	TURN_UNTIL(n_registered == 1);
	scripted_send_at_once(channel->queue, true);
	submit(other, 1);
	TURN_UNTIL(sender_load_completed(other->state) == 1);
	ibvcap_tx_close(other);
	TURN_UNTIL(n_registered == 0);
}

Test(channels, who_waits_for_a_worker_with_too_much_mail_may_leave)
{
	const struct mail nothing = {.type = MAIL_TX_QUEUE_ERROR, .tx_queue = channel};
	struct ibvcap_tx *gone = NULL, *ends = NULL;
	union protocol_message answer;

	worker_rests = true;
	while (mailbox_send(transmit->inbox, &nothing) == 0)
		;
	cr_assert(eq(int, open_channel(connect_client(), &gone), 0));
	cr_assert(eq(int, open_channel(connect_client(), &ends), 0));
	say(gone->waiter.control, PROTOCOL_MAPPED);
	say(ends->waiter.control, PROTOCOL_MAPPED);
	TURN_UNTIL(n_registered == 2);
	turn_for(150);
	ibvcap_tx_close(gone);
	TURN_UNTIL(n_registered == 1);
	control_end_channel(&control_channel, IBVCAP_DISCONNECT_REMOVED);
	cr_assert(eq(int, receive(ends->waiter.control, &answer, NULL, NULL), 1));
	cr_expect(eq(int, answer.header.type, PROTOCOL_ERROR));
	cr_expect(eq(int, answer.error.error, -ENODEV));
	TURN_UNTIL(n_registered == 0);
	ibvcap_tx_close(ends);
	worker_rests = false;
	turn_for(5);
}

Test(channels, who_lies_is_put_out_and_nobody_else)
{
	struct ibvcap_tx *bad = open_sender(), *good = open_sender();

	scripted_send_at_once(channel->queue, true);
	submit(bad, 2);
	TURN_UNTIL(sender_load_completed(bad->state) == 2);
	sender_store_submitted(bad->page, 1);
	TURN_UNTIL(n_registered == 1);
	cr_expect(eq(u32, client_load_reason(&bad->state->link), IBVCAP_DISCONNECT_BAD_CURSOR));
	submit(good, 1);
	TURN_UNTIL(sender_load_completed(good->state) == 1);
	expect_sum(3, 3, 0);
	ibvcap_tx_close(bad);
	ibvcap_tx_close(good);
}

Test(channels, a_failed_channel_puts_its_senders_out_once_its_queue_is_gone)
{
	struct ibvcap_tx *tx = open_sender(), *again = NULL;

	submit(tx, 5);
	TURN_UNTIL(under_way() == 5);
	scripted_fail_reset(channel->queue, -EIO);
	scripted_fail_queue(channel->queue);
	TURN_UNTIL(n_registered == 0);
	cr_expect(eq(int, last_said.type, MAIL_TX_QUEUE_FAILED));
	cr_expect(eq(u32, client_load_reason(&tx->state->link), IBVCAP_DISCONNECT_CHANNEL_FAILED));
	cr_expect(eq(int, ibvcap_tx_submit(tx, 0), -EIO));
	expect_sum(5, 0, 5);
	cr_expect(eq(int, open_channel(connect_client(), &again), -EIO));
	ibvcap_tx_close(tx);
}

Test(channels, a_worker_that_stops_accounts_for_everything_first)
{
	struct ibvcap_tx *tx = open_sender();

	submit(tx, SLOTS);
	TURN_UNTIL(under_way() > 0);
	scripted_send_at_once(channel->queue, true);
	cr_assert(eq(int, mailbox_send(transmit->inbox, &(struct mail){.type = MAIL_STOP}), 0));
	TURN_UNTIL(last_said.type == MAIL_STOPPED);
	cr_expect(eq(u64, sender_load_completed(tx->state), SLOTS));
	cr_expect(eq(u32, client_load_reason(&tx->state->link), IBVCAP_DISCONNECT_SHUTDOWN));
	cr_expect(eq(u64, count(IBVCAP_TX_COUNTER_SUBMITTED), SLOTS));
	cr_expect(eq(u64, count(IBVCAP_TX_COUNTER_COMPLETED) + count(IBVCAP_TX_COUNTER_FLUSHED), SLOTS));
	ibvcap_tx_close(tx);
}

Test(channels, who_may_no_longer_send_is_put_out)
{
	const uid_t users[] = {4711};
	struct config_channel after = out;
	struct ibvcap_tx *tx = open_sender();

	after.users = users;
	after.n_users = 1;
	control_channel.config = &after;
	control_set_config(control, &config);
	turn_for(5);
	cr_expect(eq(u32, n_registered, 1), "root may always");
	ibvcap_tx_close(tx);
	TURN_UNTIL(n_registered == 0);
}
