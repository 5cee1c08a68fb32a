// SPDX-License-Identifier: Apache-2.0
/*
 * backend_probe INTERFACE [-b BACKEND] [-q SLOTS] [-H HEADER_BYTES] [-S SLOT_BYTES] [-oeTLVD] [-M US]
 * backend_probe INTERFACE [-b BACKEND] -s SLOTS [-S SLOT_BYTES] [-c] [-r RATE_BPS] [-B BURST_BYTES] [-e]
 *
 * One queue of a backend, driven by commands on stdin, one a line; each is answered by one line of JSON on
 * stdout, {"error": -errno, …} where it failed. What the device does is then up to who sends packets, or for whoever
 * receives them to see.
 *   -o oversize sink   -e completion events   -T no timestamps   -L receive by libibverbs, not directly
 *   -V checks of checksums   -D delay drop   -M moderation of events
 *   -s a queue that sends   -c checksums by the device
 */
#include "tests/support/backend_probe.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/base/log.h"

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

uint64_t now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void answer(int error)
{
	printf("{\"error\": %d}\n", error < 0 ? error : 0);
}

/* Faults are free of quotes and backslashes but for what strerror and names bring. */
void answer_fault(const struct probe *probe, int error)
{
	printf("{\"error\": %d, \"exit_code\": %d, \"failure\": \"", error, probe->failure.exit_code);
	for (const char *c = probe->failure.text; *c; c++)
		printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
	printf("\"}\n");
}

bool parse_address(const char *text, struct config_address *address)
{
	address->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(address->family, text, address->address) == 1;
}

/* ---- set-up -------------------------------------------------------------------------------------- */

static int map(uint8_t **memory, size_t bytes)
{
	void *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (address == MAP_FAILED)
		return -errno;
	*memory = address;
	return 0;
}

static int set_up_memory(struct probe *probe)
{
	int error;

	probe->n_rows = 2 * (probe->send_options.slots ? probe->send_options.slots : probe->options.slots);
	probe->payload_bytes = (size_t)probe->n_rows * probe->options.slot_bytes;
	probe->headers_bytes = (size_t)probe->n_rows * HEADER_STRIDE;
	error = map(&probe->payload, probe->payload_bytes);
	if (!error)
		error = map(&probe->headers, probe->headers_bytes);
	if (!error)
		error = probe->ops->register_memory(probe->backend, probe->payload, probe->payload_bytes,
		                                    &probe->payload_memory, &probe->failure);
	if (!error)
		error = probe->ops->register_memory(probe->backend, probe->headers, probe->headers_bytes,
		                                    &probe->headers_memory, &probe->failure);
	return error;
}

static int set_up(struct probe *probe, const char *interface, const char *backend)
{
	const struct backend_open_options options = {.interface = interface, .queues = 8, .direct = !probe->by_library};
	int error = 0;

	probe->ops = backend_find(backend);
	if (!probe->ops)
		return failure_set(&probe->failure, EX_USAGE, EINVAL, "no backend called %s", backend);
	error = net_interface_read(interface, &probe->interface, &probe->failure);
	if (!error)
		error = membership_new(&probe->membership);
	if (!error)
		error = probe->ops->open(&options, &probe->backend, &probe->failure);
	if (!error)
		error = set_up_memory(probe);
	if (error)
		return error;
	if (probe->send_options.slots) {
		probe->send_options.headers = probe->headers_memory;
		probe->send_options.completion_events = probe->options.completion_events;
		return probe->ops->create_send_queue(probe->backend, &probe->send_options, &probe->queue,
		                                     &probe->failure);
	}
	probe->options.payload = probe->payload_memory;
	probe->options.headers = probe->headers_memory;
	probe->options.header_stride = HEADER_STRIDE;
	probe->options.row_stride = probe->options.slot_bytes;
	return probe->ops->create_queue(probe->backend, &probe->options, &probe->queue, &probe->failure);
}

static void tear_down(struct probe *probe)
{
	membership_free(probe->membership);
	for (int i = 0; i < FLOWS_MAX; i++) {
		if (probe->flows[i])
			probe->ops->remove_flow(probe->flows[i]);
	}
	if (probe->queue)
		probe->queue->ops->destroy_queue(probe->queue);
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

/* ---- commands of both directions ------------------------------------------------------------------ */

static void command_start(struct probe *probe, char *arguments)
{
	(void)arguments;
	answer(probe->queue->ops->start(probe->queue));
}

/* reset: the next row to post is the one named */
static void command_reset(struct probe *probe, char *arguments)
{
	int r = probe->queue->ops->reset(probe->queue);

	probe->next_row = (uint32_t)atoi(arguments) % probe->n_rows;
	if (r == 0 && probe->queue->use.posted != probe->queue->use.taken) {
		fprintf(stderr, "backend_probe: a queue has posted slots after reset()\n");
		exit(EXIT_FAILURE);
	}
	answer(r);
}

static void command_port(struct probe *probe, char *arguments)
{
	struct backend_port_statistics port = {0};
	int error = probe->ops->read_port(probe->backend, &port);

	(void)arguments;
	printf("{\"out_of_buffer\": %" PRIu64 ", \"active\": %s, \"error\": %d}\n", port.out_of_buffer,
	       port.port_active ? "true" : "false", error);
}

/* clock: the device's clock and CLOCK_REALTIME before and after */
static void command_clock(struct probe *probe, char *arguments)
{
	struct backend_clock_reading now = {0};
	uint64_t before_ns = now_ns(CLOCK_REALTIME);
	int error = probe->ops->read_clock(probe->backend, &now);

	(void)arguments;
	printf("{\"raw\": %" PRIu64 ", \"before_ns\": %" PRIu64 ", \"after_ns\": %" PRIu64 ", \"error\": %d}\n",
	       now.raw, before_ns, now_ns(CLOCK_REALTIME), error);
}

static void command_capabilities(struct probe *probe, char *arguments)
{
	struct backend_capabilities is;

	(void)arguments;
	probe->ops->capabilities(probe->backend, &is);
	printf("{\"device\": \"%s\", \"how\": \"%s\", \"max_queue_slots\": %u, \"oversize_sink\": %s, \"timestamps\": "
	       "%s, \"clock_hz\": "
	       "%" PRIu64 ", \"clock_mask\": %" PRIu64
	       ", \"max_send_slots\": %u, \"send_checksums\": %s, \"min_rate_bps\": "
	       "%" PRIu64 ", \"max_rate_bps\": %" PRIu64 ", \"error\": 0}\n",
	       is.device, is.how, is.max_queue_slots, is.oversize_sink ? "true" : "false",
	       is.timestamps ? "true" : "false", is.clock_hz, is.clock_mask, is.max_send_slots,
	       is.send_checksums ? "true" : "false", is.min_rate_bps, is.max_rate_bps);
}

static void command_arm(struct probe *probe, char *arguments)
{
	(void)arguments;
	answer(probe->queue->ops->arm(probe->queue));
}

/* wait MS: is the queue's descriptor readable within MS? Without a posted slot there is none, and so it is not. */
static void command_wait(struct probe *probe, char *arguments)
{
	struct pollfd fd = {.fd = probe->queue->ops->fd(probe->queue), .events = POLLIN};
	int n = fd.fd < 0 ? 0 : poll(&fd, 1, atoi(arguments));

	printf("{\"readable\": %s, \"error\": %d}\n", n > 0 ? "true" : "false",
	       fd.fd < 0 && fd.fd != -EAGAIN ? fd.fd : 0);
}

static void command_clear(struct probe *probe, char *arguments)
{
	(void)arguments;
	probe->queue->ops->clear(probe->queue);
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

static const struct probe_command commands[] = {
	{"start", command_start},
	{"reset", command_reset},
	{"port", command_port},
	{"clock", command_clock},
	{"capabilities", command_capabilities},
	{"arm", command_arm},
	{"wait", command_wait},
	{"clear", command_clear},
	{"notice", command_notice},
	{0},
};

static const struct probe_command *find(const struct probe_command *command, const char *name)
{
	while (command->name && strcmp(command->name, name) != 0)
		command++;
	return command->name ? command : NULL;
}

static void run_command(struct probe *probe, char *line)
{
	char *arguments = line + strcspn(line, " \n");
	const struct probe_command *command;

	if (*arguments)
		*arguments++ = '\0';
	command = find(commands, line);
	if (!command)
		command = find(probe->send_options.slots ? probe_send_commands : probe_receive_commands, line);
	if (command)
		command->run(probe, arguments);
	else
		answer(-ENOSYS);
}

int main(int argc, char **argv)
{
	struct probe probe = {.options = {.slots = 256, .header_bytes = 42, .slot_bytes = 1024, .timestamps = true}};
	const char *backend = "verbs";
	char line[256];
	int option, error;

	while ((option = getopt(argc, argv, "b:q:H:S:oeTLVDM:s:cr:B:")) != -1) {
		switch (option) {
		case 'b':
			backend = optarg;
			break;
		case 'q':
			probe.options.slots = (uint32_t)atoi(optarg);
			break;
		case 'H':
			probe.options.header_bytes = (uint32_t)atoi(optarg);
			break;
		case 'S':
			probe.options.slot_bytes = (uint32_t)atoi(optarg);
			break;
		case 'o':
			probe.options.oversize_sink = true;
			break;
		case 'e':
			probe.options.completion_events = true;
			break;
		case 'T':
			probe.options.timestamps = false;
			break;
		case 'L':
			probe.by_library = true;
			break;
		case 'V':
			probe.options.checksums = true;
			break;
		case 'D':
			probe.options.delay_drop = true;
			break;
		case 'M':
			probe.options.moderation_us = (uint32_t)atoi(optarg);
			break;
		case 's':
			probe.send_options.slots = (uint32_t)atoi(optarg);
			break;
		case 'c':
			probe.send_options.checksums = true;
			break;
		case 'r':
			probe.send_options.rate_bps = strtoull(optarg, NULL, 10);
			break;
		case 'B':
			probe.send_options.burst_bytes = (uint32_t)atoi(optarg);
			break;
		default:
			return EX_USAGE;
		}
	}
	if (optind + 1 != argc)
		return EX_USAGE;
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
	log_set_level(LOG_WARNING);
	error = set_up(&probe, argv[optind], backend);
	if (error)
		answer_fault(&probe, error);
	else
		answer(0);
	while (!error && fgets(line, sizeof(line), stdin))
		run_command(&probe, line);
	tear_down(&probe);
	return error ? probe.failure.exit_code : 0;
}
