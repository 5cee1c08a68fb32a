// SPDX-License-Identifier: Apache-2.0
/*
 * The readings of an interface that may hang: the port's counters and link from the device, the interface's state and
 * packets that were lost before the flow rules from the kernel. Says when the device does not answer.
 */
#include "daemon/port/interface.h"

#include "daemon/base/log.h"
#include "daemon/state/state.h"
#include "lib/base/min.h"
#include "lib/base/time.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SILENT_NS (3 * TIME_SECOND_NS)
#define FAILED_NS TIME_SECOND_NS

/* ---- link ---------------------------------------------------------------------------------------- */

static void interface_renew_link(struct interface *interface)
{
	bool up =
		interface->net.up && interface->net.running && interface->port_active && !interface_is_gone(interface);

	if (up == interface->link_up)
		return;
	interface->link_up = up;
	if (!interface->device_thread) /* at the first reading: interface_open() says it */
		return;
	if (up)
		log_message(LOG_NOTICE, &(struct log_about){.event = LOG_EVENT_LINK_UP, .interface = interface->name},
		            "interface %s: link is up, its streams capture and its channels send", interface->name);
	else if (!interface_is_gone(interface))
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_LINK_DOWN, .interface = interface->name},
		            "interface %s: link went down, its streams and channels wait for it", interface->name);
	service_refresh_all(interface->daemon);
}

void interface_watch_link(struct interface *interface)
{
	atomic_store(&interface->kernel->is_net_due, true);
	reading_ask(&interface->kernel->lost);
	reading_ask(&interface->out_of_buffer);
}

/* ---- packets that nothing counts ----------------------------------------------------------------------- */

/* Backend xdp has one program for all of the daemon's queues, and it passes on what is for none of them. */
static bool interface_is_own_program(const struct interface *interface)
{
	const struct interface *other;

	if (interface->daemon)
		TAILQ_FOREACH (other, &interface->daemon->interfaces, link)
			if (strcmp(other->name, interface->name) == 0 && strcmp(other->ops->name, "xdp") == 0)
				return true;
	return strcmp(interface->ops->name, "xdp") == 0;
}

static bool interface_is_foreign_program(const struct interface *interface, uint32_t xdp_program)
{
	return xdp_program && interface->kernel->links && !interface_is_own_program(interface);
}

void interface_note_rules(struct interface *interface)
{
	if (interface->counts_all_losses)
		interface->uncounted += IBVCAP_FLOW_RULES_CHANGED;
}

/* A program may come and go between two readings. */
static void interface_note_program(struct interface *interface, uint32_t xdp_program)
{
	bool is_foreign = interface_is_foreign_program(interface, xdp_program);

	if (interface->counts_all_losses && (is_foreign || interface->has_foreign_program))
		interface->uncounted += 2;
	interface->has_foreign_program = is_foreign;
}

static void interface_renew_uncounted(struct interface *interface)
{
	const struct interface_kernel *kernel = interface->kernel;
	bool counts_all = kernel->is_complete && !kernel->may_lose_uncounted &&
	                  !interface_is_foreign_program(interface, kernel->xdp_program);

	if (counts_all != interface->counts_all_losses)
		interface->uncounted++;
	interface->counts_all_losses = counts_all;
}

/* ---- an interface that goes and comes back ----------------------------------------------------------- */

static void interface_note_deleted(struct interface *interface)
{
	if (!interface->deleted_ns)
		interface->deleted_ns = time_monotonic_ns();
}

static void interface_set_missing(struct interface *interface, bool is_missing)
{
	if (is_missing && !interface->is_missing)
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_LINK_DOWN, .interface = interface->name},
		            "interface %s is not there any more: its card was unplugged, or it was deleted or renamed; "
		            "its streams and channels are down until it is back",
		            interface->name);
	interface->is_missing = is_missing;
}

void interface_take_link_change(struct interface *interface, const struct link_change *change)
{
	if (!interface->kernel)
		return;
	if (change->is_gone && change->index == interface->opened_index) {
		interface_note_deleted(interface);
		interface_set_missing(interface, true);
		interface_renew_link(interface);
	}
	if (change->index != 0 && change->index == interface->opened_index)
		interface_note_program(interface, change->xdp_program);
	else if (change->index != 0 && !interface_is_gone(interface))
		return;
	atomic_store(&interface->kernel->is_net_due, true);
	reading_renew(&interface->kernel->lost);
}

/* ---- the device's thread --------------------------------------------------------------------------- */

static int interface_read_port(void *context, uint64_t *out_of_buffer)
{
	struct interface *interface = context;
	struct backend_port_statistics *port = &interface->port_now;
	int r = interface->ops->read_port(interface->backend, port);

	if (r < 0)
		*port = (struct backend_port_statistics){.port_active = true};
	*out_of_buffer = port->out_of_buffer;
	return r == 0 && !port->has_out_of_buffer ? -ENOTSUP : r;
}

static void interface_take_port(void *context)
{
	struct interface *interface = context;

	if (interface->out_of_buffer.at_ns)
		interface->counters[INTERFACE_COUNTER_OUT_OF_BUFFER] = interface->out_of_buffer.value;
	interface->port_active = interface->port_now.port_active;
	interface_renew_link(interface);
}

/* ---- the kernel's thread --------------------------------------------------------------------------- */

static const enum link_loss kinds[INTERFACE_COUNTER_N] = {
	[INTERFACE_COUNTER_CARD_DROPPED] = LINK_LOSS_CARD,       [INTERFACE_COUNTER_DAMAGED] = LINK_LOSS_DAMAGED,
	[INTERFACE_COUNTER_BACKLOG_DROPPED] = LINK_LOSS_BACKLOG, [INTERFACE_COUNTER_KERNEL_DROPPED] = LINK_LOSS_KERNEL,
	[INTERFACE_COUNTER_PEER_DROPPED] = LINK_LOSS_PEER,       [INTERFACE_COUNTER_DOWN_DROPPED] = LINK_LOSS_DOWN,
};

static void interface_read_discards(struct interface_kernel *kernel)
{
	uint64_t discards;

	if (!kernel->may_have_discards || net_port_discards(kernel->name, &discards) < 0)
		return;
	kernel->has_discards = true;
	kernel->discards = discards - kernel->discards_at_open;
}

static uint64_t interface_read_refused(void *context, bool wait)
{
	struct interface_kernel *kernel = context;
	uint64_t n = 0;

	pthread_mutex_lock(&kernel->lock);
	if (kernel->backend)
		n = kernel->backend->ops->read_refused(kernel->backend, wait);
	pthread_mutex_unlock(&kernel->lock);
	return n;
}

static bool interface_may_lose_uncounted(struct interface_kernel *kernel)
{
	bool may = false;

	pthread_mutex_lock(&kernel->lock);
	if (kernel->backend)
		may = kernel->backend->ops->may_lose_uncounted(kernel->backend);
	pthread_mutex_unlock(&kernel->lock);
	return may;
}

static int interface_read_kernel(void *context, uint64_t *lost)
{
	struct interface_kernel *kernel = context;
	int r;

	if (atomic_exchange(&kernel->is_net_due, false)) {
		kernel->net_result = net_interface_read(kernel->name, &kernel->net, NULL);
		if (kernel->net_result < 0)
			atomic_store(&kernel->is_net_due, true);
		kernel->stamp_delay_ns = kernel->links ? net_stamp_delay_ns(kernel->name) : UINT64_MAX;
	}
	interface_read_discards(kernel);
	r = kernel->links ? link_losses_read(kernel->links) : 0;
	kernel->is_complete = kernel->links ? link_losses_are_complete(kernel->links) : kernel->has_discards;
	kernel->may_lose_uncounted = interface_may_lose_uncounted(kernel);
	kernel->xdp_program = kernel->links ? link_losses_xdp_program(kernel->links) : 0;
	*lost = kernel->discards;
	for (uint32_t i = INTERFACE_COUNTER_CARD_DROPPED; i < INTERFACE_COUNTER_N && kernel->links; i++)
		*lost += link_losses_of(kernel->links, kinds[i]);
	return r;
}

static void interface_take_counters(struct interface *interface)
{
	const struct interface_kernel *kernel = interface->kernel;

	interface_renew_uncounted(interface);
	if (kernel->has_discards)
		interface->counters[INTERFACE_COUNTER_PORT_DISCARDS] = kernel->discards;
	for (uint32_t i = INTERFACE_COUNTER_CARD_DROPPED; i < INTERFACE_COUNTER_N && kernel->links; i++)
		interface->counters[i] = link_losses_of(kernel->links, kinds[i]);
	if (kernel->links && link_losses_other_end_is_away(kernel->links) &&
	    !interface->counters[INTERFACE_COUNTER_PEER_DROPPED])
		interface->counters[INTERFACE_COUNTER_PEER_DROPPED] = COUNTER_ABSENT;
	interface_note_losses(interface);
}

static void interface_take_kernel(void *context)
{
	struct interface_kernel *kernel = context;
	struct interface *interface = kernel->interface;

	interface_take_counters(interface);
	interface->stamp_delay_ns = kernel->stamp_delay_ns;
	if (interface->in_control && interface->daemon->control)
		control_note_interface(interface->daemon->control, &kernel->lost);
	if (kernel->lost.tried_ns < interface->deleted_ns) /* another reading follows */
		return;
	if (kernel->net_result == 0 || kernel->net_result == -ENODEV) /* another failure says nothing of it */
		interface_set_missing(interface, kernel->net_result == -ENODEV);
	if (kernel->net_result == 0)
		interface->net = kernel->net;
	else
		interface->net.running = false;
	if (interface->net.index != interface->opened_index)
		interface_note_deleted(interface);
	interface_renew_link(interface);
	if (interface_is_replaced(interface) && interface->daemon)
		schedule_reap(interface->daemon);
}

/* ---- a device that fails --------------------------------------------------------------------------- */

void interface_fail(struct interface *interface, const char *text)
{
	if (interface->failure)
		return;
	interface->failure = text;
	interface->failed_ns = time_monotonic_ns();
	log_message(LOG_ERR, &(struct log_about){.event = LOG_EVENT_DEVICE, .interface = interface->name},
	            "interface %s: device %s failed: %s", interface->name, interface->capabilities.device, text);
}

bool interface_has_failed(const struct interface *interface)
{
	return interface->failure && !interface_is_gone(interface) &&
	       time_monotonic_ns() - interface->failed_ns >= FAILED_NS;
}

/* ---- a device that does not answer ----------------------------------------------------------------- */

void interface_watch_silence(struct interface *interface)
{
	const struct log_about about = {.event = LOG_EVENT_DEVICE, .interface = interface->name};
	uint64_t waits_ns = reading_waits_ns(&interface->out_of_buffer, time_monotonic_ns());
	const char *device = interface->capabilities.device;

	if (waits_ns >= SILENT_NS && !interface->silent_ns)
		log_message(LOG_WARNING, &about,
		            "device %s (interface %s) has not answered a command for %llu s: its counters and losses "
		            "are shown as they were; capturing and sending go on, a reload of it is refused",
		            device, interface->name, (unsigned long long)(waits_ns / TIME_SECOND_NS));
	if (waits_ns < SILENT_NS && interface->silent_ns)
		log_message(LOG_INFO, &about, "device %s (interface %s) answers again, after %llu s", device,
		            interface->name, (unsigned long long)(interface->silent_ns / TIME_SECOND_NS));
	interface->silent_ns = waits_ns >= SILENT_NS ? waits_ns : 0;
}

int interface_check_answers(const struct interface *interface, struct failure *failure)
{
	return interface->silent_ns
	               ? failure_set(failure, EX_TEMPFAIL, EAGAIN,
	                             "interface %s: its device %s has not answered a command for %llu s; ask again "
	                             "when it does",
	                             interface->name, interface->capabilities.device,
	                             (unsigned long long)(interface->silent_ns / TIME_SECOND_NS))
	               : 0;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static void interface_kernel_free(void *context)
{
	struct interface_kernel *kernel = context;

	link_losses_free(kernel->links);
	pthread_mutex_destroy(&kernel->lock);
	free(kernel);
}

int interface_init_readings(struct interface *interface)
{
	struct interface_kernel *kernel = calloc(1, sizeof(*kernel));
	const struct link_refused_source refused = {interface_read_refused, kernel};
	int r;

	if (!kernel)
		return -ENOMEM;
	pthread_mutex_init(&kernel->lock, NULL);
	kernel->backend = interface->ops->read_refused ? interface->backend : NULL;
	if (!interface->ops->pins_memory && !(kernel->links = link_losses_new(interface->name, &refused))) {
		interface_kernel_free(kernel);
		return -ENOMEM;
	}
	interface->kernel = kernel;
	interface->uncounted = 1;
	kernel->interface = interface;
	snprintf(kernel->name, sizeof(kernel->name), "%s", interface->name);
	r = net_port_discards(kernel->name, &kernel->discards_at_open);
	if (r < 0)
		kernel->discards_at_open = 0;
	kernel->may_have_discards = r != -ENOTSUP && r != -EOPNOTSUPP; /* its driver does not change */
	for (uint32_t i = 0; i < INTERFACE_COUNTER_N; i++)
		interface->counters[i] = COUNTER_ABSENT;
	reading_init(&kernel->lost, interface_read_kernel, kernel);
	kernel->lost.taken = interface_take_kernel;
	kernel->lost.taken_context = kernel;
	reading_init(&interface->out_of_buffer, interface_read_port, interface);
	interface->out_of_buffer.taken = interface_take_port;
	interface->out_of_buffer.taken_context = interface;
	interface_watch_link(interface);
	return 0;
}

int interface_start_readings(struct interface *interface, sd_event *event, struct background *shared)
{
	char name[16];
	int r;

	snprintf(name, sizeof(name), "dev-%.11s", interface->name);
	r = background_new(&interface->device_thread, event, name, 0);
	if (r < 0)
		return r;
	interface->out_of_buffer.runner = interface->device_thread;
	interface->kernel->lost.runner = shared;
	return 0;
}

/* The shared thread may hang in a reading of the kernel for another device's sake: nothing waits for it. */
void interface_deinit_readings(struct interface *interface)
{
	if (interface->kernel) {
		pthread_mutex_lock(&interface->kernel->lock);
		interface->kernel->backend = NULL;
		pthread_mutex_unlock(&interface->kernel->lock);
		reading_close(&interface->kernel->lost, interface_kernel_free, interface->kernel);
	}
	interface->kernel = NULL;
	reading_close(&interface->out_of_buffer, NULL, NULL);
	if (interface->is_abandoned) {
		background_abandon(interface->device_thread);
	} else {
		background_drain(interface->device_thread, BACKGROUND_FOR_EVER);
		background_free(interface->device_thread);
	}
	interface->device_thread = NULL;
}

void interface_abandon(struct interface *interface)
{
	if (interface->is_abandoned)
		return;
	interface->is_abandoned = true;
	log_message(LOG_WARNING, &(struct log_about){.event = LOG_EVENT_DEVICE, .interface = interface->name},
	            "device %s (interface %s) does not answer: its flows and queues are left to the kernel",
	            interface->capabilities.device, interface->name);
}

void interface_end_readings(struct interface *interface, uint64_t wait_us)
{
	if (interface->device_thread && !interface->is_abandoned &&
	    !background_drain(interface->device_thread, wait_us))
		interface_abandon(interface);
}
