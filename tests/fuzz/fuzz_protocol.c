// SPDX-License-Identifier: Apache-2.0
/*
 * What a hostile daemon may answer: the library asks for status, and the input is the answer, one datagram after
 * another, each behind two bytes of length. Then protocol_check() on the whole input, as one datagram.
 */
#include "lib/ibvcap/protocol.h"

#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listener;
static char path[108];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct answer {
	const uint8_t *data;
	size_t size;
};

static void remove_socket(void)
{
	unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)argc;
	(void)argv;
	snprintf(path, sizeof(path), "/tmp/ibvcap-fuzz-wire-%d.sock", (int)getpid());
	memcpy(address.sun_path, path, sizeof(path));
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(listener, 1) < 0)
		abort();
	atexit(remove_socket);
	return 0;
}

static void *say(void *argument)
{
	const struct answer *answer = argument;
	union protocol_message request;
	size_t at = 0;
	int socket = accept(listener, NULL, NULL);

	if (protocol_recv(socket, &request, NULL, NULL) != 1 || request.header.type != PROTOCOL_STATUS)
		abort();
	while (answer->size - at > 2) {
		size_t n = (size_t)(answer->data[at] | answer->data[at + 1] << 8);

		at += 2;
		n = n < answer->size - at ? n : answer->size - at;
		if (n == 0 || send(socket, answer->data + at, n, MSG_NOSIGNAL) < 0)
			break;
		at += n;
	}
	close(socket);
	return NULL;
}

static size_t length_of(const struct ibvcap_counter *counters, uint32_t n_counters)
{
	size_t n = 0;

	for (uint32_t i = 0; i < n_counters; i++)
		n += strlen(counters[i].label);
	return n;
}

/* Reads every byte of every string. */
static void use(const struct ibvcap_status *status)
{
	struct ibvcap_status_daemon daemon = IBVCAP_INIT(struct ibvcap_status_daemon);
	struct ibvcap_status_stream stream = IBVCAP_INIT(struct ibvcap_status_stream);
	struct ibvcap_status_flow flow = IBVCAP_INIT(struct ibvcap_status_flow);
	struct ibvcap_status_consumer consumer = IBVCAP_INIT(struct ibvcap_status_consumer);
	struct ibvcap_status_channel channel = IBVCAP_INIT(struct ibvcap_status_channel);
	struct ibvcap_status_sender sender = IBVCAP_INIT(struct ibvcap_status_sender);
	struct ibvcap_status_interface interface = IBVCAP_INIT(struct ibvcap_status_interface);
	size_t n;

	ibvcap_status_daemon(status, &daemon);
	n = strlen(daemon.version);
	for (uint32_t i = 0; ibvcap_status_stream(status, i, &stream) > 0; i++) {
		n += strlen(stream.name) + strlen(stream.interface) + strlen(stream.device);
		n += strlen(stream.backend) + strlen(stream.state) + length_of(stream.counters, stream.n_counters);
	}
	for (uint32_t i = 0; ibvcap_status_flow(status, i, &flow) > 0; i++)
		n += strlen(flow.stream) + strlen(flow.destination) + strlen(flow.source);
	for (uint32_t i = 0; ibvcap_status_consumer(status, i, &consumer) > 0; i++)
		n += strlen(consumer.stream) + length_of(consumer.counters, consumer.n_counters);
	for (uint32_t i = 0; ibvcap_status_channel(status, i, &channel) > 0; i++)
		n += strlen(channel.name) + strlen(channel.interface) + strlen(channel.device) +
		     strlen(channel.backend) + strlen(channel.state) + length_of(channel.counters, channel.n_counters);
	for (uint32_t i = 0; ibvcap_status_sender(status, i, &sender) > 0; i++)
		n += strlen(sender.channel) + length_of(sender.counters, sender.n_counters);
	for (uint32_t i = 0; ibvcap_status_interface(status, i, &interface) > 0; i++)
		n += strlen(interface.interface) + strlen(interface.device) + strlen(interface.backend) +
		     strlen(interface.backend_why) + strlen(interface.backend_how) + strlen(interface.backend_better) +
		     strlen(interface.backend_command) + length_of(interface.counters, interface.n_counters);
	if (n > (size_t)1 << 40)
		abort();
}

static void ask(const uint8_t *data, size_t size)
{
	struct answer answer = {data, size};
	struct ibvcap_status *status;
	pthread_t thread;

	if (pthread_create(&thread, NULL, say, &answer))
		abort();
	if (ibvcap_status(path, 2000, &status) == 0) {
		use(status);
		ibvcap_status_free(status);
	}
	pthread_join(thread, NULL);
}

static void check(const uint8_t *data, size_t size)
{
	union protocol_message message = {0};

	if (size > sizeof(message))
		return;
	memcpy(message.bytes, data, size);
	if (protocol_check(&message, size) == 0 && message.header.bytes != size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	ask(data, size);
	check(data, size);
	return 0;
}
