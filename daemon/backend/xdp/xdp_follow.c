// SPDX-License-Identifier: Apache-2.0
/*
 * Follows changes of the interface while it is in use: its MTU and its card queues. If an administrator adds card
 * queues (ethtool -L), the driver does not run the program on them: their packets reach the kernel and are not even
 * matched. So the backend opens each new card queue with a socket for every queue, and then replaces the program by its
 * twin, which the driver runs on all card queues. The kernel refuses to remove card queues that have sockets.
 */
#include "daemon/backend/xdp/xdp.h"

#include "daemon/base/log.h"
#include "lib/base/min.h"

static struct xdp_socket *follow_socket(const struct xdp_backend *backend, uint32_t queue, uint32_t card_queue)
{
	return &backend->sockets[(size_t)queue * backend->interface.max_card_queues + card_queue];
}

void xdp_close_card_queue(struct xdp_backend *backend, uint32_t number)
{
	for (uint32_t queue = 0; queue < backend->n_queues; queue++)
		xdp_socket_deinit(follow_socket(backend, queue, number));
	xdp_card_queue_deinit(&backend->card_queues[number]);
}

int xdp_open_card_queue(struct xdp_backend *backend, uint32_t number, struct failure *failure)
{
	struct xdp_card_queue *card_queue = &backend->card_queues[number];
	int r = xdp_card_queue_init(card_queue, backend, number, failure);

	for (uint32_t queue = 0; queue < backend->n_queues && r == 0; queue++)
		r = xdp_socket_init(follow_socket(backend, queue, number), card_queue, failure);
	if (r < 0)
		xdp_close_card_queue(backend, number);
	return r;
}

/*
 * Opens the next card queue, which is served as soon as the program runs on it. No other thread knows of it until it is
 * open, so the control thread does not wait while its frames are locked and bound.
 */
static int follow_add_card_queue(struct xdp_backend *backend, struct failure *failure)
{
	uint32_t number = backend->interface.n_card_queues;
	int r = xdp_open_card_queue(backend, number, failure);

	if (r < 0)
		return r;
	pthread_mutex_lock(&backend->changing);
	backend->interface.n_card_queues++;
	for (uint32_t queue = 0; queue < backend->n_queues && r == 0; queue++)
		if (backend->queues[queue])
			r = xdp_queue_add_socket(backend->queues[queue], failure);
	pthread_mutex_unlock(&backend->changing);
	return r;
}

/*
 * On a card queue without sockets the program drops and counts packets (no_socket), so no loss stays unseen. -errno:
 * the program does not run on all.
 */
static int follow_add_card_queues(struct xdp_backend *backend, uint32_t n)
{
	const struct xdp_interface *interface = &backend->interface;
	const struct log_about about = {.interface = interface->name};
	struct failure failure;
	int r = 0;

	while (interface->n_card_queues < n && r == 0)
		r = follow_add_card_queue(backend, &failure);
	if (r < 0)
		log_message(LOG_WARNING, &about,
		            "interface %s has %u receive queues now, and packets of the streams on some of them are "
		            "dropped (no_socket): restart the daemon (systemctl restart ibvcapd), or run 'ethtool -L' "
		            "for as many as before: %s",
		            interface->name, n, failure.text);
	pthread_mutex_lock(&backend->changing);
	r = xdp_program_set_card_queues(backend->program, interface->n_card_queues);
	pthread_mutex_unlock(&backend->changing);
	if (r < 0)
		log_message(LOG_WARNING, &about,
		            "interface %s has %u receive queues now, and the program does not run on all of them: "
		            "restart the daemon (systemctl restart ibvcapd): error %d",
		            interface->name, n, -r);
	else
		log_message(LOG_INFO, &about, "interface %s has %u receive queues now, and %u are served",
		            interface->name, n, interface->n_card_queues);
	return r;
}

/* Before Linux 6.6, with an interface that had a smaller MTU when it was opened. 0: its packets are not too long. */
static uint32_t follow_long_mtu(const struct xdp_backend *backend)
{
	uint32_t mtu = backend->mtu_max ? xdp_interface_mtu(&backend->interface) : 0;

	return mtu > backend->mtu_max ? mtu : 0;
}

void xdp_follow_mtu(struct xdp_backend *backend)
{
	const struct xdp_interface *interface = &backend->interface;
	uint32_t mtu = follow_long_mtu(backend);

	if (mtu && !backend->told_mtu)
		log_message(
			LOG_WARNING, &(struct log_about){.interface = interface->name},
			"interface %s: its MTU is %u now, and packets longer than %u bytes are lost without a "
			"count: run 'ip link set dev %s mtu %u', or restart the daemon (systemctl restart ibvcapd), "
			"which then takes backend packet if it may choose",
			interface->name, mtu, backend->mtu_max, interface->name, backend->mtu_max);
	backend->told_mtu = mtu != 0;
}

static uint32_t follow_count_queues(const struct xdp_backend *backend)
{
	return u32_min(xdp_interface_count_queues(&backend->interface), backend->interface.max_card_queues);
}

void xdp_follow_card_queues(struct xdp_backend *backend)
{
	uint32_t n = follow_count_queues(backend);
	int r = 0;

	/* A lower number counts, too: a queue that comes back needs the program again. */
	if (n == 0 || n == backend->n_card_queues_seen)
		return;
	if (n > backend->interface.n_card_queues)
		r = follow_add_card_queues(backend, n);
	pthread_mutex_lock(&backend->changing);
	backend->was_behind = backend->was_behind || n > backend->n_card_queues_seen;
	backend->is_behind = r < 0;
	backend->n_card_queues_seen = n;
	pthread_mutex_unlock(&backend->changing);
}

static bool follow_has_no_program(struct xdp_backend *backend)
{
	bool is_away = !xdp_program_is_there(backend->program);

	if (is_away && !backend->told_program)
		log_message(LOG_WARNING, &(struct log_about){.interface = backend->interface.name},
		            "interface %s: another process has taken the daemon's XDP program away, and its streams "
		            "get no packets: restart the daemon (systemctl restart ibvcapd)",
		            backend->interface.name);
	backend->told_program = is_away;
	return is_away;
}

bool xdp_may_lose_uncounted(struct backend *base)
{
	struct xdp_backend *backend = xdp_backend(base);
	bool may = follow_long_mtu(backend) != 0;

	pthread_mutex_lock(&backend->changing);
	may = follow_has_no_program(backend) || may || backend->was_behind || backend->is_behind ||
	      follow_count_queues(backend) > backend->n_card_queues_seen;
	backend->was_behind = false;
	pthread_mutex_unlock(&backend->changing);
	return may;
}
