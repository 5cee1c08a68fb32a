// SPDX-License-Identifier: Apache-2.0
/*
 * backend_probe INTERFACE [-b BACKEND] [-q SLOTS] [-H HEADER_BYTES] [-S SLOT_BYTES] [-o] [-e] [-T]
 *
 * One queue of a backend, driven by commands on stdin, one a line; each is answered by one line of JSON on
 * stdout, {"error": -errno, …} where it failed. What the device does is then up to who sends packets.
 *   -o oversize sink   -e completion events   -T no timestamps
 */
#include "daemon/backend/backend.h"
#include "daemon/net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define FLOWS_MAX     64
#define ROW_DUMP_MAX  256
#define HEADER_STRIDE 128
#define BATCH         64

struct probe {
	const struct backend_ops *ops;
	struct backend *backend;
	struct backend_memory *payload_memory;
	struct backend_memory *headers_memory;
	struct backend_queue *queue;
	struct backend_flow *flows[FLOWS_MAX];
	struct membership *membership;
	struct backend_queue_options options;
	struct net_interface interface;
	struct fault fault;
	uint8_t *payload;
	uint8_t *headers;
	size_t payload_bytes;
	size_t headers_bytes;
	uint32_t n_rows; /* twice the queue: rows that were received stay for a while */
	uint32_t next_row;
};

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void answer(int error)
{
	printf("{\"error\": %d}\n", error < 0 ? error : 0);
}

/* Faults are free of quotes and backslashes but for what strerror and names bring. */
static void answer_fault(const struct probe *probe, int error)
{
	printf("{\"error\": %d, \"exit_code\": %d, \"fault\": \"", error, probe->fault.exit_code);
	for (const char *c = probe->fault.text; *c; c++)
		printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	printf("\"}\n");
}

/* ---- set-up -------------------------------------------------------------------------------------- */

static int map(uint8_t **memory, size_t bytes)
{
	void *address =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (address == MAP_FAILED)
		return -errno;
	*memory = address;
	return 0;
}

static int set_up_memory(struct probe *probe)
{
	int error;

	probe->n_rows = 2 * probe->options.slots;
	probe->payload_bytes = (size_t)probe->n_rows * probe->options.slot_bytes;
	probe->headers_bytes = (size_t)probe->n_rows * HEADER_STRIDE;
	error = map(&probe->payload, probe->payload_bytes);
	if (!error)
		error = map(&probe->headers, probe->headers_bytes);
	if (!error)
		error = probe->ops->register_memory(probe->backend, probe->payload, probe->payload_bytes,
		                                    &probe->payload_memory, &probe->fault);
	if (!error)
		error = probe->ops->register_memory(probe->backend, probe->headers, probe->headers_bytes,
		                                    &probe->headers_memory, &probe->fault);
	return error;
}

static int set_up(struct probe *probe, const char *interface, const char *backend)
{
	int error = 0;

	probe->ops = backend_find(backend);
	if (!probe->ops)
		return fault_set(&probe->fault, EX_USAGE, EINVAL, "no backend called %s", backend);
	error = net_interface_read(interface, &probe->interface, &probe->fault);
	if (!error)
		error = membership_new(&probe->membership);
	if (!error)
		error = probe->ops->open(interface, &probe->backend, &probe->fault);
	if (!error)
		error = set_up_memory(probe);
	if (error)
		return error;
	probe->options.payload = probe->payload_memory;
	probe->options.headers = probe->headers_memory;
	probe->options.header_stride = HEADER_STRIDE;
	return probe->ops->create_queue(probe->backend, &probe->options, &probe->queue, &probe->fault);
}

static void tear_down(struct probe *probe)
{
	membership_free(probe->membership);
	for (int i = 0; i < FLOWS_MAX; i++) {
		if (probe->flows[i])
			probe->ops->remove_flow(probe->flows[i]);
	}
	if (probe->queue)
		probe->ops->destroy_queue(probe->queue);
	if (probe->payload_memory)
		probe->ops->unregister_memory(probe->payload_memory);
	if (probe->headers_memory)
		probe->ops->unregister_memory(probe->headers_memory);
	if (probe->backend)
		probe->ops->close(probe->backend);
	if (probe->payload)
		munmap(probe->payload, probe->payload_bytes);
	if (probe->headers)
		munmap(probe->headers, probe->headers_bytes);
}

/* ---- commands ------------------------------------------------------------------------------------ */

/* Post the next n rows; a run never goes past the last row. Returns how many were taken, or -errno. */
static int post_rows(struct probe *probe, uint32_t n)
{
	uint32_t posted = 0;

	while (posted < n) {
		uint32_t to_end = probe->n_rows - probe->next_row;
		struct backend_run run = {
			.slot = probe->next_row,
			.n = n - posted < to_end ? n - posted : to_end,
			.payload = probe->payload + (size_t)probe->next_row * probe->options.slot_bytes,
			.headers = probe->headers + (size_t)probe->next_row * HEADER_STRIDE,
		};
		int taken = probe->ops->post(probe->queue, &run);

		if (taken < 0)
			return taken;
		posted += (uint32_t)taken;
		probe->next_row = (probe->next_row + (uint32_t)taken) % probe->n_rows;
		if ((uint32_t)taken < run.n)
			break;
	}
	return (int)posted;
}

/* post N: hand N rows over */
static void command_post(struct probe *probe, char *arguments)
{
	int posted = post_rows(probe, (uint32_t)atoi(arguments));

	if (posted < 0)
		answer(posted);
	else
		printf("{\"error\": 0, \"posted\": %d}\n", posted);
}

/* post_unregistered: one row that the device may not write */
static void command_post_unregistered(struct probe *probe, char *arguments)
{
	struct backend_run run = {
		.slot = probe->next_row,
		.n = 1,
		.payload = probe->payload + probe->payload_bytes,
		.headers = probe->headers + probe->headers_bytes,
	};

	(void)arguments;
	answer(probe->ops->post(probe->queue, &run));
}

/* receive N MS: poll until N events came or MS milliseconds passed; rows are not posted again */
static void command_receive(struct probe *probe, char *arguments)
{
	uint32_t wanted = 0, n = 0, ms = 0;
	struct backend_event events[BATCH];
	int got = 0;

	if (sscanf(arguments, "%u %u", &wanted, &ms) != 2) {
		answer(-EINVAL);
		return;
	}
	uint64_t deadline_ns = now_ns(CLOCK_MONOTONIC) + ms * 1000000ull;

	printf("{\"events\": [");
	while (n < wanted && got >= 0 && now_ns(CLOCK_MONOTONIC) < deadline_ns) {
		got = probe->ops->poll(probe->queue, events, wanted - n < BATCH ? wanted - n : BATCH);
		for (int i = 0; i < got; i++, n++)
			printf("%s[%u, %u, %u, %" PRIu64 "]", n ? ", " : "", events[i].slot, events[i].bytes,
			       events[i].status, events[i].timestamp_raw);
	}
	printf("], \"error\": %d}\n", got < 0 ? got : 0);
}

/* stream N MS: as a worker does, poll and post again in chunks, until N packets or MS without one */
static void command_stream(struct probe *probe, char *arguments)
{
	uint64_t wanted = 0, n = 0, bytes = 0, bad = 0;
	struct backend_event events[BATCH];
	uint32_t ms = 0, to_post = 0;
	int r = 0;

	if (sscanf(arguments, "%" SCNu64 " %u", &wanted, &ms) != 2) {
		answer(-EINVAL);
		return;
	}
	uint64_t start_ns = now_ns(CLOCK_MONOTONIC), last_ns = start_ns;

	while (n < wanted && r >= 0) {
		r = probe->ops->poll(probe->queue, events, BATCH);
		if (r <= 0) {
			if (now_ns(CLOCK_MONOTONIC) - last_ns > ms * 1000000ull)
				break;
			continue;
		}
		for (int i = 0; i < r; i++) {
			bytes += events[i].bytes;
			bad += events[i].status != BACKEND_OK;
		}
		n += (uint64_t)r;
		for (to_post += (uint32_t)r; to_post >= BATCH && r >= 0; to_post -= BATCH)
			r = post_rows(probe, BATCH);
		last_ns = now_ns(CLOCK_MONOTONIC);
	}
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"bad\": %" PRIu64 ", \"ns\": %" PRIu64
	       ", \"not_posted\": %u, \"error\": %d}\n",
	       n, bytes, bad, last_ns - start_ns, to_post, r < 0 ? r : 0);
}

static void print_hex(const char *name, const uint8_t *bytes, size_t n)
{
	printf("\"%s\": \"", name);
	for (size_t i = 0; i < n; i++)
		printf("%02x", bytes[i]);
	printf("\", ");
}

/* row SLOT: what is in its header row and at the start of its payload row */
static void command_row(struct probe *probe, char *arguments)
{
	uint32_t slot = (uint32_t)atoi(arguments) % probe->n_rows;
	size_t slot_bytes = probe->options.slot_bytes;

	printf("{");
	print_hex("headers", probe->headers + (size_t)slot * HEADER_STRIDE, HEADER_STRIDE);
	print_hex("payload", probe->payload + slot * slot_bytes, slot_bytes < ROW_DUMP_MAX ? slot_bytes : ROW_DUMP_MAX);
	printf("\"error\": 0}\n");
}

static bool parse_address(const char *text, struct config_address *address)
{
	address->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(address->family, text, address->address) == 1;
}

/* flow I ADDRESS PORT [VLAN [SOURCE]]: add flow number I, and join its group */
static void command_flow(struct probe *probe, char *arguments)
{
	char destination[64], source[64];
	struct config_flow flow = {.vlan = -1};
	struct flow_rule rule;
	unsigned i = 0;
	int n = sscanf(arguments, "%u %63s %" SCNu16 " %" SCNd32 " %63s", &i, destination, &flow.destination_port,
	               &flow.vlan, source);
	int error;

	if (n < 3 || i >= FLOWS_MAX || probe->flows[i] || !parse_address(destination, &flow.destination) ||
	    (n == 5 && !parse_address(source, &flow.source))) {
		answer(-EINVAL);
		return;
	}
	flow_resolve(&flow, probe->interface.mac, &rule);
	error = probe->ops->add_flow(probe->queue, &rule, &probe->flows[i], &probe->fault);
	if (!error)
		error = membership_join(probe->membership, probe->interface.index, &rule, &probe->fault);
	if (error)
		answer_fault(probe, error);
	else
		answer(0);
}

/* unflow I */
static void command_unflow(struct probe *probe, char *arguments)
{
	unsigned i = (unsigned)atoi(arguments) % FLOWS_MAX;

	probe->ops->remove_flow(probe->flows[i]);
	probe->flows[i] = NULL;
	answer(0);
}

static void command_start(struct probe *probe, char *arguments)
{
	(void)arguments;
	answer(probe->ops->start(probe->queue));
}

/* reset: the next row to post is the one named */
static void command_reset(struct probe *probe, char *arguments)
{
	probe->next_row = (uint32_t)atoi(arguments) % probe->n_rows;
	answer(probe->ops->reset(probe->queue));
}

static void command_matched(struct probe *probe, char *arguments)
{
	uint64_t matched = 0;
	int error = probe->ops->read_matched(probe->queue, &matched);

	(void)arguments;
	printf("{\"matched\": %" PRIu64 ", \"error\": %d}\n", matched, error);
}

static void command_port(struct probe *probe, char *arguments)
{
	struct backend_port_statistics port = {0};
	int error = probe->ops->read_port(probe->backend, &port);

	(void)arguments;
	printf("{\"out_of_buffer\": %" PRIu64 ", \"discards\": %" PRIu64
	       ", \"has_discards\": %s, \"active\": %s, \"error\": %d}\n",
	       port.out_of_buffer, port.discards, port.has_discards ? "true" : "false",
	       port.port_active ? "true" : "false", error);
}

/* clock: the device's clock and CLOCK_REALTIME before and after */
static void command_clock(struct probe *probe, char *arguments)
{
	uint64_t raw = 0, before_ns = now_ns(CLOCK_REALTIME);
	int error = probe->ops->read_clock(probe->backend, &raw);

	(void)arguments;
	printf("{\"raw\": %" PRIu64 ", \"before_ns\": %" PRIu64 ", \"after_ns\": %" PRIu64 ", \"error\": %d}\n", raw,
	       before_ns, now_ns(CLOCK_REALTIME), error);
}

static void command_capabilities(struct probe *probe, char *arguments)
{
	struct backend_capabilities is;

	(void)arguments;
	probe->ops->capabilities(probe->backend, &is);
	printf("{\"device\": \"%s\", \"max_queue_slots\": %u, \"oversize_sink\": %s, \"timestamps\": %s, \"clock_hz\": "
	       "%" PRIu64 ", \"clock_mask\": %" PRIu64 ", \"error\": 0}\n",
	       is.device, is.max_queue_slots, is.oversize_sink ? "true" : "false", is.timestamps ? "true" : "false",
	       is.clock_hz, is.clock_mask);
}

static void command_arm(struct probe *probe, char *arguments)
{
	(void)arguments;
	answer(probe->ops->arm(probe->queue));
}

/* wait MS: is the queue's descriptor readable within MS? */
static void command_wait(struct probe *probe, char *arguments)
{
	struct pollfd fd = {.fd = probe->ops->fd(probe->queue), .events = POLLIN};
	int n = fd.fd < 0 ? 0 : poll(&fd, 1, atoi(arguments));

	printf("{\"readable\": %s, \"error\": %d}\n", n > 0 ? "true" : "false", fd.fd < 0 ? fd.fd : 0);
}

static void command_clear(struct probe *probe, char *arguments)
{
	(void)arguments;
	probe->ops->clear(probe->queue);
	answer(0);
}

/* notice MS: the next thing that the device says of itself, waiting MS for it */
static void command_notice(struct probe *probe, char *arguments)
{
	struct pollfd fd = {.fd = probe->ops->notice_fd(probe->backend), .events = POLLIN};
	struct backend_notice notice = {.text = ""};
	int r;

	poll(&fd, 1, atoi(arguments));
	r = probe->ops->read_notice(probe->backend, &notice);
	printf("{\"type\": %d, \"text\": \"%s\", \"of_queue\": %s, \"error\": %d}\n", notice.type, notice.text,
	       notice.queue && notice.queue == probe->queue ? "true" : "false", r < 0 ? r : 0);
}

static const struct {
	const char *name;
	void (*run)(struct probe *probe, char *arguments);
} commands[] = {
	{"post", command_post},
	{"post_unregistered", command_post_unregistered},
	{"receive", command_receive},
	{"stream", command_stream},
	{"row", command_row},
	{"flow", command_flow},
	{"unflow", command_unflow},
	{"start", command_start},
	{"reset", command_reset},
	{"matched", command_matched},
	{"port", command_port},
	{"clock", command_clock},
	{"capabilities", command_capabilities},
	{"arm", command_arm},
	{"wait", command_wait},
	{"clear", command_clear},
	{"notice", command_notice},
};

static void run_command(struct probe *probe, char *line)
{
	char *arguments = line + strcspn(line, " \n");

	if (*arguments)
		*arguments++ = '\0';
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (!strcmp(commands[i].name, line)) {
			commands[i].run(probe, arguments);
			return;
		}
	}
	answer(-ENOSYS);
}

int main(int argc, char **argv)
{
	struct probe probe = {.options = {.slots = 256, .header_bytes = 42, .slot_bytes = 1024, .timestamps = true}};
	const char *backend = "verbs";
	char line[256];
	int option, error;

	while ((option = getopt(argc, argv, "b:q:H:S:oeT")) != -1) {
		switch (option) {
		case 'b': backend = optarg; break;
		case 'q': probe.options.slots = (uint32_t)atoi(optarg); break;
		case 'H': probe.options.header_bytes = (uint32_t)atoi(optarg); break;
		case 'S': probe.options.slot_bytes = (uint32_t)atoi(optarg); break;
		case 'o': probe.options.oversize_sink = true; break;
		case 'e': probe.options.completion_events = true; break;
		case 'T': probe.options.timestamps = false; break;
		default: return EX_USAGE;
		}
	}
	if (optind + 1 != argc)
		return EX_USAGE;
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	error = set_up(&probe, argv[optind], backend);
	if (error)
		answer_fault(&probe, error);
	else
		answer(0);
	while (!error && fgets(line, sizeof(line), stdin))
		run_command(&probe, line);
	tear_down(&probe);
	return error ? probe.fault.exit_code : 0;
}
