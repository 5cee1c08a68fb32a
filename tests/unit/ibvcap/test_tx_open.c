// SPDX-License-Identifier: Apache-2.0
/* Opening a channel of a daemon that is a script in this process. */
#include "daemon/ring/sender.h"
#include "lib/ibvcap/client/client.h"
#include "lib/ibvcap/tx/tx.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char directory[64], path[96];
static int listener;
static pthread_t thread;
static int (*script)(int socket, const union protocol_message *request);
static struct sender sender;

static void init(void)
{
	const struct sender_options options = {.channel = "pulses",
	                                       .epoch = 3,
	                                       .n_slots = 64,
	                                       .slot_bytes = 100,
	                                       .n_destinations = 1,
	                                       .page_bytes = 4096};
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	cr_assert(eq(int, sender_init(&sender, &options, NULL), 0));
	strcpy(directory, "/tmp/ibvcap-test-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/control.sock", directory);
	memcpy(address.sun_path, path, strlen(path) + 1);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	cr_assert(eq(int, bind(listener, (struct sockaddr *)&address, sizeof(address)), 0));
	cr_assert(eq(int, listen(listener, 1), 0));
}

static void deinit(void)
{
	close(listener);
	unlink(path);
	rmdir(directory);
	sender_deinit(&sender);
}

TestSuite(tx_open, .init = init, .fini = deinit, .timeout = 30);

/* The script, and what the client says after it; until it hangs up. */
static void *serve(void *argument)
{
	union protocol_message request;
	int socket = accept(listener, NULL, NULL);

	if (protocol_recv(socket, &request, NULL, NULL) == 1 && request.header.type == PROTOCOL_OPEN_CHANNEL) {
		while (script(socket, &request) == 0 && protocol_recv(socket, &request, NULL, NULL) == 1)
			;
	}
	close(socket);
	return argument;
}

static int open_channel(int (*daemon)(int, const union protocol_message *), uint32_t timeout_ms, struct ibvcap_tx **tx)
{
	const struct ibvcap_tx_options options = {.size = sizeof(options), .timeout_ms = timeout_ms};
	int r;

	script = daemon;
	*tx = NULL;
	cr_assert(eq(int, pthread_create(&thread, NULL, serve, NULL), 0));
	r = ibvcap_tx_open(path, "pulses", &options, tx);
	if (r < 0) {
		cr_expect(eq(ptr, *tx, NULL));
		cr_expect(gt(sz, strlen(ibvcap_error_text()), 10));
		pthread_join(thread, NULL);
	}
	return r;
}

static int send_opened(int socket)
{
	struct protocol_opened message = {.epoch = 3};
	int sockets[2], readonly = shm_reopen_readonly(&sender.state_shm);

	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0));
	const int fds[PROTOCOL_FD_OPENED_N] = {sender.arena.fd, sender.page_shm.fd, readonly, sockets[1],
	                                       eventfd(0, 0)};

	protocol_init(&message.header, PROTOCOL_OPENED, sizeof(message));
	cr_assert(eq(int, protocol_send(socket, &message.header, fds, PROTOCOL_FD_OPENED_N), 0));
	close(readonly);
	close(sockets[0]);
	close(sockets[1]);
	close(fds[PROTOCOL_FD_SENDER_KICK]);
	return 0;
}

/* As the daemon: it seals once the client has mapped. */
static int welcome(int socket, const union protocol_message *request)
{
	struct protocol_bare ready;

	if (request->header.type == PROTOCOL_OPEN_CHANNEL) {
		cr_expect_str_eq(request->open_channel.channel, "pulses");
		cr_expect(eq(u16, request->open_channel.abi_major, IBVCAP_ABI_MAJOR));
		return send_opened(socket);
	}
	cr_expect(eq(u16, request->header.type, PROTOCOL_MAPPED));
	cr_expect(eq(int, sender_seal(&sender), 0));
	protocol_init(&ready.header, PROTOCOL_READY, sizeof(ready));
	return protocol_send(socket, &ready.header, NULL, 0);
}

Test(tx_open, a_channel_is_opened_mapped_sealed_and_ready)
{
	struct ibvcap_tx *tx;

	cr_assert(eq(int, open_channel(welcome, 0, &tx), 0), "%s", ibvcap_error_text());
	cr_expect(eq(int, ibvcap_tx_send(tx, "hello", 5, 0, 0), 1));
	cr_expect(sender_read_submitted(&sender));
	cr_expect(eq(u64, sender.submitted, 1));
	ibvcap_tx_close(tx);
	pthread_join(thread, NULL);
}

static int refuse(int socket, const union protocol_message *request)
{
	struct protocol_error message = {.error = -EACCES, .text = "channel 'pulses': not for you"};

	(void)request;
	protocol_init(&message.header, PROTOCOL_ERROR, sizeof(message));
	protocol_send(socket, &message.header, NULL, 0);
	return 0;
}

static int refuse_when_mapped(int socket, const union protocol_message *request)
{
	return request->header.type == PROTOCOL_OPEN_CHANNEL ? send_opened(socket) : refuse(socket, request);
}

Test(tx_open, a_refusal_is_passed_on_with_the_daemons_words_before_and_after_mapping)
{
	struct ibvcap_tx *tx;

	cr_expect(eq(int, open_channel(refuse, 0, &tx), -EACCES));
	cr_expect_str_eq(ibvcap_error_text(), "channel 'pulses': not for you");
	cr_expect(eq(int, open_channel(refuse_when_mapped, 0, &tx), -EACCES));
	cr_expect_str_eq(ibvcap_error_text(), "channel 'pulses': not for you");
}

static int say_nothing(int socket, const union protocol_message *request)
{
	(void)socket;
	(void)request;
	return 0;
}

static int say_nothing_when_mapped(int socket, const union protocol_message *request)
{
	return request->header.type == PROTOCOL_OPEN_CHANNEL ? send_opened(socket) : 0;
}

Test(tx_open, silence_times_out)
{
	struct ibvcap_tx *tx;

	cr_expect(eq(int, open_channel(say_nothing, 100, &tx), -ETIMEDOUT));
	cr_expect(eq(int, open_channel(say_nothing_when_mapped, 100, &tx), -ETIMEDOUT));
}

static int answer_something_else(int socket, const union protocol_message *request)
{
	struct protocol_header end;

	(void)request;
	protocol_init(&end, PROTOCOL_END, sizeof(end));
	return protocol_send(socket, &end, NULL, 0);
}

static int send_opened_without_descriptors(int socket, const union protocol_message *request)
{
	struct protocol_opened message = {.epoch = 3};

	(void)request;
	protocol_init(&message.header, PROTOCOL_OPENED, sizeof(message));
	return protocol_send(socket, &message.header, NULL, 0);
}

Test(tx_open, another_answer_is_another_version)
{
	struct ibvcap_tx *tx;

	cr_expect(eq(int, open_channel(answer_something_else, 0, &tx), -EPROTO));
	cr_expect(eq(int, open_channel(send_opened_without_descriptors, 0, &tx), -EPROTO));
}

Test(tx_open, a_name_that_no_channel_can_have_is_refused_here)
{
	struct ibvcap_tx *tx;
	char name[100];

	memset(name, 'x', sizeof(name) - 1);
	name[99] = '\0';
	cr_expect(eq(int, ibvcap_tx_open(path, "", NULL, &tx), -EINVAL));
	cr_expect(eq(int, ibvcap_tx_open(path, name, NULL, &tx), -EINVAL));
}

Test(tx_open, options_that_were_not_initialised_are_refused)
{
	struct ibvcap_tx_options options = {.size = sizeof(options), .reserved = 7};
	struct ibvcap_tx *tx;

	cr_expect(eq(int, ibvcap_tx_open(path, "pulses", &options, &tx), -EINVAL));
	cr_expect_not_null(strstr(ibvcap_error_text(), "reserved is 7"));
	options = (struct ibvcap_tx_options){.size = SIZE_MAX};
	cr_expect(eq(int, ibvcap_tx_open(path, "pulses", &options, &tx), -EINVAL));
	cr_expect_not_null(strstr(ibvcap_error_text(), "IBVCAP_INIT(struct ibvcap_tx_options)"));
}
