// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon's run in miniature, with everything that can happen to it in any order: queues of a reference device, their
 * workers, the readings that control makes, outages, failures and restarts; and readers with moments. The history
 * remembers every packet that was lost, with its place, so that each verdict can be judged. Time is simulated.
 */
#ifndef TESTS_UNIT_IBVCAP_HISTORY_H
#define TESTS_UNIT_IBVCAP_HISTORY_H

#include "daemon/control/rx_losses.h"
#include "daemon/worker/rx_worker.h"
#include "tests/support/reference_device.h"

#include <ibvcap/ibvcap.h>

#define HISTORY_QUEUES_MAX  3
#define HISTORY_LOSSES_MAX  200000
#define HISTORY_MOMENTS_MAX 64
#define HISTORY_WAITING_MAX 4096

enum history_place {
	PLACE_WIRE,      /* it did not reach the device, or the daemon was away */
	PLACE_INTERFACE, /* the interface dropped it, and counted it */
	PLACE_PROGRAM,   /* a program on the interface dropped it, of which the daemon knows only that it was there */
	PLACE_DEVICE,    /* it got no row, or one that was not published */
	PLACE_READER,    /* the reader skipped its row */
	N_PLACES
};

/* A packet that no reader gets. */
struct history_loss {
	enum history_place place;
	uint32_t queue;
	uint32_t epoch;    /* from 0 */
	uint64_t sequence; /* of its row, or of the next one; UINT64_MAX: behind the last */
	uint64_t at_ns;
};

/* A boundary: of each queue, the moment and the first row behind it. */
struct history_moment {
	uint64_t at_ns;
	uint32_t epoch[HISTORY_QUEUES_MAX];
	uint64_t sequence[HISTORY_QUEUES_MAX]; /* UINT64_MAX: behind the last */
	struct ibvcap_rx_moment moments[HISTORY_QUEUES_MAX];
};

/* A packet before the flow rules, which comes to its queue later; or one that the interface dropped behind it. */
struct history_waiting {
	uint32_t queue;
	bool is_dropped;
	bool is_counted;
	uint64_t at_ns;
};

struct history_queue {
	struct device *device;
	struct rx_ring ring;
	struct worker *worker;
	struct ring_consumer consumer;
	bool has_consumer;
	int daemon_socket;
	int daemon_wake;
	struct ibvcap_rx *rx;
	struct ibvcap_rx_batch batch;
	bool has_batch;
};

struct history {
	uint32_t n_queues;
	bool has_kernel_ring;
	uint32_t epoch; /* the daemon's */
	bool is_away;
	bool is_outage, is_outage_told;
	struct rx_losses ledger;
	struct history_queue queues[HISTORY_QUEUES_MAX];
	struct losses_reading reading;
	bool is_reading_due;
	uint64_t next_number;
	struct history_waiting waiting[HISTORY_WAITING_MAX];
	uint32_t n_waiting;
	uint64_t interface_lost;  /* as the interface counts, since the machine was started */
	uint64_t interface_at_ns; /* when the daemon read it last */
	uint64_t interface_read;  /* what it read */
	uint64_t programs;        /* grows when one comes or goes: odd while there is one */
	uint64_t programs_read;
	struct history_loss *losses;
	uint32_t n_losses;
	struct history_moment moments[HISTORY_MOMENTS_MAX];
	uint32_t n_moments;
};

/** The simulated clock, CLOCK_MONOTONIC and CLOCK_REALTIME alike. */
extern uint64_t history_now_ns;

void history_init(struct history *history, uint32_t n_queues, bool has_kernel_ring, const char *path, int listener);
void history_deinit(struct history *history);

/* What can happen. */
void history_arrive(struct history *history, uint32_t n, uint32_t late_ns);
/**
 * n packets wait in the interface, and it drops others: history_let_in() has to follow within a second. While there is
 * a program, that drops them.
 */
void history_hold(struct history *history, uint32_t n, uint32_t n_dropped);
void history_let_in(struct history *history);
void history_read_interface(struct history *history);
void history_work(struct history *history, uint32_t queue, uint32_t rounds);
void history_read_counters(struct history *history);
void history_mail_reading(struct history *history);
void history_fail_queue(struct history *history, uint32_t queue, bool for_ever);
void history_set_outage(struct history *history, bool is_down);
void history_tell_outage(struct history *history);
void history_kill(struct history *history);
void history_stop(struct history *history);
void history_begin(struct history *history);
void history_acquire(struct history *history, uint32_t queue, uint32_t max);
void history_release(struct history *history, uint32_t queue);
void history_take_moment(struct history *history, uint32_t in_batch);
void history_settle_moments(struct history *history);

#endif
