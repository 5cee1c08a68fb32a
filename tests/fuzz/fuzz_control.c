// SPDX-License-Identifier: Apache-2.0
/*
 * What a hostile client may send on one connection of the control socket, as it is received, checked and
 * handled, with workers that answer, of a stream and of a channel, which is taken out and put in again. Input:
 * messages, each one byte of kind, one of length in units of 8 bytes, and the bytes. Kind 0: sent as they are; kind
 * 255: something else happens (enum step, in place of the length); else behind a right header of that type, padded to
 * its size. Afterwards nothing of the client may be left.
 */
#include "daemon/control/server.h"
#include "daemon/worker/tx_worker.h"
#include "daemon/worker/rx_worker.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/small_ring.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SLOTS 64u
#define STEP  255

#define LENT_BYTES 4096

enum step { TAKE_OUT, HANG_UP, WORKER_WORKS, WORKER_WAS_EARLIER, CONTROL_WORKS, LEND, STEPS_N };

static struct config_stream stream = {.name = "s",
                                      .max_consumers = 1,
                                      .max_consumers_per_user = 1,
                                      .max_lease_blocks_per_user = 2,
                                      .file = "fuzz.conf",
                                      .lease_blocks = 2,
                                      .receive_queue_slots = SLOTS};
static struct config_channel out = {.name = "o",
                                    .interface = "i",
                                    .max_senders = 1,
                                    .max_senders_per_user = 1,
                                    .file = "fuzz.conf",
                                    .payload_size = 64,
                                    .arena_slots = SLOTS,
                                    .n_destinations = 1,
                                    .page_bytes = 4096,
                                    .send_queue_slots = SLOTS};
static const struct config_stream lent = {.name = "l", .payload_is_lent = true, .file = "fuzz.conf"};
static struct config config = {.file = "fuzz.conf",
                               .streams = &lent,
                               .n_streams = 1,
                               .max_clients = 1,
                               .max_clients_per_user = 1,
                               .max_messages_per_s = 1u << 30,
                               .max_messages_per_s_per_user = 1u << 30,
                               .idle_timeout_s = 1u << 30};
static struct listener listener = LISTENER_INIT;
static struct backend *backend;
static struct rx_ring ring;
static struct worker *worker;
static sd_event *event;
static struct worker *transmit;
static struct tx_queue *channel;
static struct control_queue control_queue;
static struct control_stream control_stream;
static struct rx_losses ledger;
static struct reading matched, lost;
static const uint64_t uncounted;
static struct control_tx_worker control_tx_worker;
static struct control_channel control_channel;
static unsigned n_registered;
static bool is_added; /* its worker has said so */
static bool is_taken_out;
static bool is_given_back; /* by its worker */
static bool is_opening;    /* a stream with lent memory */
static struct control *control;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_lost(void *, uint64_t *packets)
{
	*packets = 0;
	return 0;
}

static int read_matched(void *context, uint64_t *packets)
{
	return scripted_backend_ops.read_matched(context, packets);
}

static void worker_ended(void *context, const struct control_stream *which, uint32_t queue_index, int error)
{
	(void)context;
	(void)which;
	(void)queue_index;
	(void)error;
	abort();
}

static int change(void *context, const struct protocol_reconfigure *request, struct failure *failure)
{
	(void)context;
	if (!memchr(request->name, 0, sizeof(request->name)) || !memchr(request->text, 0, sizeof(request->text)))
		abort();
	return failure_set(failure, EX_CONFIG, EINVAL, "%s: %s", request->name, request->text);
}

static void must(int r)
{
	if (r < 0)
		abort();
}

static struct backend_queue *make_worker(void)
{
	struct rx_ring_options ring_options = small_ring();
	struct backend_queue_options queue_options;
	struct backend_queue *queue;

	ring_options.slot_bytes = 64;
	ring_options.history_blocks = ring_options.spare_blocks = ring_options.lease_blocks_max = 2;
	ring_options.posted_slots = SLOTS;
	queue_options = queue_for_ring(&ring_options);
	must(scripted_backend_ops.open(NULL, &backend, NULL));
	must(scripted_backend_ops.create_queue(backend, &queue_options, &queue, NULL));
	must(rx_ring_init(&ring, &ring_options, NULL));
	must(rx_ring_seal(&ring, NULL));
	const struct rx_worker_options options = {
		.worker.name = "s", .queue = queue, .ring = &ring, .worker.cpu = -1, .losses = &ledger.sum.queues[0]};

	losses_init(&ledger.sum, 1, SLOTS, false, false, LOSSES_DRAIN_NS_MIN);
	rx_losses_add_queue(&ledger, 0, ring.ring, NULL);
	must(rx_worker_new(&worker, &options));
	must(rx_worker_prime(worker));
	must(scripted_backend_ops.start(queue));
	return queue;
}

/* Each descriptor is a dma-buf. In place of libc's. */
int fstatfs(int, struct statfs *filesystem)
{
	*filesystem = (struct statfs){.f_type = DMA_BUF_MAGIC};
	return 0;
}

static const char *closed_why(void *, const char *, bool is_lent)
{
	return is_lent ? NULL : "closed";
}

static uint64_t lent_bytes(void *, const struct config_stream *)
{
	return LENT_BYTES;
}

/* In turn: another change is on its way; it begins, and the device refuses; it does not begin. */
static int open_lent(void *, const struct config_stream *, int, uint64_t, struct failure *failure)
{
	static unsigned n;

	if (n++ % 3 == 0)
		return -EBUSY;
	is_opening = n % 3 == 1;
	return is_opening ? 0 : failure_set(failure, EX_UNAVAILABLE, EINVAL, "refused");
}

static int register_arena(void *context, const struct shm *arena, const void **registration, struct failure *failure)
{
	struct backend_memory *memory = NULL;
	int r = scripted_backend_ops.register_memory(backend, arena->address, arena->bytes, &memory, failure);

	(void)context;
	*registration = memory;
	n_registered += r == 0;
	return r;
}

static void unregister_arena(void *context, const void *registration)
{
	(void)context;
	scripted_backend_ops.unregister_memory((struct backend_memory *)registration);
	n_registered--;
}

static void emptied(void *context)
{
	(void)context;
	if (!is_given_back)
		abort();
}

static void send_time(void *, const char **keeper, const char **why)
{
	*keeper = "worker";
	*why = "";
}

static void said(void *context, const struct control_channel *known, const struct mail *mail)
{
	(void)context;
	(void)known;
	if (mail->error || mail->type != (is_taken_out ? MAIL_TX_QUEUE_REMOVED : MAIL_TX_QUEUE_ADDED))
		abort();
	is_added = true;
	if (!is_taken_out)
		return;
	tx_queue_close(channel);
	is_given_back = true;
}

static void make_transmit(void)
{
	must(tx_worker_new(&transmit, &(struct worker_options){.name = "o", .cpu = -1}));
	control_tx_worker = (struct control_tx_worker){.inbox = transmit->inbox,
	                                               .outbox = transmit->outbox,
	                                               .epoll = tx_worker_epoll(transmit),
	                                               .doorbell = tx_worker_doorbell(transmit),
	                                               .said = said};
	must(control_add_tx_worker(control, &control_tx_worker));
}

static void make_channel(void)
{
	const struct tx_queue_options options = {.name = "o",
	                                         .backend = backend,
	                                         .queue_slots = SLOTS,
	                                         .slot_bytes = 64,
	                                         .n_destinations = 1,
	                                         .completion_events = true};
	struct mail mail = {.type = MAIL_ADD_TX_QUEUE};

	must(tx_queue_new(&channel, &options, NULL));
	mail.tx_queue = channel;
	must(mailbox_send(transmit->inbox, &mail));
	control_channel = (struct control_channel){
		.config = &out,
		.worker = &control_tx_worker,
		.queue = channel,
		.counters = channel->counters,
		.epoch = 1,
		.state = "sending",
		.register_arena = register_arena,
		.unregister_arena = unregister_arena,
		.send_time = send_time,
		.emptied = emptied,
	};
	must(control_add_channel(control, &control_channel));
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct backend_queue *queue = make_worker();

	(void)argc;
	(void)argv;
	control_queue = (struct control_queue){
		.ring = &ring, .inbox = worker->inbox, .outbox = worker->outbox, .state = "capturing"};
	control_stream = (struct control_stream){
		.config = &stream,
		.matched = &matched,
		.losses = &ledger,
		.interface_lost = &lost,
		.interface_uncounted = &uncounted,
		.n_queues = 1,
		.queues = {&control_queue},
	};
	reading_init(&lost, read_lost, NULL);
	reading_init(&matched, read_matched, queue);
	must(sd_event_new(&event));
	snprintf(config.socket_path, sizeof(config.socket_path), "/tmp/fuzz-control-%d.sock", (int)getpid());
	must(listener_open(&listener, config.socket_path, 0600, (gid_t)-1, NULL));
	unlink(config.socket_path);
	const struct control_options options = {.config = &config,
	                                        .event = event,
	                                        .listener = &listener,
	                                        .worker_ended = worker_ended,
	                                        .reconfigure = change,
	                                        .lent_bytes = lent_bytes,
	                                        .open_lent = open_lent,
	                                        .closed_why = closed_why};

	must(control_new(&control, &options, NULL));
	must(control_add_stream(control, &control_stream));
	make_transmit();
	make_channel();
	return 0;
}

/* Bytes used. */
static size_t send_message(int fd, const uint8_t *data, size_t size)
{
	static const size_t sizes[] = {[PROTOCOL_ATTACH] = sizeof(struct protocol_attach),
	                               [PROTOCOL_STATUS] = sizeof(struct protocol_bare),
	                               [PROTOCOL_RECONFIGURE] = sizeof(struct protocol_reconfigure),
	                               [PROTOCOL_OPEN_CHANNEL] = sizeof(struct protocol_open_channel),
	                               [PROTOCOL_MAPPED] = sizeof(struct protocol_bare),
	                               [PROTOCOL_LENT] = sizeof(struct protocol_lent)};
	uint8_t kind = data[0];
	size_t body = data[1] * 8u;
	union protocol_message message = {0};
	size_t bytes;

	body = body < size - 2 ? body : size - 2;
	if (kind == 0) {
		send(fd, data + 2, body, MSG_DONTWAIT | MSG_NOSIGNAL);
		return 2 + body;
	}
	bytes = kind < sizeof(sizes) / sizeof(sizes[0]) && sizes[kind] ? sizes[kind]
	                                                               : sizeof(struct protocol_header) + body;
	protocol_init(&message.header, kind, bytes);
	memcpy(message.bytes + sizeof(struct protocol_header), data + 2,
	       body < bytes - sizeof(struct protocol_header) ? body : bytes - sizeof(struct protocol_header));
	send(fd, &message, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
	return 2 + body;
}

static void work(void)
{
	must(rx_worker_do_work(worker));
	tx_worker_do_work(transmit, &(struct tx_clock_sample){0});
}

/* Its round ended just before that mail came. */
static void work_without_mail(void)
{
	static struct mail held[1024];
	size_t n = 0;

	while (n < sizeof(held) / sizeof(held[0]) && mailbox_receive(transmit->inbox, &held[n]))
		n++;
	work();
	for (size_t i = 0; i < n; i++)
		must(mailbox_send(transmit->inbox, &held[i]));
}

/* And the next reload puts it in again. */
static void do_control(void)
{
	users_drain(&control->users);
	must(sd_event_run(event, 0));
	if (is_opening)
		control_opened_lent(control, -EINVAL, "refused by the device");
	is_opening = false;
	if (!is_given_back || !control_channel_is_empty(&control_channel))
		return;
	control_remove_channel(&control_channel);
	tx_queue_free(channel);
	is_added = is_taken_out = is_given_back = false;
	make_channel();
}

static void turn(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		work();
		do_control();
	}
}

static void take_out(void)
{
	const struct mail remove = {.type = MAIL_REMOVE_TX_QUEUE, .tx_queue = channel};

	if (is_taken_out)
		return;
	for (int i = 0; i < 1000 && !is_added; i++)
		turn(1);
	is_taken_out = true;
	control_end_channel(&control_channel, IBVCAP_DISCONNECT_REMOVED);
	must(mailbox_send(transmit->inbox, &remove));
}

static int come(void)
{
	int fds[2];

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds));
	must(session_new(control, fds[0]));
	return fds[1];
}

static void lend(int fd, uint8_t step)
{
	struct protocol_lent message = {.offset = step & 1 ? 0 : 4096};
	int memory = memfd_create("lent", MFD_CLOEXEC);

	must(memory);
	must(ftruncate(memory, LENT_BYTES));
	protocol_init(&message.header, PROTOCOL_LENT, sizeof(message));
	(void)protocol_send(fd, &message.header, &memory, 1);
	close(memory);
}

/* The client's end of its connection from then on. */
static int take_step(int fd, uint8_t step)
{
	switch ((enum step)(step % STEPS_N)) {
	case TAKE_OUT:
		take_out();
		break;
	case HANG_UP:
		close(fd);
		fd = come();
		break;
	case WORKER_WORKS:
		work();
		break;
	case WORKER_WAS_EARLIER:
		work_without_mail();
		break;
	case CONTROL_WORKS:
		do_control();
		break;
	case LEND:
		lend(fd, step);
		break;
	case STEPS_N:
		break;
	}
	return fd;
}

static bool is_at_rest(void)
{
	return control->users.n_sessions == 0 && !is_taken_out && TAILQ_EMPTY(&control->lends) && !control->lending &&
	       TAILQ_FIRST(&control->rx_streams)->queues[0]->endpoint.n_clients == 0 &&
	       TAILQ_FIRST(&control->tx_endpoints)->endpoint.n_clients == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = come();

	while (size >= 2) {
		size_t used = 2;

		if (data[0] == STEP) {
			fd = take_step(fd, data[1]);
		} else {
			used = send_message(fd, data, size);
			turn(3);
		}
		data += used;
		size -= used;
	}
	close(fd);
	for (int i = 0; i < 1000 && !is_at_rest(); i++)
		turn(1);
	if (!is_at_rest() || ring.n_consumers || n_registered || channel->n_senders)
		abort();
	return 0;
}
