// SPDX-License-Identifier: Apache-2.0
/* From messages to the sockets of the devices. */
#include "cm_transport.h"

#include "../device/device.h"
#include "../roce/neighbor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int cm_transport_open(struct cm *cm)
{
	roce_packet_init();
	for (unsigned int i = 0; i < cm->n_devices; i++) {
		if (cm->wire_fds[i] < 0)
			cm->wire_fds[i] = cm_wire_open(cm->devices[i].config.netdev);
		if (cm->wire_fds[i] < 0)
			return cm->wire_fds[i];
	}
	cm_transport_wake(cm);
	return 0;
}

void cm_transport_wake(struct cm *cm)
{
	const uint64_t one = 1;

	syscall(SYS_write, cm->wake_fd, &one, sizeof(one));
}

void cm_transport_send(struct cm *cm, struct device *d, const struct roce_path *path, const struct cm_message *m)
{
	uint8_t frame[ROCE_FRAME_BYTES], own[6];
	struct cm_looped *l;
	size_t bytes;

	if (neighbor_own_mac(d->config.netdev, own))
		return;
	bytes = cm_wire_frame(frame, m, path, own);
	/* Processes that use the same netdev see what is sent to it; this one does not. */
	send(cm->wire_fds[d->index], frame, bytes, MSG_DONTWAIT);
	if (memcmp(path->dmac, own, sizeof(own)))
		return;
	l = calloc(1, sizeof(*l));
	if (!l || !cm_wire_read(&l->datagram, frame, bytes)) {
		free(l);
		return;
	}
	l->device = d;
	STAILQ_INSERT_TAIL(&cm->looped, l, link);
	cm_transport_wake(cm);
}
