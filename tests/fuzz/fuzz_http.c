// SPDX-License-Identifier: Apache-2.0
/*
 * What a hostile client may send to ibvcap-metrics: the input is all bytes of one connection. Whatever they are, there
 * is at most one response of ours, as long as it says. Only a request for one of the three paths gets a status of 200.
 */
#include "tests/fuzz/require.h"
#include "tools/exporter/exporter.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RESPONSE_BYTES ((size_t)1 << 20)
#define WAIT_MS        20

static struct sockaddr_in place = {.sin_family = AF_INET};
static char response[RESPONSE_BYTES + 1];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A port that is free now. */
static void choose_port(void)
{
	socklen_t bytes = sizeof(place);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&place, bytes) < 0 || getsockname(fd, (struct sockaddr *)&place, &bytes) < 0)
		abort();
	close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static struct watch watch;
	char address[32];

	(void)argc;
	(void)argv;
	choose_port();
	snprintf(address, sizeof(address), "127.0.0.1:%u", ntohs(place.sin_port));
	watch_init(&watch, "/nonexistent");
	watch_ask(&watch);
	if (!server_new(address, &watch))
		abort();
	return 0;
}

/* Returns the bytes of the response. */
static size_t exchange(const uint8_t *data, size_t size)
{
	const struct linger at_once = {.l_onoff = 1}; /* or the ports of old connections would run out */
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t n = 0;
	ssize_t r;

	require(connect(fd, (struct sockaddr *)&place, sizeof(place)) == 0, "the service accepts connections");
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	for (size_t at = 0; at < size; at += (size_t)r) {
		r = send(fd, data + at, size - at, MSG_NOSIGNAL);
		if (r <= 0)
			break;
	}
	shutdown(fd, SHUT_WR);
	if (poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, WAIT_MS) == 0) {
		close(fd); /* the service waits for the rest of the request */
		return 0;
	}
	while (n < RESPONSE_BYTES && (r = recv(fd, response + n, RESPONSE_BYTES - n, 0)) > 0)
		n += (size_t)r;
	close(fd);
	response[n] = '\0';
	return n;
}

/* A word, and behind it one of these bytes or a 0, at which libmicrohttpd's strings end. */
static bool begins_with(const uint8_t *data, size_t size, const char *word, const char *ends)
{
	const size_t n = strlen(word);

	return size > n && memcmp(data, word, n) == 0 && strchr(ends, data[n]);
}

/* One of the three, with or without a query. */
static bool asks_for_a_page(const uint8_t *data, size_t size)
{
	static const char *const paths[] = {"/", "/metrics", "/status.json"};
	const uint8_t *at = memchr(data, ' ', size);

	if (!at || (!begins_with(data, size, "GET", " ") && !begins_with(data, size, "HEAD", " ")))
		return false;
	while (at < data + size && *at == ' ')
		at++;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
		if (begins_with(at, (size_t)(data + size - at), paths[i], " \t?\r\n"))
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = exchange(data, size), body = 0, skipped = 0, head;
	const char *end, *length, *ours;
	unsigned code;

	if (n == 0)
		return 0;
	require(n < RESPONSE_BYTES, "a response is short");
	require(sscanf(response, "HTTP/1.%*1[01] %3u ", &code) == 1, "a response begins with its status");
	end = strstr(response, "\r\n\r\n");
	require(end, "a response has all its headers");
	ours = strstr(response, "\r\nContent-Security-Policy: ");
	if (!ours) { /* libmicrohttpd's own refusals; of a request without a host it repeats the headers */
		require(code >= 400 && code < 600, "without our headers it is an error");
		return 0;
	}
	length = strstr(response, "\r\nContent-Length: ");
	require(length && length < end && sscanf(length, "\r\nContent-Length: %zu", &body) == 1, "it has a length");
	while (skipped < size && (data[skipped] == '\r' || data[skipped] == '\n'))
		skipped++; /* before a request */
	data += skipped;
	size -= skipped;
	head = (size_t)(end + 4 - response);
	require(n == head + body || (n == head && begins_with(data, size, "HEAD", " ")),
	        "one response, as long as it says");
	require(code == 200 ? asks_for_a_page(data, size) : code == 404 || code == 405, "200 is for the three pages");
	return 0;
}
