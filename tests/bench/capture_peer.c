// SPDX-License-Identifier: Apache-2.0
/* What the programs behind scripts/bench capture share: a place for payloads, counts in the end, a pace. */
#include "tests/bench/capture_peer.h"

#include "lib/base/time.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sysexits.h>
#include <unistd.h>

#define ROWS_BYTES     (UINT32_C(64) << 20)
#define HUGEPAGE_BYTES (UINT32_C(2) << 20)
#define CACHE_LINE     64
#define NAP_NS         50000
#define SLEEP_NS_MIN   100000
#define NS_PER_SECOND  UINT64_C(1000000000)

static volatile sig_atomic_t peer_stop;

_Noreturn void peer_die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(errno));
	exit(EXIT_FAILURE);
}

unsigned long peer_number(const char *text, unsigned long low, unsigned long high)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || value < low || value > high) {
		fprintf(stderr, "%s: %s: not a number from %lu to %lu\n", program_invocation_short_name, text, low,
		        high);
		exit(EX_USAGE);
	}
	return value;
}

static void peer_on_signal(int number)
{
	(void)number;
	peer_stop = 1;
}

void peer_ready(void)
{
	const struct sigaction action = {.sa_handler = peer_on_signal};

	sigaction(SIGTERM, &action, NULL);
	prctl(PR_SET_TIMERSLACK, 1UL);
	puts("{\"ready\": true}");
	fflush(stdout);
}

bool peer_stopped(void)
{
	return peer_stop;
}

void peer_report(uint64_t n_packets, uint64_t n_bytes)
{
	printf("{\"packets\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n", n_packets, n_bytes);
}

struct peer_threads peer_threads_read(int argc, char **argv, int first)
{
	struct peer_threads threads = {.n = 1};

	if (argc > first)
		threads.n = (unsigned)peer_number(argv[first], 1, PEER_THREADS_MAX);
	if (argc > first + 2) {
		threads.first_cpu = (unsigned)peer_number(argv[first + 1], 0, CPU_SETSIZE / 2);
		threads.n_cpus = (unsigned)peer_number(argv[first + 2], 1, CPU_SETSIZE / 2);
	}
	return threads;
}

void peer_threads_run(const struct peer_threads *threads, void *(*run)(void *element), void *elements,
                      size_t element_bytes)
{
	pthread_t started[PEER_THREADS_MAX];

	for (unsigned i = 0; i < threads->n; i++) {
		pthread_attr_t attributes;
		cpu_set_t cpus;

		pthread_attr_init(&attributes);
		if (threads->n_cpus > 0) {
			CPU_ZERO(&cpus);
			CPU_SET(threads->first_cpu + i % threads->n_cpus, &cpus);
			pthread_attr_setaffinity_np(&attributes, sizeof(cpus), &cpus);
		}
		errno = pthread_create(&started[i], &attributes, run, (uint8_t *)elements + i * element_bytes);
		if (errno)
			peer_die("thread");
		pthread_attr_destroy(&attributes);
	}
	for (unsigned i = 0; i < threads->n; i++)
		pthread_join(started[i], NULL);
}

void peer_rows_init(struct peer_rows *rows, uint32_t payload_bytes, unsigned n_sharing)
{
	uint32_t bytes = ROWS_BYTES / n_sharing / HUGEPAGE_BYTES * HUGEPAGE_BYTES;
	int fd = memfd_create("rows", MFD_CLOEXEC | MFD_HUGETLB);

	if (fd < 0 || ftruncate(fd, bytes) < 0)
		peer_die("memfd of hugepages");
	rows->first = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (rows->first == MAP_FAILED)
		peer_die("hugepages");
	close(fd);
	rows->row_bytes = (payload_bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
	rows->next = rows->first;
	rows->end = rows->first + bytes / rows->row_bytes * rows->row_bytes;
}

uint8_t *peer_rows_take(struct peer_rows *rows)
{
	uint8_t *row = rows->next;

	rows->next += rows->row_bytes;
	if (rows->next == rows->end)
		rows->next = rows->first;
	return row;
}

void peer_nap(void)
{
	const struct timespec nap = {.tv_nsec = NAP_NS};

	nanosleep(&nap, NULL);
}

void peer_pace_init(struct peer_pace *pace, uint64_t rate)
{
	prctl(PR_SET_TIMERSLACK, 1UL);
	*pace = (struct peer_pace){.start_ns = time_monotonic_ns(), .rate = rate};
}

void peer_pace_wait(const struct peer_pace *pace, uint64_t n_sent)
{
	uint64_t due_ns, now_ns;
	struct timespec due;

	if (!pace->rate)
		return;
	due_ns = pace->start_ns + (uint64_t)((double)n_sent * 1e9 / (double)pace->rate);
	now_ns = time_monotonic_ns();
	if (now_ns + SLEEP_NS_MIN < due_ns) {
		due = (struct timespec){.tv_sec = (time_t)(due_ns / NS_PER_SECOND),
		                        .tv_nsec = (long)(due_ns % NS_PER_SECOND)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
	}
	while (time_monotonic_ns() < due_ns)
		;
}

long peer_bpf(enum bpf_cmd command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

int peer_load_program(union bpf_attr *attr)
{
	long fd;

	attr->license = (uintptr_t) "Dual BSD/GPL";
	fd = peer_bpf(BPF_PROG_LOAD, attr);
	if (fd < 0)
		peer_die("cannot load a BPF program (it takes CAP_BPF and CAP_NET_ADMIN)");
	return (int)fd;
}
