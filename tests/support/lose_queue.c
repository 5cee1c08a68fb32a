// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded into the daemon: as long as the file named by LOSE_QUEUE is there, no queue changes its state any
 * more; and once it comes, the first queue that was made ready to send, or the first of several receive queues that was
 * made ready, fails, as if its device had found an error.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_US 10000

static struct ibv_qp *lost;
static struct ibv_wq *lost_receive;
static int (*next_modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *attr);

static bool is_told(void)
{
	const char *path = getenv("LOSE_QUEUE");

	return path && access(path, F_OK) == 0;
}

static int modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int) =
		(int (*)(struct ibv_qp *, struct ibv_qp_attr *, int))dlsym(RTLD_NEXT, "ibv_modify_qp");

	return next(qp, attr, mask);
}

static void *wait_to_lose(void *unused)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	while (!is_told())
		usleep(LOOK_US);
	modify(lost, &attr, IBV_QP_STATE);
	return unused;
}

static void *wait_to_lose_receive(void *unused)
{
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_ERR};

	while (!is_told())
		usleep(LOOK_US);
	next_modify_wq(lost_receive, &attr);
	return unused;
}

static int modify_wq(struct ibv_wq *wq, struct ibv_wq_attr *attr)
{
	pthread_t thread;
	int error;

	if (is_told())
		return EIO;
	error = next_modify_wq(wq, attr);
	if (error || lost_receive)
		return error;
	lost_receive = wq;
	return pthread_create(&thread, NULL, wait_to_lose_receive, NULL);
}

/* ibv_modify_wq() is no function of the library: it calls what the context names. */
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*next)(struct ibv_device *) =
		(struct ibv_context * (*)(struct ibv_device *)) dlsym(RTLD_NEXT, "ibv_open_device");
	struct ibv_context *context = next(device);

	if (context) {
		next_modify_wq = verbs_get_ctx(context)->modify_wq;
		verbs_get_ctx(context)->modify_wq = modify_wq;
	}
	return context;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	pthread_t thread;
	int error;

	if (is_told())
		return EIO;
	error = modify(qp, attr, mask);
	if (error || lost || attr->qp_state != IBV_QPS_RTS)
		return error;
	lost = qp;
	return pthread_create(&thread, NULL, wait_to_lose, NULL);
}
