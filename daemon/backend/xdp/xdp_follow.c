// SPDX-License-Identifier: Apache-2.0
/*
 * What changes while the interface is in use: its MTU, and channels. If an administrator gives a running interface more
 * receive queues (ethtool -L), the driver does not run the program on them: their packets reach the kernel and are not
 * even matched. So each new queue becomes a channel, with a socket of every stream, and then the program is exchanged
 * for its twin, which the driver puts on all queues. The kernel refuses fewer queues than have sockets.
 */
#include "daemon/backend/xdp/xdp.h"

#include "daemon/base/log.h"

static struct xdp_socket *follow_socket(const struct xdp_backend *backend, uint32_t stream, uint32_t channel)
{
	return &backend->sockets[(size_t)stream * backend->interface.max_channels + channel];
}

void xdp_close_channel(struct xdp_backend *backend, uint32_t number)
{
	for (uint32_t stream = 0; stream < backend->n_streams; stream++)
		xdp_socket_deinit(follow_socket(backend, stream, number));
	xdp_channel_deinit(&backend->channels[number]);
}

int xdp_open_channel(struct xdp_backend *backend, uint32_t number, struct failure *failure)
{
	struct xdp_channel *channel = &backend->channels[number];
	int r = xdp_channel_init(channel, backend, number, failure);

	for (uint32_t stream = 0; stream < backend->n_streams && r == 0; stream++)
		r = xdp_socket_init(follow_socket(backend, stream, number), channel, failure);
	if (r < 0)
		xdp_close_channel(backend, number);
	return r;
}

/*
 * The next channel. It is served as soon as the program runs on its queue. Nobody else knows of it while it is opened,
 * which locks and binds all its frames: the control thread does not wait for that.
 */
static int follow_add_channel(struct xdp_backend *backend, struct failure *failure)
{
	uint32_t number = backend->interface.n_channels;
	int r = xdp_open_channel(backend, number, failure);

	if (r < 0)
		return r;
	pthread_mutex_lock(&backend->changing);
	backend->interface.n_channels++;
	for (uint32_t stream = 0; stream < backend->n_streams && r == 0; stream++)
		if (backend->queues[stream])
			r = xdp_queue_add_socket(backend->queues[stream], failure);
	pthread_mutex_unlock(&backend->changing);
	return r;
}

/* What cannot be served is matched, dropped and counted (no_socket), which is better than to lose it unseen. */
static void follow_add_channels(struct xdp_backend *backend, uint32_t n)
{
	const struct xdp_interface *interface = &backend->interface;
	const struct log_about about = {.interface = interface->name};
	struct failure failure;
	int r = 0;

	while (interface->n_channels < n && r == 0)
		r = follow_add_channel(backend, &failure);
	if (r < 0)
		log_message(LOG_WARNING, &about,
		            "interface %s has %u receive queues now, and packets of the streams on some of them are "
		            "dropped (no_socket): restart the daemon (systemctl restart ibvcapd), or run 'ethtool -L' "
		            "for as many as before: %s",
		            interface->name, n, failure.text);
	pthread_mutex_lock(&backend->changing);
	r = xdp_program_set_channels(backend->program, interface->n_channels);
	pthread_mutex_unlock(&backend->changing);
	if (r < 0)
		log_message(LOG_WARNING, &about,
		            "interface %s has %u receive queues now, and the program does not run on all of them: "
		            "restart the daemon (systemctl restart ibvcapd): error %d",
		            interface->name, n, -r);
	else
		log_message(LOG_INFO, &about, "interface %s has %u receive queues now, and %u are served",
		            interface->name, n, interface->n_channels);
}

/* Before Linux 6.6, with an interface that had a smaller MTU when it was opened. */
void xdp_follow_mtu(struct xdp_backend *backend)
{
	const struct xdp_interface *interface = &backend->interface;
	uint32_t mtu = backend->mtu_max ? xdp_interface_mtu(interface) : 0;

	if (mtu > backend->mtu_max && !backend->told_mtu)
		log_message(
			LOG_WARNING, &(struct log_about){.interface = interface->name},
			"interface %s: its MTU is %u now, and packets longer than %u bytes are lost without a "
			"count: run 'ip link set dev %s mtu %u', or restart the daemon (systemctl restart ibvcapd), "
			"which then takes backend packet if it may choose",
			interface->name, mtu, backend->mtu_max, interface->name, backend->mtu_max);
	backend->told_mtu = mtu > backend->mtu_max;
}

void xdp_follow_channels(struct xdp_backend *backend)
{
	uint32_t n = xdp_interface_count_channels(&backend->interface);

	if (n > backend->interface.max_channels)
		n = backend->interface.max_channels;
	if (n == 0 || n == backend->n_channels_seen)
		return;
	backend->n_channels_seen = n; /* also if fewer: those that come back need the program again */
	if (n <= backend->interface.n_channels)
		return;
	follow_add_channels(backend, n);
}
