// SPDX-License-Identifier: Apache-2.0
/*
 * A program for tests/check_recipes.py, which builds it in a copy of the tree that has one more field of a sender
 * ("tested") and one more reason of drops ("tested"), added as CONTRIBUTING.md says. A status goes all the way from the
 * daemon's encoding through the library; this prints its JSON, and on a line each what why says of the stream.
 */
#include "daemon/control/reply.h"
#include "lib/status/counters.h"
#include "tools/status/status_view.h"
#include "tools/status/why.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int make_status(struct reply *reply)
{
	struct ibvcap_status_daemon daemon = {.size = sizeof(daemon), .pid = 1};
	struct ibvcap_status_stream stream = {.size = sizeof(stream), .n_queues = 1, .n_counters = STREAM_COUNTER_N};
	struct ibvcap_status_sender sender = {.size = sizeof(sender), .channel = "out", .tested = 42};
	uint64_t counters[STREAM_COUNTER_N] = {[IBVCAP_RX_COUNTER_MATCHED] = 7,
	                                       [IBVCAP_RX_COUNTER_NO_BUFFER] = 7,
	                                       [STREAM_COUNTER_DROPS + BACKEND_DROP_TESTED] = 7};
	struct protocol_header end;

	protocol_init(&end, PROTOCOL_END, sizeof(end));
	reply_copy_text(stream.name, sizeof(stream.name), "lidar");
	reply_copy_text(stream.backend, sizeof(stream.backend), "packet");
	return reply_append_part(reply, STATUS_DAEMON, &daemon, NULL) +
	       reply_append_part(reply, STATUS_STREAM, &stream, counters) +
	       reply_append_part(reply, STATUS_SENDER, &sender, NULL) + reply_append(reply, &end);
}

static void *answer(void *context)
{
	int socket = accept(*(const int *)context, NULL, NULL);
	const struct protocol_header *next;
	union protocol_message request;
	struct reply reply = {0};
	size_t bytes;

	if (protocol_recv(socket, &request, NULL, NULL) != 1 || make_status(&reply) != 0)
		abort();
	for (; (next = reply_next(&reply, &bytes)); reply.sent += bytes)
		protocol_send(socket, next, NULL, 0);
	reply_deinit(&reply);
	close(socket);
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 1) < 0)
		abort();
	return listener;
}

int main(int argc, char **argv)
{
	static struct why_report report;
	int listener = argc == 2 ? listen_at(argv[1]) : -1;
	struct why_facts facts = {0};
	struct status_view view;
	pthread_t thread;

	if (listener < 0 || pthread_create(&thread, NULL, answer, &listener))
		return 1;
	if (status_view_ask(&view, argv[1], 10000) < 0) {
		fprintf(stderr, "%s\n", ibvcap_error_text());
		return 1;
	}
	pthread_join(thread, NULL);
	json_dumpf(status_view_to_json(&view), stdout, JSON_COMPACT);
	facts.stream = view.streams;
	why_explain(&facts, &report);
	for (uint32_t i = 0; i < report.n_lines; i++)
		printf("\n%s %llu: %s: %s", report.lines[i].term, (unsigned long long)report.lines[i].value,
		       report.lines[i].cause, report.lines[i].remedy ? report.lines[i].remedy : "");
	return 0;
}
