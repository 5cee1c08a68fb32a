// SPDX-License-Identifier: Apache-2.0
/*
 * Answers HTTP requests. A client may be hostile: the number of connections, the bytes of a request and the time of a
 * connection are bounded. A connection has one request, so that its time bounds the request's: the
 * timeout of libmicrohttpd begins anew with each byte.
 */
#include "tools/exporter/exporter.h"

#include "lib/base/time.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX   256u
#define CONNECTION_BYTES  ((size_t)8192)
#define CONNECTION_S      4
#define IDLE_S            2u
#define BACKLOG           1024
#define OPENMETRICS_TYPE  "application/openmetrics-text; version=1.0.0; charset=utf-8"
#define TEXT_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum answer { ANSWER_TEXT, ANSWER_OPENMETRICS, ANSWER_JSON, ANSWER_N };

struct connection {
	bool is_open;
	int fd;
	uint64_t since_ns;
};

struct server {
	struct MHD_Daemon *http;
	struct watch *watch;
	struct MHD_Response *page;
	/* Of the watch's last answer. Its lock is held. */
	struct MHD_Response *answers[ANSWER_N];
	uint64_t asked;
	pthread_mutex_t lock; /* of connections */
	struct connection connections[CONNECTIONS_MAX];
};

/* ---- responses ------------------------------------------------------------------------------------- */

static struct MHD_Response *make_response(char *text, size_t bytes, enum MHD_ResponseMemoryMode mode, const char *type)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(bytes, text, mode);

	if (!response)
		return NULL;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
	MHD_add_response_header(response, "Content-Security-Policy", page_policy);
	return response;
}

static struct MHD_Response *make_answer(const struct watch *watch, enum answer kind)
{
	static const char *const types[] = {
		[ANSWER_TEXT] = TEXT_METRICS_TYPE,
		[ANSWER_OPENMETRICS] = OPENMETRICS_TYPE,
		[ANSWER_JSON] = "application/json",
	};
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);
	json_t *json;

	if (!to)
		return NULL;
	if (kind == ANSWER_JSON) {
		json = watch_to_json(watch);
		json_dumpf(json, to, JSON_COMPACT);
		json_decref(json);
	} else {
		metrics_print(to, &watch->view.now, watch_health(watch),
		              kind == ANSWER_TEXT ? METRICS_TEXT : METRICS_OPENMETRICS);
	}
	if (fclose(to) == 0)
		return make_response(text, bytes, MHD_RESPMEM_MUST_FREE, types[kind]);
	free(text);
	return NULL;
}

static void drop_answers(struct server *server)
{
	for (unsigned i = 0; i < ANSWER_N; i++) {
		if (server->answers[i])
			MHD_destroy_response(server->answers[i]); /* responses under way keep their reference */
		server->answers[i] = NULL;
	}
}

static enum MHD_Result send_status(struct server *server, struct MHD_Connection *connection, enum answer kind)
{
	struct watch *watch = server->watch;
	enum MHD_Result result = MHD_NO;

	pthread_mutex_lock(&watch->lock);
	if (server->asked != watch->asked)
		drop_answers(server);
	server->asked = watch->asked;
	if (!server->answers[kind])
		server->answers[kind] = make_answer(watch, kind);
	if (server->answers[kind])
		result = MHD_queue_response(connection, MHD_HTTP_OK, server->answers[kind]);
	pthread_mutex_unlock(&watch->lock);
	return result;
}

static enum MHD_Result send_refusal(struct MHD_Connection *connection, unsigned status, const char *text)
{
	struct MHD_Response *response = make_response((char *)text, strlen(text), MHD_RESPMEM_PERSISTENT, "text/plain");
	enum MHD_Result result = response ? MHD_queue_response(connection, status, response) : MHD_NO;

	if (response)
		MHD_destroy_response(response);
	return result;
}

static enum MHD_Result answer_request(void *context, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *, const char *, size_t *, void **)
{
	struct server *server = context;
	const char *accept;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return send_refusal(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET\n");
	if (strcmp(url, "/") == 0)
		return MHD_queue_response(connection, MHD_HTTP_OK, server->page);
	if (strcmp(url, "/status.json") == 0)
		return send_status(server, connection, ANSWER_JSON);
	if (strcmp(url, "/metrics") != 0)
		return send_refusal(connection, MHD_HTTP_NOT_FOUND, "there are /, /metrics and /status.json\n");
	accept = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	return send_status(server, connection,
	                   accept && strstr(accept, "application/openmetrics-text") ? ANSWER_OPENMETRICS : ANSWER_TEXT);
}

/* No path has a character that needs an escape. */
static size_t leave_escaped(void *, struct MHD_Connection *, char *text)
{
	return strlen(text);
}

/* ---- connections ----------------------------------------------------------------------------------- */

static void note_connection(void *context, struct MHD_Connection *connection, void **slot,
                            enum MHD_ConnectionNotificationCode what)
{
	struct server *server = context;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct connection *at = *slot;

	pthread_mutex_lock(&server->lock);
	if (what == MHD_CONNECTION_NOTIFY_CLOSED && at) {
		at->is_open = false;
	} else if (what == MHD_CONNECTION_NOTIFY_STARTED && info) {
		for (unsigned i = 0; i < CONNECTIONS_MAX && !*slot; i++) /* libmicrohttpd opens no more */
			if (!server->connections[i].is_open)
				*slot = at = &server->connections[i];
		if (at)
			*at = (struct connection){true, info->connect_fd, time_monotonic_ns()};
	}
	pthread_mutex_unlock(&server->lock);
}

void server_end_old_connections(struct server *server)
{
	uint64_t now_ns;

	/* libmicrohttpd says that a connection is closed before it closes its descriptor. */
	pthread_mutex_lock(&server->lock);
	now_ns = time_monotonic_ns(); /* under the lock, so that no connection is younger */
	for (const struct connection *at = server->connections; at < server->connections + CONNECTIONS_MAX; at++)
		if (at->is_open && now_ns - at->since_ns > CONNECTION_S * TIME_SECOND_NS)
			shutdown(at->fd, SHUT_RDWR);
	pthread_mutex_unlock(&server->lock);
}

/* ---- the listening socket -------------------------------------------------------------------------- */

static int refuse_address(const char *address, const char *why)
{
	fprintf(stderr, "ibvcap metrics: --listen %s: %s\n", address, why);
	return -1;
}

/* Split "[::1]:9988". */
static struct addrinfo *parse_address(const char *address)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
	const char *colon = strrchr(address, ':');
	const bool has_brackets = colon && address[0] == '[' && colon[-1] == ']';
	struct addrinfo *found = NULL;
	char host[64];

	/* getaddrinfo() takes the lowest 16 bits of a larger number. */
	if (!colon || colon == address || strlen(colon + 1) > 5 || atoi(colon + 1) > UINT16_MAX)
		return NULL;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address) - 2 * has_brackets, address + has_brackets);
	return getaddrinfo(host, colon + 1, &hints, &found) == 0 ? found : NULL;
}

static int listen_at(const char *address)
{
	const int yes = 1;
	struct addrinfo *at = parse_address(address);
	int fd = -1, error = 0;

	if (!at)
		return -1;
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
	    bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		error = errno;
	freeaddrinfo(at);
	if (!error)
		return fd;
	if (fd >= 0)
		close(fd);
	return refuse_address(address, error == EADDRNOTAVAIL ? "this machine has no such address: ip -br address"
	                               : error == EADDRINUSE  ? "another program has this port: ss -tlnp says which"
	                               : error == EACCES ? "a port below 1024 is not for this user: take a higher one"
	                                                 : strerror(error));
}

bool server_address_is_one(const char *address)
{
	struct addrinfo *at = parse_address(address);

	if (at)
		freeaddrinfo(at);
	else
		refuse_address(address, "not ADDRESS:PORT with an IP address, as in 127.0.0.1:9988 or [::1]:9988");
	return at;
}

struct server *server_new(const char *address, struct watch *watch)
{
	struct server *server = calloc(1, sizeof(*server));
	const int fd = server ? listen_at(address) : -1;

	if (fd < 0) {
		free(server);
		return NULL;
	}
	server->watch = watch;
	pthread_mutex_init(&server->lock, NULL);
	server->page =
		make_response((char *)page_html, page_html_bytes, MHD_RESPMEM_PERSISTENT, "text/html; charset=utf-8");
	server->http =
		MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, NULL, NULL, answer_request, server,
	                         MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
	                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, MHD_OPTION_CONNECTION_TIMEOUT,
	                         IDLE_S, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped,
	                         NULL, MHD_OPTION_NOTIFY_CONNECTION, note_connection, server, MHD_OPTION_END);
	if (server->http && server->page)
		return server;
	fputs("ibvcap metrics: libmicrohttpd does not start\n", stderr);
	if (!server->http)
		close(fd);
	server_free(server);
	return NULL;
}

void server_free(struct server *server)
{
	if (!server)
		return;
	if (server->http)
		MHD_stop_daemon(server->http);
	drop_answers(server);
	if (server->page)
		MHD_destroy_response(server->page);
	free(server);
}
