// SPDX-License-Identifier: Apache-2.0
/* Checks of a configuration against the machine, before any memory is made. */
#include "daemon/memory/memory_check.h"
#include "daemon/process/preflight.h"
#include "daemon/process/socket_location.h"
#include "tests/support/flows.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct failure failure;

static struct config *load(const char *stream, const char *channel)
{
	struct config *config = NULL;
	char text[2048];

	snprintf(text, sizeof(text),
	         "streams = (\n"
	         "{ name = \"small\"; interface = \"e\"; payload_size = 100; flows = ( { destination = \"239.0.0.1\"; "
	         "port = 1; } ); },\n"
	         "{ name = \"other\"; interface = \"e\"; payload_size = 100; flows = ( { destination = \"239.0.0.2\"; "
	         "port = 1; } ); %s } );\n"
	         "channels = (\n"
	         "{ name = \"out\"; interface = \"e\"; source_port = 9; payload_size = 100; destinations = ( { address "
	         "= "
	         "\"10.0.0.1\"; port = 1; } ); %s } );\n",
	         stream, channel);
	cr_assert(eq(int, config_load_text("test.conf", text, &config, &failure), 0), "%s", failure.text);
	return config;
}

static void expect_said(const char *words)
{
	cr_expect(strstr(failure.text, words) != NULL, "'%s' does not say '%s'", failure.text, words);
}

Test(preflight, rings_larger_than_the_machine_are_refused_with_the_key_and_the_sizes)
{
	struct config *config = load("history_blocks = 10000000;", "");

	/* 256 * (100 + 64) bytes a block; a page of 4096 bytes for the payload of a block and 64 bytes a header */
	cr_expect(eq(int, memory_check_rings(config, &failure), -EINVAL));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	expect_said("test.conf:3: stream 'other': history_blocks = 10000000 makes a ring of ");
	expect_said("all rings together are ");
	expect_said("this machine has ");
	expect_said("lower history_blocks");
	cr_expect(eq(ptr, strstr(failure.text, "echo"), NULL));
	config_free(config);
	config = load("", "");
	cr_expect(eq(int, memory_check_rings(config, &failure), 0));
	config_free(config);
}

Test(preflight, rings_that_fit_alone_but_not_together_are_refused)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	struct config_flow flow = {.destination = {.family = AF_INET}, FLOW_DEFAULTS};
	struct config_stream streams[2] = {
		{.name = "a",
	         .file = "test.conf",
	         .line = 3,
	         .flows = &flow,
	         .n_flows = 1,
	         .payload_size = 4096,
	         .slots_per_block = 64,
	         .queues = 1,
	         .receive_queue_slots = 64,
	         .page_bytes = 4096},
	};
	struct config config = {.streams = streams, .n_streams = 1};

	streams[0].history_blocks = (uint32_t)(memory / 10 * 6 / (64 * (4096 + 64)));
	streams[1] = streams[0];
	streams[1].name[0] = 'b';
	streams[1].line++;
	streams[1].history_blocks++;
	cr_expect(eq(int, memory_check_rings(&config, &failure), 0));
	config.n_streams = 2;
	cr_expect(eq(int, memory_check_rings(&config, &failure), -EINVAL));
	expect_said("test.conf:4: stream 'b'");
}

Test(preflight, a_cpu_that_is_not_there_is_refused_with_its_place)
{
	struct config *config = load("cpu = 1023;", ""), *channel = load("", "cpu = 1023;");
	cpu_set_t before, after;

	sched_getaffinity(0, sizeof(before), &before);
	if (CPU_ISSET(1023, &before))
		cr_skip_test("a machine with so many CPUs");
	cr_expect(eq(int, preflight_check_cpus(config, NULL, &failure), -EINVAL));
	cr_expect(eq(int, failure.exit_code, EX_CONFIG));
	expect_said("test.conf:3: stream 'other': cpu = 1023: ");
	expect_said("accepted is -1, or one that is in /sys/devices/system/cpu/online");
	cr_expect(eq(int, preflight_check_cpus(channel, NULL, &failure), -EINVAL));
	expect_said("test.conf:5: channel 'out': cpu = 1023: ");
	/* A CPU may go offline while its worker runs. */
	cr_expect(eq(int, preflight_check_cpus(config, config, &failure), 0));
	cr_expect(eq(int, preflight_check_cpus(channel, channel, &failure), 0));
	sched_getaffinity(0, sizeof(after), &after);
	bool is_same = CPU_EQUAL(&before, &after);

	cr_expect(is_same, "the check changed the CPUs of its thread");
	config_free(config);
	config_free(channel);
}

Test(preflight, cpus_that_are_there_are_accepted_even_those_that_this_thread_does_not_use)
{
	struct config *config;
	char key[32];
	cpu_set_t all, one;
	int cpu = CPU_SETSIZE - 1;

	sched_getaffinity(0, sizeof(all), &all);
	while (!CPU_ISSET((unsigned)cpu, &all))
		cpu--;
	snprintf(key, sizeof(key), "cpu = %d;", cpu);
	config = load(key, "");
	cr_expect(eq(int, preflight_check_cpus(config, NULL, &failure), 0));
	CPU_ZERO(&one);
	for (unsigned i = 0; CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	sched_setaffinity(0, sizeof(one), &one);
	cr_expect(eq(int, preflight_check_cpus(config, NULL, &failure), 0));
	config_free(config);
}

/* ---- the socket's place ---------------------------------------------------------------------------- */

static bool is_private(const char *socket_path, const char *mounts)
{
	char path[] = "/tmp/ibvcap-mountinfo-XXXXXX";
	int fd = mkstemp(path);
	bool is;

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(sz, (size_t)write(fd, mounts, strlen(mounts)), strlen(mounts)));
	close(fd);
	is = socket_location_is_private(socket_path, path);
	unlink(path);
	return is;
}

Test(socket_location, a_tmp_that_systemd_made_for_the_service_hides_a_socket)
{
	const char *mounts =
		"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
		"310 22 0:35 /systemd-private-4f-ibvcapd.service-x/tmp /tmp rw master:9 - tmpfs tmpfs rw\n"
		"311 22 8:1 /var/tmp/systemd-private-4f-ibvcapd.service-y/tmp /var/tmp rw - ext4 /dev/sda1 rw\n";
	const char *host = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
			   "30 22 0:35 / /tmp rw,nosuid shared:9 - tmpfs tmpfs rw\n";

	cr_expect(is_private("/tmp/x.sock", mounts));
	cr_expect(is_private("/var/tmp/deep/x.sock", mounts));
	cr_expect(not(is_private("/run/ibvcapd/control.sock", mounts)));
	cr_expect(not(is_private("/tmpfs/x.sock", mounts)));
	cr_expect(not(is_private("/tmp/x.sock", host)));
	cr_expect(not(is_private("/tmp/x.sock", "")));
	cr_expect(not(socket_location_is_private("/tmp/x.sock", "/nonexistent")));
	cr_expect(socket_location_is_temporary("/tmp/x.sock"));
	cr_expect(not(socket_location_is_temporary("/run/x.sock")));
}
