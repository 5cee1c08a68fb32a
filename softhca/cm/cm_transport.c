// SPDX-License-Identifier: Apache-2.0
/* The connection manager's messages travel as UD packets between queue pairs 1 of the devices (IBTA 13.5.3). */
#include "cm_transport.h"

#include "../device/device.h"
#include "../device/fault.h"
#include "../roce/roce.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GSI_SPORT 0xf000u /* one flow for all (annex A17.9.1: any port may be the source) */

/* From the device thread or from the thread that sends, with the device's lock. */
static void transport_receive(struct device *d, const struct roce_packet *p, void *arg)
{
	struct cm_datagram *g;
	struct cm *cm = arg;

	pthread_mutex_lock(&cm->arrived_lock);
	g = &cm->arrived[cm->n_arrived % CM_MAX_ARRIVED];
	if (cm->n_arrived - cm->n_taken < CM_MAX_ARRIVED && cm_message_read(&g->message, p->payload, p->bytes)) {
		g->device = d;
		g->answer = (struct roce_path){.version = p->version};
		memcpy(g->answer.dmac, p->smac, sizeof(g->answer.dmac));
		memcpy(g->answer.sgid, p->dgid, 16);
		memcpy(g->answer.dgid, p->sgid, 16);
		cm->n_arrived++;
		cm_transport_wake(cm);
	}
	pthread_mutex_unlock(&cm->arrived_lock);
}

bool cm_transport_take(struct cm *cm, struct cm_datagram *datagram)
{
	bool any;

	pthread_mutex_lock(&cm->arrived_lock);
	any = cm->n_taken != cm->n_arrived;
	if (any)
		*datagram = cm->arrived[cm->n_taken++ % CM_MAX_ARRIVED];
	pthread_mutex_unlock(&cm->arrived_lock);
	return any;
}

int cm_transport_open(struct cm *cm)
{
	for (unsigned int i = 0; i < cm->n_devices; i++) {
		struct device *d = &cm->devices[i];
		int r;

		if (!device_n_gids(d) || cm->open_devices >> i & 1)
			continue;
		r = device_get_wire(d);
		if (r)
			return r;
		r = roce_open(d);
		if (r) {
			device_put_wire(d);
			return r;
		}
		device_lock(d);
		roce_manage(d->roce, transport_receive, cm);
		device_unlock(d);
		cm->open_devices |= 1u << i;
	}
	return 0;
}

void cm_transport_wake(struct cm *cm)
{
	const uint64_t one = 1;

	syscall(SYS_write, cm->wake_fd, &one, sizeof(one));
}

struct transport_sent {
	struct device *device;
	struct roce_path path;
	const struct cm_message *message;
};

static void transport_send(void *arg)
{
	struct transport_sent *s = arg;
	struct roce *r = s->device->roce;
	const struct roce_packet p = {
		.opcode = UD_SEND_ONLY,
		.dest_qpn = ROCE_GSI_QP,
		.qkey = ROCE_GSI_QKEY,
		.src_qpn = ROCE_GSI_QP,
		.bytes = CM_MAD_BYTES,
	};
	uint8_t *to = roce_begin(r, &p, &s->path);

	if (!to)
		return;
	cm_message_write(s->message, to);
	roce_end(r);
	roce_flush(r);
}

/* The guard is for a trace, which reads the queues of the program. */
void cm_transport_send(struct device *d, const struct roce_path *path, const struct cm_message *m)
{
	struct transport_sent s = {.device = d, .path = *path, .message = m};

	s.path.udp_sport = GSI_SPORT;
	device_lock(d);
	if (!d->halted)
		fault_guard(d, transport_send, &s);
	device_unlock(d);
}
