// SPDX-License-Identifier: Apache-2.0
/*
 * Every allocation and system call of a request, a placer, an attach, of the way into the next epoch and of the
 * descriptor fails once, by countdown: the reader goes on or says why, and nothing stays open, mapped or allocated. The
 * daemon is a child.
 */
#include "lib/ibvcap/client/error.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/status_part.h"
#include "tests/unit/ibvcap/attached.h"
#include "tests/unit/ibvcap/failing.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ibvcap/place.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS_MAX 1000

static char directory[] = "/tmp/ibvcap-fail-XXXXXX";
static char path[64];
static struct attached a, b; /* the epoch that has ended; the next */
static int fds_of_b[PROTOCOL_FD_N];
static pid_t daemon_pid;

/* ---- the next daemon ------------------------------------------------------------------------------ */

/* An empty one, which is in order. */
static void send_message(int fd, enum protocol_type type, size_t bytes)
{
	union protocol_message message = {0};

	protocol_init(&message.header, type, bytes);
	protocol_send(fd, &message.header, NULL, 0);
}

static void send_status(int fd)
{
	struct protocol_part message;

	for (int i = 0; i < 2; i++) {
		for (unsigned kind = 0; kind < STATUS_N_PARTS; kind++) {
			size_t part[256] = {status_parts[kind].bytes};

			status_part_build(&message, kind, part, NULL, 0);
			protocol_send(fd, &message.header, NULL, 0);
		}
	}
	send_message(fd, PROTOCOL_END, sizeof(struct protocol_header));
}

static void send_ring(int fd, bool tap)
{
	struct protocol_attached answer = {.epoch = b.epoch};

	protocol_init(&answer.header, PROTOCOL_ATTACHED, sizeof(answer));
	protocol_send(fd, &answer.header, fds_of_b, tap ? PROTOCOL_FD_TAP_N : PROTOCOL_FD_N);
}

static void serve(int fd)
{
	union protocol_message request;

	if (protocol_recv(fd, &request, NULL, NULL) != 1)
		return;
	usleep(5000); /* so that who asks has to wait */
	if (request.header.type == PROTOCOL_ATTACH)
		send_ring(fd, request.attach.policy == IBVCAP_POLICY_TAP);
	else if (request.header.type == PROTOCOL_STATUS)
		send_status(fd);
	else
		send_message(fd, PROTOCOL_DONE, sizeof(struct protocol_done));
}

/* A connection is kept until the next comes. */
static void run_daemon(int listener)
{
	int last = -1, fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		serve(fd);
		close(last);
		last = fd;
	}
	_exit(1);
}

static void set_up(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), unused;

	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/s", directory);
	strcpy(address.sun_path, path);
	cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(listener, 8), 0);
	b.epoch = EPOCH + 1;
	attached_prepare(&b, fds_of_b, &unused);
	attached_publish(&b, 3);
	daemon_pid = fork();
	if (daemon_pid == 0)
		run_daemon(listener);
	close(listener);
}

static void tear_down(void)
{
	kill(daemon_pid, SIGKILL);
	waitpid(daemon_pid, NULL, 0);
	unlink(path);
	rmdir(directory);
}

TestSuite(failures, .init = set_up, .fini = tear_down, .timeout = 110);

/* ---- what is there ------------------------------------------------------------------------------- */

struct footprint {
	unsigned fds;
	unsigned mappings;
};

/* The marks of owner.h. */
static unsigned count_wiped_mappings(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	char line[512];
	unsigned n = 0;

	cr_assert_not_null(smaps);
	while (fgets(line, sizeof(line), smaps))
		n += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " wf") != NULL;
	fclose(smaps);
	return n;
}

static struct footprint footprint(void)
{
	struct footprint now = {0};
	char line[512];
	FILE *maps;

	for (int fd = 0; fd < 256; fd++)
		now.fds += fcntl(fd, F_GETFD) >= 0;
	maps = fopen("/proc/self/maps", "re");
	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps))
		now.mappings += strstr(line, "memfd:") != NULL;
	fclose(maps);
	now.mappings += count_wiped_mappings();
	return now;
}

static void expect_as_before(const struct footprint *before, int n)
{
	struct footprint now = footprint();

	cr_expect_eq(failing_stop_counting(), 0, "call %d: memory", n);
	cr_expect_eq(now.fds, before->fds, "call %d: %u descriptors, and %u before", n, now.fds, before->fds);
	cr_expect_eq(now.mappings, before->mappings, "call %d: %u mappings, and %u before", n, now.mappings,
	             before->mappings);
}

static void expect_said(int error, int n)
{
	cr_expect_lt(error, 0, "call %d", n);
	cr_expect(ibvcap_error_text()[0] != '\0', "call %d: %s, and not a word about it", n, strerror(-error));
}

static bool fired_and_over(void)
{
	bool fired = failing_has_fired();

	failing_after(-1);
	return fired;
}

/* One call of the library, which gives all back that it got. 0 or -errno. */
typedef int one_call(int n);

static void with_each_failing(one_call *call, int at_least)
{
	const struct footprint before = footprint();

	for (int n = 0; n < CALLS_MAX; n++) {
		int r;

		failing_count_memory();
		error_set_text("%s", "");
		failing_after(n);
		r = call(n);
		if (!fired_and_over()) {
			cr_expect_eq(r, 0);
			cr_expect_geq(n, at_least);
			return;
		}
		if (r < 0)
			expect_said(r, n);
		expect_as_before(&before, n);
	}
	cr_assert_fail("no end");
}

/* ---- asking --------------------------------------------------------------------------------------- */

static int ask_status(int n)
{
	struct ibvcap_status *status = NULL;
	int r = ibvcap_status(path, 0, &status);

	cr_expect_eq(status != NULL, r == 0, "call %d", n);
	ibvcap_status_free(status);
	return r;
}

Test(failures, a_status_that_fails_leaves_nothing)
{
	with_each_failing(ask_status, 25);
}

static int ask_change(int n)
{
	char said[100] = "as before";
	int r = ibvcap_reconfigure(path, IBVCAP_RECONFIGURE_RELOAD, NULL, NULL, said, sizeof(said), 0);

	cr_expect_eq(said[0] == '\0', r == 0, "call %d", n);
	return r;
}

Test(failures, so_does_a_change)
{
	with_each_failing(ask_change, 5);
}

/* ---- placement ----------------------------------------------------------------------------------- */

/* The arrays are kept, so that each packet needs memory. A packet that fails for want of it is placed when there is. */
static int place_packets(int n)
{
	const struct ibvcap_sequence sequence = {
		.bytes = 1, .step = 1, .upper_step = 1, .window = 64, .jump = 100, .source = IBVCAP_SOURCE_NONE};
	const struct ibvcap_placer_options options = {.size = sizeof(options), .numbers = 1, .row_bytes = 1};
	struct ibvcap_place_array array = IBVCAP_INIT(struct ibvcap_place_array);
	struct ibvcap_placer *placer = NULL;
	int failed = 0, r = ibvcap_placer_new(&sequence, &options, &placer);

	for (uint8_t number = 0; r >= 0 && number < 4;) {
		const struct ibvcap_packet packet = {.row = &number, .row_bytes = 1};

		r = ibvcap_place_add_packet(placer, &packet, 0, 0, NULL);
		if (r < 0 && !failed++)
			r = 0;
		else
			number++;
	}
	for (uint8_t number = 0; r >= 0 && number < 4; number++) {
		cr_expect_eq(ibvcap_place_next(placer, &array), 1, "call %d", n);
		cr_expect_eq(array.payload[0], number, "call %d", n);
	}
	ibvcap_placer_free(placer);
	return r < 0 || failed ? -ENOMEM : 0;
}

Test(failures, a_placer_that_gets_no_memory_loses_no_packet)
{
	with_each_failing(place_packets, 10);
}

/* ---- attach -------------------------------------------------------------------------------------- */

static int attach(enum ibvcap_policy policy, int n)
{
	const struct ibvcap_rx_options options = {
		.size = sizeof(options), .policy = policy, .start = IBVCAP_START_OLDEST};
	struct ibvcap_rx *rx = NULL;
	int r = ibvcap_rx_open(path, "test", &options, &rx);

	cr_expect_eq(rx != NULL, r == 0, "call %d", n);
	ibvcap_rx_close(rx);
	return r;
}

static int attach_reader(int n)
{
	return attach(IBVCAP_POLICY_LOSSY, n);
}

static int attach_tap(int n)
{
	return attach(IBVCAP_POLICY_TAP, n);
}

Test(failures, an_attach_that_fails_leaves_nothing)
{
	with_each_failing(attach_reader, 25);
}

Test(failures, so_does_a_taps)
{
	with_each_failing(attach_tap, 15);
}

/* ---- into the next epoch ------------------------------------------------------------------------- */

/* A reader of an epoch that has ended, all of it delivered. */
static void begin(enum ibvcap_policy policy)
{
	const struct ibvcap_rx_options options = {.size = sizeof(options), .policy = policy, .reattach_ms = 60000};
	int fds[PROTOCOL_FD_N], socket;

	attached_prepare(&a, fds, &socket);
	for (unsigned i = PROTOCOL_FD_TAP_N; policy == IBVCAP_POLICY_TAP && i < PROTOCOL_FD_N; i++) {
		close(fds[i]);
		fds[i] = -1;
	}
	failing_count_memory();
	cr_assert_eq(attached_open(&a.rx, socket, fds, EPOCH, path, &options), 0);
}

static void end(const struct footprint *before, int n)
{
	ibvcap_rx_close(a.rx);
	a.rx = NULL;
	failing_after(-1);
	cr_expect_eq(failing_stop_counting(), 0, "call %d: memory", n);
	attached_deinit(&a);
	expect_as_before(before, n);
}

/* A row of the next epoch, or why there is none for good. Woken by the descriptor alone, if there is one. */
static int receive(struct ibvcap_rx *rx, int fd)
{
	struct epoll_event event;
	uint64_t number;
	size_t length;
	int r;

	do {
		r = ibvcap_rx_recv(rx, &number, sizeof(number), &length, NULL, fd < 0 ? 50 : 0);
		if (r == 0 && fd >= 0)
			cr_assert_eq(epoll_wait(fd, &event, 1, 30000), 1, "nobody was woken");
	} while (r == 0 || (r < 0 && !rx->parts[0]->reattach.error));
	cr_expect(r < 0 || number == 0);
	return r;
}

static void go_on_with_each_failing(enum ibvcap_policy policy, bool polls, int at_least)
{
	const struct footprint before = footprint();

	for (int n = 0; n < CALLS_MAX; n++) {
		bool fired;
		int fd, r;

		begin(policy);
		fd = polls ? ibvcap_rx_fd(a.rx) : -1;
		daemon_close_ring(a.ring.ring, IBVCAP_RING_END_STOPPED);
		error_set_text("%s", "");
		failing_after(n);
		r = receive(a.rx, fd);
		fired = fired_and_over();
		/* What came with the answer can't be looked at: the one thing that is final. */
		cr_expect(r == 1 || r == -EPROTO, "call %d: %s (%s)", n, strerror(-r), ibvcap_error_text());
		if (r < 0)
			expect_said(r, n);
		else
			cr_expect_eq(a.rx->parts[0]->info.epoch, b.epoch);
		end(&before, n);
		if (!fired) {
			cr_expect_geq(n, at_least);
			return;
		}
	}
	cr_assert_fail("no end");
}

Test(failures, a_reader_goes_on_in_the_next_epoch_or_says_why_not)
{
	go_on_with_each_failing(IBVCAP_POLICY_LOSSY, false, 25);
}

Test(failures, one_that_polls_is_woken_until_it_does)
{
	go_on_with_each_failing(IBVCAP_POLICY_LOSSY, true, 25);
}

Test(failures, a_tap_goes_on_too)
{
	go_on_with_each_failing(IBVCAP_POLICY_TAP, false, 15);
}

Test(failures, a_descriptor_that_cannot_be_had_can_be_asked_for_again)
{
	const struct footprint before = footprint();
	bool fired = true;

	for (int n = 0; fired; n++) {
		int fd;

		begin(IBVCAP_POLICY_LOSSY);
		error_set_text("%s", "");
		failing_after(n);
		fd = ibvcap_rx_fd(a.rx);
		fired = fired_and_over();
		if (fired)
			expect_said(fd, n);
		cr_expect_geq(ibvcap_rx_fd(a.rx), 0);
		end(&before, n);
		cr_assert_lt(n, CALLS_MAX);
	}
}
