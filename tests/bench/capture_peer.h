// SPDX-License-Identifier: Apache-2.0
/*
 * What the programs behind scripts/bench capture share. A receiver prints {"ready": true} when it receives, and its
 * counts in one JSON line after SIGTERM.
 */
#ifndef TESTS_BENCH_CAPTURE_PEER_H
#define TESTS_BENCH_CAPTURE_PEER_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Print "PROGRAM: what: errno" and exit. */
_Noreturn void peer_die(const char *what);
/** A number on the command line, else exit. */
unsigned long peer_number(const char *text, unsigned long low, unsigned long high);

/** Say that packets are received from now on; SIGTERM is noted from now on. */
void peer_ready(void);
bool peer_stopped(void);
void peer_report(uint64_t n_packets, uint64_t n_bytes);

/** bpf(2). */
long peer_bpf(enum bpf_cmd command, union bpf_attr *attr);
/** Load the program that attr describes; its licence is set here. The descriptor; the process ends on failure. */
int peer_load_program(union bpf_attr *attr);

/*
 * Threads of a receiver, by the end of its command line, [THREADS [CPU N_CPUS]]: thread k runs on CPU + k mod N_CPUS.
 * Without them: one thread, on any CPU.
 */
struct peer_threads {
	unsigned n;
	unsigned first_cpu;
	unsigned n_cpus; /* 0: any */
};

#define PEER_THREADS_MAX 64

struct peer_threads peer_threads_read(int argc, char **argv, int first);
/** Call run() in each thread, with its element of the array, and return when all have ended. */
void peer_threads_run(const struct peer_threads *threads, void *(*run)(void *element), void *elements,
                      size_t element_bytes);

/* A ring of rows in hugepages of a memfd, which another process could map: where a bare receiver puts its payloads. */
struct peer_rows {
	uint8_t *first;
	uint8_t *next;
	uint8_t *end;
	uint32_t row_bytes;
};

/** n_sharing: so many threads, each with rows of its own, share the memory. */
void peer_rows_init(struct peer_rows *rows, uint32_t payload_bytes, unsigned n_sharing);
/** The next row; the oldest is overwritten. */
uint8_t *peer_rows_take(struct peer_rows *rows);

/** Sleep for 50 us, the nap of a receiver that found no packet. */
void peer_nap(void);

/* When a sender may send its next packets. */
struct peer_pace {
	uint64_t start_ns;
	uint64_t rate; /* packets a second; 0: as fast as they go */
};

void peer_pace_init(struct peer_pace *pace, uint64_t rate);
/** Wait until the packet after the first n_sent is due. */
void peer_pace_wait(const struct peer_pace *pace, uint64_t n_sent);

#endif
