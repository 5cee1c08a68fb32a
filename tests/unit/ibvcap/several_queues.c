// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/ibvcap/several_queues.h"

#include "lib/ibvcap/ring.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_MS 10000

struct attached queues[QUEUES_MAX], next_queues[QUEUES_MAX];
struct ibvcap_rx *rx;
struct ibvcap_rx_batch batch;
static char directory[] = "/tmp/ibvcap-queues-XXXXXX";
static char path[64];
static int listener;

/* ---- the socket ------------------------------------------------------------------------------------- */

void set_up_queues(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	cr_assert(mkdtemp(directory) != NULL);
	snprintf(path, sizeof(path), "%s/s", directory);
	strcpy(address.sun_path, path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert(eq(int, bind(listener, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, listen(listener, 64), 0));
}

void end_queue(struct attached *of)
{
	if (!of->ring.ring)
		return;
	of->rx = NULL;
	attached_deinit(of);
	*of = (struct attached){0};
}

void tear_down_queues(void)
{
	ibvcap_rx_close(rx);
	for (uint32_t i = 0; i < QUEUES_MAX; i++) {
		end_queue(&queues[i]);
		end_queue(&next_queues[i]);
	}
	close(listener);
	unlink(path);
	rmdir(directory);
}

const char *queues_path(void)
{
	return path;
}

bool is_readable(int fd, int ms)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, ms) == 1;
}

bool is_asked(int ms)
{
	return is_readable(listener, ms);
}

/* A handle that searches the next daemon gives a connection a millisecond, and tries again in a later call. */
static void wait_for_request(void)
{
	struct ibvcap_rx_batch unused = IBVCAP_INIT(struct ibvcap_rx_batch);

	for (int ms = 0; !is_asked(5); ms += 5) {
		cr_assert(lt(int, ms, PATIENCE_MS), "no client asks");
		if (rx)
			cr_assert(le(int, ibvcap_rx_acquire(rx, &unused, N, 1, 0), 0));
	}
}

int try_accept_request(union protocol_message *request)
{
	int fd, r;

	wait_for_request();
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	cr_assert(ge(int, fd, 0));
	cr_assert(is_readable(fd, PATIENCE_MS), "the client sends no request");
	r = protocol_recv(fd, request, NULL, NULL);
	if (r == 0) {
		close(fd);
		return -1;
	}
	cr_assert(eq(int, r, 1));
	cr_assert(eq(u16, request->header.type, PROTOCOL_ATTACH));
	cr_expect(eq(str, request->attach.stream, (char *)"test"));
	return fd;
}

int accept_request(union protocol_message *request)
{
	int fd = try_accept_request(request);

	cr_assert(ge(int, fd, 0), "the client has hung up");
	return fd;
}

static void send_attached(int fd, struct attached *of, uint64_t abandoned, bool taken_over, unsigned n)
{
	struct protocol_attached message = {.epoch = of->epoch ? of->epoch : EPOCH};
	int fds[PROTOCOL_FD_N], unused, r;

	of->start.where = IBVCAP_START_OLDEST;
	attached_prepare(of, fds, &unused);
	of->consumer.state->taken_over = taken_over;
	of->consumer.state->abandoned = abandoned;
	close(unused);
	close(of->daemon_socket);
	of->daemon_socket = fd;
	protocol_init(&message.header, PROTOCOL_ATTACHED, sizeof(message));
	r = protocol_send(fd, &message.header, fds, n);
	cr_assert(r == 0 || r == -EPIPE, "%d", r); /* a client that fails hangs up */
	for (unsigned i = 0; i < PROTOCOL_FD_N; i++)
		close(fds[i]);
}

void answer(int fd, struct attached *of)
{
	send_attached(fd, of, 0, false, PROTOCOL_FD_N);
}

void answer_taken_over(int fd, struct attached *of, uint64_t abandoned)
{
	send_attached(fd, of, abandoned, true, PROTOCOL_FD_N);
}

void answer_tap(int fd, struct attached *of)
{
	send_attached(fd, of, 0, false, PROTOCOL_FD_TAP_N);
}

void refuse(int fd, int error)
{
	struct protocol_error message = {.error = error, .text = "refused by the test"};

	protocol_init(&message.header, PROTOCOL_ERROR, sizeof(message));
	cr_assert(eq(int, protocol_send(fd, &message.header, NULL, 0), 0));
	close(fd);
}

void answer_joined(int fd, uint64_t epoch, uint32_t n_queues)
{
	struct protocol_joined message = {.epoch = epoch, .n_queues = n_queues};
	int r;

	protocol_init(&message.header, PROTOCOL_JOINED, sizeof(message));
	r = protocol_send(fd, &message.header, NULL, 0);
	cr_assert(r == 0 || r == -EPIPE, "%d", r);
}

void recall(struct attached *of)
{
	struct protocol_bare message;

	daemon_recall(&of->consumer.state->link);
	protocol_init(&message.header, PROTOCOL_RECALLED, sizeof(message));
	cr_assert(eq(int, protocol_send(of->daemon_socket, &message.header, NULL, 0), 0));
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static pthread_t opener;
static struct ibvcap_rx_options opener_options;
static int opener_result;
static char opener_text[1024];

static void *open_there(void *unused)
{
	opener_result = ibvcap_rx_open(path, "test", &opener_options, &rx);
	snprintf(opener_text, sizeof(opener_text), "%s", ibvcap_error_text());
	return unused;
}

void begin_open(const struct ibvcap_rx_options *options)
{
	opener_options = *options;
	cr_assert(eq(int, pthread_create(&opener, NULL, open_there, NULL), 0));
}

int end_open(const char **error_text)
{
	cr_assert(eq(int, pthread_join(opener, NULL), 0));
	if (error_text)
		*error_text = opener_text;
	return opener_result;
}

void answer_requests(struct attached *of, uint32_t n_queues, uint64_t epoch, uint32_t n_requests)
{
	union protocol_message request;

	for (uint32_t i = 0; i < n_requests; i++) {
		int fd = accept_request(&request);
		uint32_t queue = request.attach.queue;

		cr_assert(lt(u32, queue, n_queues));
		of[queue].queue = queue;
		of[queue].n_queues = n_queues;
		of[queue].epoch = epoch;
		if (request.attach.policy == IBVCAP_POLICY_TAP)
			answer_tap(fd, &of[queue]);
		else
			answer(fd, &of[queue]);
	}
}

void open_all_queues(struct attached *of, uint32_t n, const struct ibvcap_rx_options *options)
{
	struct ibvcap_rx_options all = {.size = sizeof(all)};
	const char *error_text;
	int r;

	if (options)
		all = *options;
	all.queue = IBVCAP_QUEUE_ALL;
	begin_open(&all);
	answer_requests(of, n, EPOCH, n);
	r = end_open(&error_text);
	cr_assert(eq(int, r, 0), "%s", error_text);
}

/* ---- a member of a group ------------------------------------------------------------------------------ */

int asking;
union protocol_message last_request;

void join_with(struct ibvcap_rx_options options, uint32_t n_queues)
{
	options.size = sizeof(options);
	strcpy(options.group, "work");
	begin_open(&options);
	asking = accept_request(&last_request);
	answer_joined(asking, EPOCH, n_queues);
	cr_assert(eq(int, end_open(NULL), 0));
}

void join(uint32_t n_queues)
{
	join_with((struct ibvcap_rx_options){0}, n_queues);
}

void prepare(struct attached *of, uint32_t queue, uint32_t n_queues, uint64_t epoch)
{
	*of = (struct attached){.queue = queue, .n_queues = n_queues, .epoch = epoch};
}

void give(struct attached *of, uint32_t queue, uint32_t n_queues, uint64_t epoch)
{
	prepare(of, queue, n_queues, epoch);
	answer(asking, of);
	cr_assert(eq(int, take(N), 0));
	cr_assert(eq(int, take(N), 0));
}

void expect_next_request(uint32_t n_queues)
{
	asking = accept_request(&last_request);
	answer_joined(asking, EPOCH, n_queues);
}

/* ---- reading ---------------------------------------------------------------------------------------- */

int take(uint32_t max)
{
	batch = (struct ibvcap_rx_batch)IBVCAP_INIT(struct ibvcap_rx_batch);
	return ibvcap_rx_acquire(rx, &batch, max, 1, 0);
}

void expect_rows(uint32_t queue, uint32_t n, uint32_t flags)
{
	int r = take(UINT32_MAX);

	cr_assert(eq(int, r, (int)n), "%s", ibvcap_error_text());
	cr_expect(eq(u32, batch.queue, queue));
	cr_expect(eq(u32, batch.flags, flags));
	cr_assert(eq(int, ibvcap_rx_release(rx, &batch), 0));
}

struct ibvcap_rx_counts counts_of_rx(void)
{
	struct ibvcap_rx_counts counts = IBVCAP_INIT(struct ibvcap_rx_counts);

	cr_assert(eq(int, ibvcap_rx_counts(rx, &counts), 0));
	cr_expect(eq(u64, counts.published, counts.delivered + counts.skipped + counts.lag), "the sum is exact");
	return counts;
}

struct ibvcap_rx_info info_of_rx(void)
{
	struct ibvcap_rx_info info = IBVCAP_INIT(struct ibvcap_rx_info);

	cr_assert(eq(int, ibvcap_rx_info(rx, &info), 0));
	return info;
}

/* ---- what the daemon sees of the client ---------------------------------------------------------------- */

void notify(struct attached *of)
{
	uint64_t at = daemon_load_wake_request(&of->consumer.page->wake);

	if (at == 0 || at > of->ring.head)
		return;
	if (daemon_load_wake_socket(&of->consumer.page->wake)) {
		cr_assert(eq(int, (int)write(of->daemon_wake, "", 1), 1));
		return;
	}
	daemon_bump_wake_word(&of->consumer.state->link);
	client_wake(&of->consumer.state->link, &of->consumer.page->wake, -1);
}

bool has_hung_up(const struct attached *of)
{
	struct pollfd poller = {.fd = of->daemon_socket, .events = POLLRDHUP};

	return poll(&poller, 1, 0) == 1 && poller.revents & (POLLRDHUP | POLLHUP);
}

unsigned count_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}
