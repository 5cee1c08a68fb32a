// SPDX-License-Identifier: Apache-2.0
/* The thread that waits for datagrams, deadlines and neighbours. */
#include "cm_engine.h"

#include "../device/clock.h"
#include "../device/device.h"
#include "../roce/neighbor.h"
#include "../wire/own_fd.h"
#include "../wire/own_thread.h"
#include "cm_connection.h"
#include "cm_link.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void engine_receive(struct cm *cm)
{
	struct cm_datagram g;

	while (cm_transport_take(cm, &g))
		cm_receive(cm, &g);
}

/* Looks for the neighbour of one identifier, without the lock, because that may take a second. False if none waits. */
static bool engine_resolve(struct cm *cm)
{
	struct cm_id *id = NULL;
	struct roce_path path;
	const char *netdev;
	uint32_t i = 0;
	int r;

	while (i < cm->n_ids && !(cm->ids[i] && cm->ids[i]->state == CM_ADDR_QUERY))
		i++;
	if (i == cm->n_ids)
		return false;
	id = cm->ids[i];
	path = id->path;
	netdev = device_port_netdev(id->device);
	pthread_mutex_unlock(&cm->lock);
	r = memcmp(path.sgid, path.dgid, 16) ? neighbor_find(netdev, &path) : neighbor_own_mac(netdev, path.dmac);
	pthread_mutex_lock(&cm->lock);
	/* Meanwhile it may have ended, and another may be in its place. */
	if (i >= cm->n_ids || cm->ids[i] != id || id->state != CM_ADDR_QUERY || memcmp(id->path.dgid, path.dgid, 16))
		return true;
	id->path = path;
	id->state = r ? CM_ADDR_BOUND : CM_ADDR_RESOLVED; /* addr_handler: it may try again */
	cm_event_add(id, r ? CM_EVENT_ADDR_ERROR : CM_EVENT_ADDR_RESOLVED, r);
	return true;
}

/* Milliseconds until something is due; -1: nothing is. */
static int engine_expire(struct cm *cm)
{
	uint64_t now_ns = clock_raw_ns(), next_ns = UINT64_MAX;

	for (uint32_t i = 0; i < cm->n_ids; i++) {
		if (!cm->ids[i])
			continue;
		cm_expire(cm->ids[i], now_ns);
		if (cm->ids[i]->link.deadline_ns && cm->ids[i]->link.deadline_ns < next_ns)
			next_ns = cm->ids[i]->link.deadline_ns;
	}
	return next_ns == UINT64_MAX ? -1 : next_ns <= now_ns ? 0 : (int)((next_ns - now_ns) / 1000000 + 1);
}

static void *engine_thread(void *arg)
{
	struct cm *cm = arg;
	struct pollfd wake = {.fd = cm->wake_fd, .events = POLLIN};
	uint64_t count;

	prctl(PR_SET_NAME, "softhca-cm");
	for (;;) {
		int wait_ms;

		pthread_mutex_lock(&cm->lock);
		while (engine_resolve(cm))
			;
		engine_receive(cm);
		wait_ms = engine_expire(cm);
		pthread_mutex_unlock(&cm->lock);
		if (poll(&wake, 1, wait_ms) > 0)
			syscall(SYS_read, wake.fd, &count, sizeof(count));
	}
	return NULL;
}

int cm_engine_start(struct cm *cm)
{
	int r;

	if (cm->runs) {
		cm_transport_wake(cm);
		return 0;
	}
	if (cm->wake_fd < 0)
		cm->wake_fd = own_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (cm->wake_fd < 0)
		return cm->wake_fd;
	r = own_thread_start(&cm->thread, NULL, engine_thread, cm);
	cm->runs = !r;
	return r;
}
