// SPDX-License-Identifier: Apache-2.0
/* Opens the device of an interface, and follows its clock. */
#include "daemon/port/interface.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/base/log.h"
#include "daemon/base/numa.h"
#include "daemon/clock/clock.h"
#include "daemon/worker/rx_crew.h"
#include "daemon/worker/rx_loop.h"
#include "lib/base/time.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

/* Time that the control thread first waits for a clock that is a page in memory (clock.h); at most 128 times this. */
#define CLOCK_PATIENCE_NS      UINT64_C(2000000)
#define CLOCK_MISSES_MAX       7
#define CLOCK_OPEN_PATIENCE_NS UINT64_C(500000000)

/* Advice on the same backend is in another line: how that backend does without. */
static void interface_tell_choice(const struct interface *interface)
{
	const struct backend_choice *choice = &interface->choice;
	const char *better = choice->is_second_best ? choice->better : "";
	const char *command = choice->is_second_best ? choice->command : "";

	log_message(LOG_INFO, &(struct log_about){.interface = interface->name},
	            "interface %s: backend %s, because %s%s%s%s%s", interface->name, choice->backend, choice->why,
	            *better ? "; " : "", better, *command ? ": " : "", command);
}

static void interface_choose(struct interface *interface, enum config_backend backend,
                             const struct interface_wishes *wishes)
{
	struct backend_choice_facts facts;

	if (backend == CONFIG_BACKEND_AUTO) {
		backend_choice_read(interface->name, &facts);
		facts.leaves_packets = wishes->leaves_packets;
		facts.wants_card_time = wishes->wants_card_time;
		if (wishes->has_xdp) { /* the program is our own, and the rights were needed to attach it */
			facts.xdp_program = 0;
			facts.has_bpf = facts.has_net_admin = true;
		}
		backend_choice_make(&facts, &interface->choice);
		interface_tell_choice(interface);
	} else {
		interface->choice.backend = config_backend_name(backend);
		snprintf(interface->choice.why, sizeof(interface->choice.why), "the configuration says so");
	}
	interface->ops = backend_find(interface->choice.backend);
}

int interface_init(struct interface *interface, const char *name, enum config_backend backend,
                   const struct interface_wishes *wishes, struct failure *failure)
{
	int r;

	*interface = (struct interface){.ops = NULL};
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	interface->numa_node = net_is_in_sysfs(name) ? numa_node_of_interface(NUMA_SYSFS, name) : NUMA_ANY;
	r = net_interface_read(name, &interface->net, failure);
	if (r < 0)
		return r;
	interface_choose(interface, backend, wishes);
	if (interface->ops)
		return 0;
	return failure_set(failure, EX_CONFIG, ENOTSUP,
	                   "interface %s: backend '%s' is not in this build: set backend = \"auto\"", name,
	                   interface->choice.backend);
}

/* ---- clock --------------------------------------------------------------------------------------- */

static int interface_read_device_clock(void *context, struct clock_pair *pair)
{
	const struct interface *interface = context;
	struct backend_clock_reading reading = {0};
	int r = interface->ops->read_clock(interface->backend, &reading);

	*pair = (struct clock_pair){reading.raw, reading.utc_before_ns, reading.utc_after_ns};
	return r;
}

static uint64_t interface_read_utc(void *)
{
	return time_utc_ns();
}

static int interface_take_clock_pair(struct interface *interface, uint64_t patience_ns)
{
	const struct clock_reader reader = {interface_read_device_clock, interface_read_utc, interface};
	struct clock_pair pair;
	int r;

	if (interface->capabilities.clock_is_utc) {
		interface->line = (struct clock_line){.mult = 1, .mask = UINT64_MAX};
		interface->has_clock = true;
		return 0;
	}
	if (!interface->capabilities.timestamps ||
	    !clock_serves(interface->capabilities.clock_hz, interface->capabilities.clock_mask))
		return -ENOTSUP;
	r = clock_read_pair(&reader, patience_ns, &pair);
	if (r < 0)
		return r;
	clock_fit_add(&interface->fit, &pair, &interface->line);
	interface->has_clock = true;
	return 0;
}

/* The patience grows while a page is written too seldom, so that the line is renewed before it is too old. */
void interface_renew_clock(struct interface *interface)
{
	int r;

	system_clock_read(&interface->system_clock);
	if (!interface->has_clock || interface->lost_clock)
		return;
	r = interface_take_clock_pair(interface, CLOCK_PATIENCE_NS << interface->n_clock_misses);
	if (r == 0) {
		interface->n_clock_misses = 0;
		return;
	}
	if (r == -ENODEV) {
		/* It does not come back: another card, or another driver, has another clock. */
		interface->lost_clock = true;
		interface->line = (struct clock_line){.mult = 1, .mask = UINT64_MAX, .reach = 1, .can_step = true};
		log_message(
			LOG_WARNING, &(struct log_about){.interface = interface->name},
			"interface %s: the clock of device %s has gone: packets have the time at which the %s them; "
			"unless the interface goes, too, restart the daemon when it is back (systemctl restart "
			"ibvcapd)",
			interface->name, interface->capabilities.device,
			interface->capabilities.kernel_times ? "kernel got" : "worker polls");
		return;
	}
	clock_fit_miss(&interface->fit, &interface->line);
	interface->n_clock_misses += interface->n_clock_misses < CLOCK_MISSES_MAX;
}

/* ---- life ---------------------------------------------------------------------------------------- */

/* Another program on the interface, too little locked memory, a container without bpf(): packet needs none of it. */
static int interface_open_instead(struct interface *interface, const struct backend_open_options *options,
                                  struct failure *failure)
{
	struct backend_choice *choice = &interface->choice;

	choice->backend = "packet";
	snprintf(choice->why, sizeof(choice->why), "xdp cannot be used: %.*s", (int)sizeof(choice->why) - 32,
	         failure->text);
	log_message(LOG_WARNING, &(struct log_about){.interface = interface->name},
	            "interface %s: backend packet, because xdp cannot be used: %s", interface->name, failure->text);
	interface->ops = backend_find(choice->backend);
	return interface->ops->open(options, &interface->backend, failure);
}

/* Memory that the backend and the kernel allocate meanwhile is on the device's NUMA node. */
static int interface_open_backend(struct interface *interface, struct failure *failure)
{
	struct backend_open_options options = interface->open_options;
	bool is_near = numa_begin(interface->numa_node);
	bool may_be_packet =
		strcmp(interface->ops->name, "xdp") == 0 && !interface->is_named && !interface->has_packet_beside;
	int r = backend_check_privileges(interface->ops, interface->name, failure);

	options.interface = interface->name;
	if (r == 0)
		r = interface->ops->open(&options, &interface->backend, failure);
	if (r < 0 && may_be_packet)
		r = interface_open_instead(interface, &options, failure);
	numa_end(is_near);
	return r;
}

int interface_open(struct interface *interface, struct failure *failure)
{
	int r = interface_open_backend(interface, failure);

	if (r < 0)
		return r;
	interface->opened_index = interface->net.index;
	interface->ops->capabilities(interface->backend, &interface->capabilities);
	if (interface->capabilities.how[0])
		log_message(LOG_INFO, &(struct log_about){.interface = interface->name}, "interface %s: backend %s: %s",
		            interface->name, interface->ops->name, interface->capabilities.how);
	clock_fit_init(&interface->fit, interface->capabilities.clock_hz, interface->capabilities.clock_mask);
	interface->fit.can_step = interface->capabilities.clock_can_step;
	/* A line needs two readings, and the first packets need a line. */
	interface_take_clock_pair(interface, CLOCK_OPEN_PATIENCE_NS);
	interface_renew_clock(interface);
	r = interface_init_readings(interface);
	if (r < 0)
		return failure_set(failure, EX_OSERR, -r, "interface %s: out of memory", interface->name);
	if (!interface->link_up)
		log_message(LOG_WARNING,
		            &(struct log_about){.event = LOG_EVENT_LINK_DOWN, .interface = interface->name},
		            interface->net.up
		                    ? "interface %s: it is up and has no carrier, its streams and channels "
		                      "wait for one: check the cable and the port at its other end; of a "
		                      "bridge or bond, 'ip link show master %s'"
		                    : "interface %s: link is down, its streams and channels wait for it; bring it "
		                      "up with: ip link set dev %s up",
		            interface->name, interface->name);
	return 0;
}

void interface_close(struct interface *interface)
{
	interface_deinit_readings(interface);
	if (interface->backend && !interface->is_abandoned)
		interface->ops->close(interface->backend);
	interface->backend = NULL;
	for (uint32_t i = 0; i < INTERFACE_CREWS && !interface->is_abandoned; i++) {
		rx_crew_free(interface->crews[i]);
		interface->crews[i] = NULL;
	}
}

/* CPUs of this thread, which are those of all threads that no stream or channel has pinned. */
static uint32_t interface_count_cpus(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 ? (uint32_t)CPU_COUNT(&cpus) : INTERFACE_CREWS;
}

/* More threads than CPUs would share a CPU, and each nap of each of them is a wake-up. */
struct rx_crew *interface_crew(struct interface *interface)
{
	uint32_t n_cpus = interface_count_cpus();
	struct rx_crew *best = NULL;

	for (uint32_t i = 0; i < INTERFACE_CREWS; i++) {
		if (!interface->crews[i])
			interface->crews[i] = rx_crew_new();
		if (!interface->crews[i])
			break;
		if (!best || rx_crew_size(interface->crews[i]) < rx_crew_size(best))
			best = interface->crews[i];
		if (rx_crew_size(best) == 0 || (i + 1 >= n_cpus && rx_crew_size(best) < RX_LOOP_MAX))
			break;
	}
	return best && rx_crew_size(best) < RX_LOOP_MAX ? best : NULL;
}
