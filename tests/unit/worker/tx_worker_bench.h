// SPDX-License-Identifier: Apache-2.0
/* A transmit worker with queues and senders on the scripted backend, in time that the test makes up. */
#ifndef TESTS_UNIT_WORKER_TX_WORKER_BENCH_H
#define TESTS_UNIT_WORKER_TX_WORKER_BENCH_H

#include "daemon/worker/tx_worker.h"
#include "lib/ibvcap/ring.h"
#include "tests/support/scripted_backend.h"
#include "tests/support/senders.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define BENCH_QUEUES_MAX  100
#define BENCH_SENDERS_MAX 4
#define BENCH_SLOTS       256u
#define BENCH_BYTES       1472u
#define BENCH_HEADERS     42u
#define BENCH_UTC_NS      UINT64_C(1700000000000000000)

struct bench_setting {
	uint32_t n_queues;    /* 0: 1 */
	uint32_t n_senders;   /* 0: 1; sender i is in queue i mod n_queues */
	uint32_t queue_slots; /* 0: 128 */
	uint64_t rate_bps;
	uint32_t burst_bytes;
	uint64_t late_after_ns; /* 0: 1 ms */
	enum packet_checksums checksums;
	uint64_t spin_ns;
	uint32_t slot_bytes; /* 0: BENCH_BYTES */
	uint32_t mtu;        /* not 0: the queues cut what is longer */
	bool unresolved;
	bool at_once; /* what is posted is sent */
};

struct bench {
	struct bench_setting setting;
	struct backend *backend;
	struct worker *worker;
	struct tx_queue *queues[BENCH_QUEUES_MAX];
	struct test_sender senders[BENCH_SENDERS_MAX];
	struct tx_clock_sample now;
	_Atomic uint32_t identification; /* of all destinations */
};

void bench_set_up(struct bench *bench, const struct bench_setting *setting);
/** Nothing may be with the worker any more that is not in the bench. */
void bench_tear_down(struct bench *bench);

/** Rounds until there is nothing to do. */
void bench_work(struct bench *bench);
/** One round. */
int bench_round(struct bench *bench);
void bench_pass(struct bench *bench, uint64_t ns);

/** Headers of destination 0 of a queue, with the MTU. */
void bench_resolve(struct bench *bench, uint32_t channel, uint32_t mtu);

void bench_mail(struct bench *bench, const struct mail *mail);
/** The next answer, which has to be of that type. */
struct mail bench_expect_mail(struct bench *bench, enum mail_type type);
void bench_expect_no_mail(struct bench *bench);

/** n packets of so many bytes to destination 0. */
void bench_submit(struct bench *bench, uint32_t sender, uint32_t n, uint16_t length);

static inline uint64_t bench_count(const struct bench *bench, uint32_t channel, enum ibvcap_tx_counter counter)
{
	return counter_get(&bench->queues[channel]->counters[counter]);
}

/** submitted = completed + errored + flushed + late_dropped + pending, of every sender and every channel. */
void bench_expect_sums(const struct bench *bench, uint64_t pending);

int32_t bench_status(const struct bench *bench, uint32_t sender, uint64_t number);

#endif
