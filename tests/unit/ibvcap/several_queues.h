// SPDX-License-Identifier: Apache-2.0
/*
 * A daemon with a stream of several queues, played by the test step by step: it accepts a connection, reads the request
 * and answers with a ring or an error.
 */
#ifndef TESTS_UNIT_IBVCAP_SEVERAL_QUEUES_H
#define TESTS_UNIT_IBVCAP_SEVERAL_QUEUES_H

#include "tests/unit/ibvcap/attached.h"

#include <ibvcap/ibvcap.h>

#define QUEUES_MAX 4u

/* Each is the daemon's side of a queue. The test sets queue, n_queues and epoch before it answers with the ring. */
extern struct attached queues[QUEUES_MAX];
/* The queues of the next daemon. */
extern struct attached next_queues[QUEUES_MAX];
extern struct ibvcap_rx *rx;
extern struct ibvcap_rx_batch batch; /* of take() */

/* For a test suite. tear_down_queues() closes rx and what the daemon has. */
void set_up_queues(void);
void tear_down_queues(void);

/** The path of the control socket. */
const char *queues_path(void);

/** Does a client ask within so many ms? */
bool is_asked(int ms);
/** The connection of the next client, and its request to attach. Asserts that one comes. */
int accept_request(union protocol_message *request);
/** The same; -1: the client has hung up without a request. */
int try_accept_request(union protocol_message *request);
/** Answer with the ring of the queue. taken_over: of a group, with so many packets abandoned before. */
void answer(int fd, struct attached *of);
void answer_taken_over(int fd, struct attached *of, uint64_t abandoned);
void answer_tap(int fd, struct attached *of);
void refuse(int fd, int error);
void answer_joined(int fd, uint64_t epoch, uint32_t n_queues);
/** Say that the group wants the queue back, as control does. */
void recall(struct attached *of);

/** ibvcap_rx_open() in another thread, for which this one is the daemon. */
void begin_open(const struct ibvcap_rx_options *options);
/** Its result; *error_text is what the library said. rx is the handle. */
int end_open(const char **error_text);

/** Open all of these n queues by one handle. */
void open_all_queues(struct attached *of, uint32_t n, const struct ibvcap_rx_options *options);
/** Answer to so many requests, each with the ring of the queue that it asks for. */
void answer_requests(struct attached *of, uint32_t n_queues, uint64_t epoch, uint32_t n_requests);

/** The connection by which a member of a group waits for its next queue, and its last request. */
extern int asking;
extern union protocol_message last_request;
/** Open rx as a member of a group; there is no queue for it yet. */
void join_with(struct ibvcap_rx_options options, uint32_t n_queues);
void join(uint32_t n_queues);
void prepare(struct attached *of, uint32_t queue, uint32_t n_queues, uint64_t epoch);
/** The member reads that it has joined, gets a queue, and asks for another one if there may be one more. */
void give(struct attached *of, uint32_t queue, uint32_t n_queues, uint64_t epoch);
/** It asks for one more. */
void expect_next_request(uint32_t n_queues);

/** Acquire at most max rows without waiting, as batch. */
int take(uint32_t max);
/** The same; expects so many rows of that queue, and releases them. */
void expect_rows(uint32_t queue, uint32_t n, uint32_t flags);
struct ibvcap_rx_counts counts_of_rx(void);
struct ibvcap_rx_info info_of_rx(void);

/** As worker and notifier do after a packet: wake the consumer if it has asked for that. */
void notify(struct attached *of);
/** The daemon gives the queue up: its memory and its descriptors. No effect on one that was never answered with. */
void end_queue(struct attached *of);
/** Is the descriptor of rx readable within so many ms? */
bool is_readable(int fd, int ms);
/** Has the client closed the connection of this queue? */
bool has_hung_up(const struct attached *of);
unsigned count_fds(void);

#endif
