// SPDX-License-Identifier: Apache-2.0
/* Triggers of the flight recorder. The daemon's status is the test's. */
#include "lib/base/time.h"
#include "tests/unit/tools/captured.h"
#include "tools/common/stop_signal.h"
#include "tools/record/record.h"
#include "tools/status/status_view.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

/* On a machine that is busy, the child ends before its parent runs again. */
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
	const struct timespec until_it_ended = {.tv_nsec = 300000000};
	int r = __real_posix_spawn(pid, path, actions, attributes, arguments, environment);

	nanosleep(&until_it_ended, NULL);
	return r;
}

TestSuite(trigger, .timeout = 20);

Test(trigger, a_command_that_has_ended_before_it_is_looked_at_is_a_trigger)
{
	struct triggers triggers = {.kinds = {.command = "exit 3"}};
	struct trigger_window window;

	signal(SIGCHLD, SIG_IGN); /* as the recorder does */
	cr_assert_eq(triggers_open(&triggers), EX_OK);
	cr_assert(triggers_wait(&triggers, &window));
	cr_expect_str_eq(window.text, "the end of the command 'exit 3'");
	cr_expect(!triggers_can_come(&triggers) && triggers.code == EX_OK);
	triggers_close(&triggers);
}

Test(trigger, a_command_that_sh_does_not_find_is_a_trigger_and_a_fault)
{
	struct triggers triggers = {.kinds = {.command = "exit 127"}};
	struct trigger_window window;
	const char *said;
	siginfo_t end;
	pid_t other;

	cr_assert_eq(triggers_open(&triggers), EX_OK);
	other = fork(); /* as a command of --command */
	if (other == 0)
		_exit(0);
	waitid(P_PID, (id_t)other, &end, WEXITED | WNOWAIT);
	captured_begin();
	cr_assert(triggers_wait(&triggers, &window));
	said = captured_end();
	cr_expect(strstr(said, "--trigger 'exit:exit 127': it ended with 127, as sh does"), "%s", said);
	cr_expect(triggers.code == EX_UNAVAILABLE && waitpid(-1, NULL, WNOHANG) < 0, "no child is left");
	triggers_close(&triggers);
}

/* ---- the command line ------------------------------------------------------------------------------ */

Test(trigger, places_for_messages)
{
	struct trigger_kinds kinds = {0};

	cr_expect(trigger_parse("udp:5", &kinds));
	cr_expect(kinds.message.sin_family == AF_INET && kinds.message.sin_port == htons(5));
	cr_expect_eq(kinds.message.sin_addr.s_addr, htonl(INADDR_LOOPBACK), "nobody else can trigger");
	cr_expect(trigger_parse("udp:192.168.100.200:65535", &kinds));
	cr_expect_eq(kinds.message.sin_addr.s_addr, htonl(0xc0a864c8));
	cr_expect_eq(kinds.message.sin_port, 0xffff);
	cr_expect_not(trigger_parse("udp:0", &kinds) || trigger_parse("udp:65536", &kinds) ||
	              trigger_parse("udp:", &kinds) || trigger_parse("udp:x", &kinds) ||
	              trigger_parse("udp:-5", &kinds) || trigger_parse("udp:5x", &kinds) ||
	              trigger_parse("udp::5", &kinds) || trigger_parse("udp:1.2.3:5", &kinds) ||
	              trigger_parse("udp:192.168.100.2000:5", &kinds));
}

Test(trigger, kinds_of_triggers)
{
	struct trigger_kinds kinds = {0};

	cr_expect_not(trigger_parse("exit:", &kinds) || trigger_parse("signals", &kinds) || trigger_parse("", &kinds));
	cr_expect(!kinds.signal && !kinds.loss && !kinds.command);
	cr_expect(trigger_parse("signal", &kinds) && kinds.signal && !kinds.loss);
	cr_expect(trigger_parse("loss", &kinds) && kinds.loss);
	cr_expect(trigger_parse("exit:make all", &kinds));
	cr_expect_str_eq(kinds.command, "make all");
}

/* ---- signals and messages -------------------------------------------------------------------------- */

Test(trigger, a_signal_is_a_trigger_from_the_first_to_the_last_of_them)
{
	struct triggers triggers = {.kinds = {.signal = true}};
	struct trigger_window window;
	uint64_t begin_ns = time_utc_ns();

	cr_assert_eq(triggers_open(&triggers), EX_OK);
	cr_expect(triggers_can_come(&triggers));
	raise(SIGUSR2);
	usleep(2000);
	raise(SIGUSR2);
	cr_assert(triggers_wait(&triggers, &window));
	cr_expect_str_eq(window.text, "SIGUSR2");
	cr_expect_geq(window.first_ns, begin_ns);
	cr_expect_geq(window.last_ns, window.first_ns + 2000000);
	raise(SIGUSR2);
	begin_ns = window.last_ns;
	cr_assert(triggers_wait(&triggers, &window));
	cr_expect_gt(window.first_ns, begin_ns, "a trigger is one of one file");
	triggers_close(&triggers);
}

static void stop_soon(int number)
{
	(void)number;
	raise(SIGTERM);
}

/* Wait at most some seconds. */
static bool wait_a_little(struct triggers *triggers, struct trigger_window *window, unsigned ms)
{
	const struct itimerval timer = {.it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}};
	bool r;

	stop_signal_catch();
	signal(SIGALRM, stop_soon);
	setitimer(ITIMER_REAL, &timer, NULL);
	r = triggers_wait(triggers, window);
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	return r;
}

static void open_messages(struct triggers *triggers)
{
	struct sockaddr_in *place = &triggers->kinds.message;
	socklen_t bytes = sizeof(*place);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	/* A port that is free. */
	*place = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	cr_assert_eq(bind(fd, (struct sockaddr *)place, sizeof(*place)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)place, &bytes), 0);
	cr_expect_eq(triggers_open(triggers), EX_OSERR, "another program has the port");
	triggers_close(triggers);
	close(fd);
	cr_assert_eq(triggers_open(triggers), EX_OK);
}

Test(trigger, messages_are_triggers_and_many_of_them_share_a_file)
{
	struct triggers triggers = {0};
	struct trigger_window window;
	struct sockaddr_in own;
	socklen_t bytes = sizeof(own);
	char text[80];
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	open_messages(&triggers);
	cr_expect(triggers_can_come(&triggers));
	cr_assert_eq(connect(fd, (struct sockaddr *)&triggers.kinds.message, sizeof(own)), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&own, &bytes), 0);
	snprintf(text, sizeof(text), "a UDP message from 127.0.0.1:%u", ntohs(own.sin_port));
	for (unsigned i = 0; i < 10; i++) {
		uint64_t begin_ns = time_utc_ns();

		cr_assert_eq(send(fd, "x", 1, 0), 1);
		usleep(2000);
		cr_assert_eq(send(fd, "x", 1, 0), 1);
		usleep(3000);
		cr_assert(triggers_wait(&triggers, &window));
		cr_expect_str_eq(window.text, text);
		cr_expect(window.first_ns >= begin_ns && window.last_ns >= window.first_ns &&
		          window.last_ns <= time_utc_ns());
		/* The kernel notes the time of a message only some time after it was asked to. */
		if (i == 9)
			cr_expect(window.last_ns > window.first_ns + 1000000 &&
			          window.last_ns + 2000000 < time_utc_ns());
		usleep(i == 8 ? 200000 : 0);
	}
	cr_assert_eq(send(fd, "x", 1, 0), 1);
	cr_expect_not(wait_a_little(&triggers, &window, 500), "ten files at once, and no more");
	cr_expect(triggers.messages.first_ns);
	cr_expect_gt(triggers.messages_until_ns, time_monotonic_ns() + 90 * TIME_SECOND_NS, "one in 10 s");
	cr_expect_leq(triggers.messages_until_ns, time_monotonic_ns() + 100 * TIME_SECOND_NS);
	close(fd);
	triggers_close(&triggers);
}

/* ---- losses ---------------------------------------------------------------------------------------- */

static struct ibvcap_counter counters[4][2];
static struct ibvcap_status_stream streams[4];
static int status_error;
static unsigned n_looks;

int __wrap_status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms);
void __wrap_status_view_deinit(struct status_view *view);

void __wrap_status_view_deinit(struct status_view *view)
{
	*view = (struct status_view){0};
}

/* Queues of "lidar" have the stream's no_buffer and their own errors; "other" is not recorded. */
static void make_status(uint64_t no_buffer, uint64_t first_errored, uint64_t second_errored, uint64_t other)
{
	const uint64_t errored[] = {first_errored, second_errored, other};

	for (unsigned i = 0; i < 3; i++) {
		strcpy(streams[i].name, i < 2 ? "lidar" : "other");
		streams[i].queue = i % 2;
		streams[i].epoch = 5;
		streams[i].counters = counters[i];
		streams[i].n_counters = 2;
		counters[i][0].label = "no_buffer";
		counters[i][1].label = "errored";
		counters[i][0].value = i < 2 ? no_buffer : other;
		counters[i][1].value = errored[i];
	}
}

/* Each look is the next step. */
int __wrap_status_view_ask(struct status_view *view, const char *socket_path, uint32_t timeout_ms)
{
	(void)socket_path;
	(void)timeout_ms;
	*view = (struct status_view){.streams = streams, .n_streams = 3};
	switch (n_looks++) {
	case 0:
		make_status(100, 10, 0, 0);
		break;
	case 1:
		make_status(100, 10, 0, 1000);
		break;
	case 2:
		make_status(107, 10, 3, 1000);
		streams[0].reading_age_ms = 2000;
		streams[1].reading_age_ms = 500;
		break;
	case 3:
		make_status(109, 10, 3, 1000);
		streams[0].epoch = streams[1].epoch = 6;
		break;
	case 4:
		make_status(110, 10, 3, 1000);
		streams[0].epoch = streams[1].epoch = 6;
		streams[0].reading_age_ms = 60000;
		break;
	}
	return status_error;
}

Test(trigger, a_loss_of_a_stream_that_is_recorded_is_a_trigger)
{
	static char lidar[] = "lidar", *recorded[] = {lidar};
	struct triggers triggers = {.kinds = {.loss = true}, .streams = recorded, .n_streams = 1};
	struct trigger_window window;
	uint64_t begin_ns = time_utc_ns();

	cr_assert_eq(triggers_open(&triggers), EX_OK);
	cr_expect(triggers_can_come(&triggers));
	cr_assert(triggers_wait(&triggers, &window));
	cr_expect_eq(n_looks, 3, "neither the first numbers nor another stream's losses: %u", n_looks);
	cr_expect_str_eq(window.text, "a loss of 10 packets (no_buffer + errored)");
	cr_expect(window.first_ns > begin_ns && window.last_ns > window.first_ns + 150000000);
	cr_expect_lt(triggers.lost_ns, window.last_ns - 1900000000, "the counters were two seconds old");
	cr_assert(triggers_wait(&triggers, &window));
	cr_expect_eq(n_looks, 5, "after a restart the counters begin again");
	cr_expect_str_eq(window.text, "a loss of 1 packets (no_buffer + errored)");
	cr_expect(triggers.lost_ns > window.last_ns - 6 * TIME_SECOND_NS);
	triggers_close(&triggers);
}

Test(trigger, without_the_daemon_it_waits)
{
	struct triggers triggers = {.kinds = {.loss = true}};
	struct trigger_window window;
	const char *said;

	status_error = -ENOENT;
	cr_assert_eq(triggers_open(&triggers), EX_OK);
	captured_begin();
	cr_expect_not(wait_a_little(&triggers, &window, 500));
	said = captured_end();
	cr_expect(strstr(said, "waiting for ibvcapd"), "%s", said);
	cr_expect_eq(strstr(said, "waiting for ibvcapd"), strrchr(said, ';') + 2, "once: %s", said);
	cr_expect(n_looks >= 2 && n_looks <= 4, "%u", n_looks);
	cr_expect_not(triggers.lost_ns);
	triggers_close(&triggers);
}

/* ---- commands -------------------------------------------------------------------------------------- */

Test(trigger, a_command_that_runs_ends_with_the_recorder)
{
	struct triggers triggers = {.kinds = {.command = "exec sleep 100"}};
	struct trigger_window window;
	struct pollfd process;

	cr_assert_eq(triggers_open(&triggers), EX_OK);
	cr_expect(triggers_can_come(&triggers) && triggers.process_fd >= 0);
	cr_expect_not(wait_a_little(&triggers, &window, 300), "it has not ended");
	cr_expect(triggers_can_come(&triggers));
	process = (struct pollfd){.fd = dup(triggers.process_fd), .events = POLLIN};
	triggers_close(&triggers);
	cr_expect_eq(poll(&process, 1, 5000), 1, "it was stopped");
	close(process.fd);
}
