// SPDX-License-Identifier: Apache-2.0
/*
 * To be preloaded into the daemon: as long as the file named by LOSE_QUEUE is there, no queue changes its state any
 * more; and once it comes, the first queue that was made ready to send fails, as if its device had found an error.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_US 10000

static struct ibv_qp *lost;

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
