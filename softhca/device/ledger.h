// SPDX-License-Identifier: Apache-2.0
/*
 * The counters of a card outlive programs and are the same for all of them. A netdev's ledger is a directory, named
 * after the network namespace and the interface, with a file for each user who has used the device. Each process adds
 * to its user's file. A program that may read the files sees the sum. A file that no process has used for ten minutes
 * is removed by the next process that opens another device.
 */
#ifndef SOFTHCA_DEVICE_LEDGER_H
#define SOFTHCA_DEVICE_LEDGER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device_counters {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t out_of_buffer;
	uint64_t discards;
	/* of RC and UD; most are mlx5's hw_counters */
	uint64_t rx_icrc_encapsulated; /* RoCE frames that are dropped before a queue pair is looked for */
	uint64_t qkey_violations;
	uint64_t out_of_sequence, duplicate_request, packet_seq_err, implied_nak_seq_err, rnr_nak_retry_err;
	uint64_t local_ack_timeout_err, rx_write_requests, rx_read_requests, rx_atomic_requests;
};

/* mlx5's hw_counters of a port, as sysfs and RDMA netlink name them. They have 32 bits in the device (PRM,
 * QUERY_Q_COUNTER), so they wrap. */
#define N_HW_COUNTERS 11
extern const struct hw_counter {
	const char *name;
	size_t offset; /* in struct device_counters */
} hw_counters[N_HW_COUNTERS];
uint32_t hw_counter_value(const struct device_counters *c, unsigned int i);

#define LEDGER_N_VALUES (sizeof(struct device_counters) / sizeof(uint64_t))
#define LEDGER_N_RAW    (offsetof(struct device_counters, rx_icrc_encapsulated) / sizeof(uint64_t))
#define LEDGER_USED_S   LEDGER_N_VALUES /* the word behind them: when a process last had the file open, time(2) */
#define LEDGER_N_WORDS  (LEDGER_N_VALUES + 1)

struct ledger {
	_Atomic uint64_t *shared; /* NULL: not open */
	int fd;
	bool counts_received; /* this process counts the frames that the port receives; one of each user's does */
	size_t n_values;      /* that may change: all, or LEDGER_N_RAW as long as there was no queue pair of RC or UD */
	uint64_t published[LEDGER_N_VALUES];
	char path[PATH_MAX]; /* of the netdev's directory */
};

/* Opens the ledger of the netdev in `directory`, for writing. No effect if that is not possible: then the counters are
 * the process' own. */
void ledger_open(struct ledger *l, const char *directory, const char *netdev);
/* Adds what has been counted since the last call. */
void ledger_publish(struct ledger *l, const struct device_counters *counted);
/* To be called regularly: the ledger is in use. Takes over the counting of received frames if nobody else does it. */
void ledger_use(struct ledger *l);
/* In a forked child: lets go of the ledger, which stays the parent's. */
void ledger_forked(struct ledger *l);

/* Adds counters to a sum. */
void ledger_add(struct device_counters *sum, const struct device_counters *c);
/* The sum of all users; zeros if there is no ledger of the netdev. `l` need not be open. */
void ledger_read(const struct ledger *l, const char *directory, const char *netdev, struct device_counters *sum);

#endif
