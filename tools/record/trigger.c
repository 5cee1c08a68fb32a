// SPDX-License-Identifier: Apache-2.0
/*
 * Waits for triggers. No consumer is attached meanwhile, because the ring keeps the packets. All triggers that come
 * while a file is written count as one trigger, which lasts from the first of them to the last.
 */
#include "tools/record/record.h"

#include "lib/base/time.h"
#include "tools/common/options.h"
#include "tools/common/stop_signal.h"
#include "tools/status/status_view.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#define LOOK_MS         200  /* from one look at the daemon's counters to the next */
#define MESSAGES_MAX    1024 /* at one look: they may come without an end */
#define READING_AGE_MAX (5 * TIME_SECOND_NS)
/* Any program of this machine can send messages. They make this many files at once, then one file in this time. */
#define MESSAGE_FILES_MAX 10
#define MESSAGE_FILE_NS   (10 * TIME_SECOND_NS)
/* Exit statuses of sh (POSIX). */
#define NOT_EXECUTABLE 126
#define NOT_FOUND      127

/* ---- the command line ---------------------------------------------------------------------------- */

/* "[ADDRESS:]PORT"; the address is 127.0.0.1 unless it is given, so that nobody else can trigger. */
static bool parse_message_place(const char *text, struct sockaddr_in *place)
{
	const char *colon = strrchr(text, ':');
	char address[INET_ADDRSTRLEN] = "127.0.0.1";
	char *end;
	unsigned long port;

	if (colon && (size_t)(colon - text) >= sizeof(address))
		return false;
	if (colon)
		snprintf(address, sizeof(address), "%.*s", (int)(colon - text), text);
	text = colon ? colon + 1 : text;
	port = strtoul(text, &end, 10);
	*place = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	return text[0] >= '0' && text[0] <= '9' && !*end && port > 0 && port <= UINT16_MAX &&
	       inet_pton(AF_INET, address, &place->sin_addr) == 1;
}

bool trigger_parse(const char *text, struct trigger_kinds *kinds)
{
	if (!strcmp(text, "signal"))
		kinds->signal = true;
	else if (!strcmp(text, "loss"))
		kinds->loss = true;
	else if (!strncmp(text, "exit:", 5) && text[5])
		kinds->command = text + 5;
	else if (!strncmp(text, "udp:", 4))
		return parse_message_place(text + 4, &kinds->message);
	else
		return false;
	return true;
}

/* ---- signals ------------------------------------------------------------------------------------- */

static _Atomic uint64_t first_signal_ns, last_signal_ns;

static void note_trigger_signal(int)
{
	uint64_t now_ns = time_utc_ns(), none = 0;

	atomic_store(&last_signal_ns, now_ns);
	atomic_compare_exchange_strong(&first_signal_ns, &none, now_ns);
}

/* ---- triggers ------------------------------------------------------------------------------------ */

static void note_trigger(struct trigger_window *window, uint64_t first_ns, uint64_t last_ns, const char *text)
{
	if (!window->first_ns)
		snprintf(window->text, sizeof(window->text), "%s", text);
	if (!window->first_ns || first_ns < window->first_ns)
		window->first_ns = first_ns;
	if (last_ns > window->last_ns)
		window->last_ns = last_ns;
}

static void look_for_signal(struct trigger_window *window)
{
	uint64_t first_ns = atomic_exchange(&first_signal_ns, 0);

	if (first_ns)
		note_trigger(window, first_ns, atomic_load(&last_signal_ns), "SIGUSR2");
}

/* When the kernel received it. */
static uint64_t message_time_ns(struct msghdr *message)
{
	struct timespec at;

	for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&at, CMSG_DATA(header), sizeof(at));
		return (uint64_t)at.tv_sec * TIME_SECOND_NS + (uint64_t)at.tv_nsec;
	}
	return time_utc_ns();
}

static void read_messages(int fd, struct trigger_window *window)
{
	_Alignas(struct cmsghdr) char control[256];
	struct sockaddr_in from = {0};
	char text[TRIGGER_TEXT_BYTES], address[INET_ADDRSTRLEN] = "";
	struct msghdr message;
	uint64_t at_ns;

	for (int i = 0; i < MESSAGES_MAX; i++) {
		message = (struct msghdr){.msg_name = &from,
		                          .msg_namelen = sizeof(from),
		                          .msg_control = control,
		                          .msg_controllen = sizeof(control)};
		if (recvmsg(fd, &message, MSG_DONTWAIT) < 0)
			return;
		at_ns = message_time_ns(&message);
		inet_ntop(AF_INET, &from.sin_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "a UDP message from %s:%u", address, ntohs(from.sin_port));
		note_trigger(window, at_ns, at_ns, text);
	}
}

/* A leaky bucket. Messages that come while it is full are one trigger, from the first to the last of them. */
static bool take_message_file(struct triggers *triggers)
{
	uint64_t now_ns = time_monotonic_ns();

	if (triggers->messages_until_ns > now_ns + (MESSAGE_FILES_MAX - 1) * MESSAGE_FILE_NS)
		return false;
	if (triggers->messages_until_ns < now_ns)
		triggers->messages_until_ns = now_ns;
	triggers->messages_until_ns += MESSAGE_FILE_NS;
	return true;
}

static void look_for_messages(struct triggers *triggers, struct trigger_window *window)
{
	struct trigger_window *messages = &triggers->messages;

	read_messages(triggers->message_fd, messages);
	if (!messages->first_ns || !take_message_file(triggers))
		return;
	note_trigger(window, messages->first_ns, messages->last_ns, messages->text);
	*messages = (struct trigger_window){0};
}

/* Has the command ended? The commands of --command are waited for by the way. */
static bool reap_children(pid_t pid, int *status)
{
	bool has_ended = false;
	pid_t child;
	int of_child;

	while ((child = waitpid(-1, &of_child, WNOHANG)) > 0) {
		if (child != pid)
			continue;
		has_ended = true;
		*status = of_child;
	}
	return has_ended;
}

/* A trigger, whatever its status is, so that no packets are lost by a mistake in the last line of a script. */
static void look_for_end(struct triggers *triggers, struct trigger_window *window)
{
	const char *command = triggers->kinds.command;
	char text[TRIGGER_TEXT_BYTES];
	int status;

	if (!reap_children(triggers->pid, &status))
		return;
	signal(SIGCHLD, SIG_IGN);
	close(triggers->process_fd);
	triggers->process_fd = -1;
	snprintf(text, sizeof(text), "the end of the command '%.120s'", command);
	note_trigger(window, triggers->looked_ns, time_utc_ns(), text);
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != NOT_EXECUTABLE && WEXITSTATUS(status) != NOT_FOUND))
		return;
	fprintf(stderr, "ibvcap record: --trigger 'exit:%s': it ended with %d, as sh does when %s\n", command,
	        WEXITSTATUS(status),
	        WEXITSTATUS(status) == NOT_FOUND ? "there is no such command" : "a command is not executable");
	triggers->code = EX_UNAVAILABLE;
}

/* ---- losses -------------------------------------------------------------------------------------- */

static bool is_watched(const struct triggers *triggers, const char *stream)
{
	for (unsigned i = 0; i < triggers->n_streams; i++)
		if (!strcmp(triggers->streams[i], stream))
			return true;
	return false;
}

/* The losses of the streams so far, the sum of their epochs, and the age of the counters. */
static uint64_t losses_of_streams(const struct triggers *triggers, const struct status_view *view, uint64_t *epochs,
                                  uint64_t *age_ns)
{
	uint64_t lost = 0;

	*epochs = *age_ns = 0;
	for (int i = 0; i < view->n_streams; i++) {
		const struct ibvcap_status_stream *stream = &view->streams[i];
		uint64_t stream_age_ns = stream->reading_age_ms * UINT64_C(1000000);

		if (!is_watched(triggers, stream->name))
			continue;
		lost += counters_value(COUNTERS_OF(stream), "errored");
		if (stream_sum_is_first(view, i))
			lost += counters_value(COUNTERS_OF(stream), "no_buffer");
		*epochs += stream->epoch;
		if (stream_age_ns > *age_ns)
			*age_ns = stream_age_ns < READING_AGE_MAX ? stream_age_ns : READING_AGE_MAX;
	}
	return lost;
}

static void look_for_losses(struct triggers *triggers, struct trigger_window *window)
{
	uint64_t now_ns = time_utc_ns(), lost, epochs, age_ns;
	char text[TRIGGER_TEXT_BYTES];
	struct status_view view;
	int r = status_view_ask(&view, triggers->socket, 0);

	if (r < 0 && !triggers->is_daemon_gone)
		fprintf(stderr, "ibvcap record: %s; waiting for ibvcapd\n", ibvcap_error_text());
	triggers->is_daemon_gone = r < 0;
	if (r < 0)
		return;
	lost = losses_of_streams(triggers, &view, &epochs, &age_ns);
	status_view_deinit(&view);
	if (triggers->lost_ns && epochs == triggers->epochs && lost > triggers->lost) {
		snprintf(text, sizeof(text), "a loss of %" PRIu64 " packets (no_buffer + errored)",
		         lost - triggers->lost);
		note_trigger(window, triggers->lost_ns, now_ns, text);
	}
	triggers->lost = lost;
	triggers->epochs = epochs;
	triggers->lost_ns = now_ns - age_ns;
}

/* ---- waiting ------------------------------------------------------------------------------------- */

static int open_message_socket(struct triggers *triggers)
{
	const struct sockaddr_in *place = &triggers->kinds.message;
	char address[INET_ADDRSTRLEN] = "";
	const int on = 1;

	triggers->message_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (triggers->message_fd >= 0 &&
	    bind(triggers->message_fd, (const struct sockaddr *)place, sizeof(*place)) == 0) {
		setsockopt(triggers->message_fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
		return EX_OK;
	}
	inet_ntop(AF_INET, &place->sin_addr, address, sizeof(address));
	fprintf(stderr, "ibvcap record: --trigger udp:%s:%u: %s\n", address, ntohs(place->sin_port), strerror(errno));
	return EX_OSERR;
}

/* With SIGCHLD ignored, a child that ends at once could be gone before it is watched, and its status is not kept. */
static int spawn_and_watch(char *const arguments[], const posix_spawnattr_t *attributes, struct triggers *triggers)
{
	int r;

	signal(SIGCHLD, SIG_DFL);
	r = posix_spawn(&triggers->pid, arguments[0], NULL, attributes, arguments, environ);
	if (r != 0)
		return r;
	triggers->process_fd = (int)syscall(SYS_pidfd_open, triggers->pid, 0);
	return triggers->process_fd < 0 ? errno : 0;
}

static int run_trigger_command(struct triggers *triggers)
{
	static char shell[] = "/bin/sh", takes_command[] = "-c";
	char *arguments[] = {shell, takes_command, (char *)(uintptr_t)triggers->kinds.command, NULL};
	posix_spawnattr_t attributes;
	sigset_t all;
	int r;

	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	r = spawn_and_watch(arguments, &attributes, triggers);
	posix_spawnattr_destroy(&attributes);
	if (r != 0)
		fprintf(stderr, "ibvcap record: --trigger 'exit:%s': %s\n", triggers->kinds.command, strerror(r));
	return r == 0 ? EX_OK : EX_OSERR;
}

int triggers_open(struct triggers *triggers)
{
	const struct sigaction action = {.sa_handler = note_trigger_signal};
	int code = EX_OK;

	triggers->message_fd = triggers->process_fd = -1;
	triggers->looked_ns = time_utc_ns();
	if (triggers->kinds.signal)
		sigaction(SIGUSR2, &action, NULL);
	if (triggers->kinds.message.sin_port)
		code = open_message_socket(triggers);
	if (code == EX_OK && triggers->kinds.command)
		code = run_trigger_command(triggers);
	return code;
}

/* The command may still run. It is stopped, too. */
void triggers_close(struct triggers *triggers)
{
	if (triggers->process_fd >= 0) {
		syscall(SYS_pidfd_send_signal, triggers->process_fd, SIGTERM, NULL, 0);
		close(triggers->process_fd);
	}
	if (triggers->message_fd >= 0)
		close(triggers->message_fd);
}

bool triggers_can_come(const struct triggers *triggers)
{
	return triggers->kinds.signal || triggers->kinds.loss || triggers->message_fd >= 0 || triggers->process_fd >= 0;
}

bool triggers_wait(struct triggers *triggers, struct trigger_window *window)
{
	*window = (struct trigger_window){0};
	while (!stop_signal_came()) {
		struct pollfd fds[] = {{.fd = triggers->message_fd, .events = POLLIN},
		                       {.fd = triggers->process_fd, .events = POLLIN}};

		look_for_signal(window);
		if (triggers->message_fd >= 0)
			look_for_messages(triggers, window);
		if (triggers->process_fd >= 0)
			look_for_end(triggers, window);
		if (triggers->kinds.loss)
			look_for_losses(triggers, window);
		triggers->looked_ns = time_utc_ns();
		if (window->first_ns)
			return true;
		/* While messages wait for their file, more of them are no reason to wake up. */
		if (triggers->messages.first_ns)
			fds[0].fd = -1;
		poll(fds, 2, LOOK_MS);
	}
	return false;
}
