// SPDX-License-Identifier: Apache-2.0
/* Rules of fork(): what a child can do with the device, and what the parent keeps. */
#include "verbs_rules.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *fork_leaves_the_device(void)
{
	struct queue *q = shared_queue();
	int status;
	pid_t child = fork();

	if (!child) {
		errno = 0;
		_exit(!ibv_alloc_pd(q->ctx) && errno == EIO ? 0 : 1);
	}
	EXPECT(waitpid(child, &status, 0) == child && !status, "the child was not refused with EIO");
	EXPECT(ibv_query_qp(q->qp, &(struct ibv_qp_attr){}, IBV_QP_STATE, &(struct ibv_qp_init_attr){}) == 0,
	       "the parent lost its device");
	return NULL;
}

static const char *fork_first_then_open(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(shared_queue()->qp ? 0 : 1);
	EXPECT(waitpid(child, &status, 0) == child && !status, "a daemon's child cannot open");
	return NULL;
}

/* While the parent has the device open and closes its own descriptors, and with the child's children, too. */
static const char *fork_then_open_anew(void)
{
	struct queue_config config = {.depth = 4, .n_sge = 1, .payload_bytes = 2048, .use_channel = true};
	struct queue mine;
	int status;
	pid_t child;

	queue_open(&mine, &config);
	EXPECT(!queue_add_udp_flow(&mine, "10.1.2.3", 4002, true), "no flow");
	child = fork();
	if (!child) {
		struct queue q;

		queue_open(&q, &config);
		if (queue_post(&q, 0, 4) || queue_add_udp_flow(&q, "10.1.2.4", 4003, true))
			_exit(1);
		child = fork();
		if (!child) {
			queue_open(&q, &config);
			_exit(queue_post(&q, 0, 4) || close(mine.ctx->cmd_fd) || close(mine.channel->fd));
		}
		if (waitpid(child, &status, 0) != child || status)
			_exit(2);
		queue_close(&q);
		errno = 0;
		_exit(!ibv_alloc_pd(mine.ctx) && errno == EIO ? 0 : 3);
	}
	EXPECT(waitpid(child, &status, 0) == child && !status, "a child could not open the device");
	EXPECT(!queue_post(&mine, 0, 4) && !ibv_destroy_flow(mine.flow), "the parent lost its device");
	mine.flow = NULL;
	queue_close(&mine);
	return NULL;
}

/* The locks that a counter is read under may be held at fork(), and nobody is there to give them back. */
static const char *counters_in_a_child(void)
{
	const char *path = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_buffer";
	char text[32];
	int status, fd;

	EXPECT(shared_queue()->qp, "no queue");
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();

		if (!child) {
			fd = open(path, O_RDONLY);
			_exit(read(fd, text, sizeof(text)) > 0);
		}
		EXPECT(waitpid(child, &status, 0) == child, "no child");
		EXPECT(WIFEXITED(status) && WEXITSTATUS(status), "a child of the program reads no counter");
	}
	return NULL;
}

const struct rule fork_rules[] = {
	{"fork-leaves-the-device", "softhca: README", .check = fork_leaves_the_device},
	{"fork-first-then-open", "softhca: README", .check = fork_first_then_open},
	{"fork-then-open-anew", "softhca: README", .check = fork_then_open_anew},
	{"fork-then-read-counters", "softhca: README", .check = counters_in_a_child},
	{},
};
