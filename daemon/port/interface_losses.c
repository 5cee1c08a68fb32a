// SPDX-License-Identifier: Apache-2.0
/* Packets that an interface lost before the flow rules: when it last did, and the log lines about beginning and end. */
#include "daemon/base/log.h"
#include "daemon/port/interface.h"

#include <inttypes.h>

static const char *interface_uncounted(const struct interface *interface)
{
	const struct interface_kernel *kernel = interface->kernel;

	if (interface->counts_all_losses)
		return "nothing";
	if (kernel->links && link_losses_other_end_is_away(kernel->links))
		return "other_end";
	if (kernel->may_lose_uncounted)
		return "backend";
	return kernel->is_complete ? "program" : "driver";
}

void interface_note_losses(struct interface *interface)
{
	const struct reading *lost = &interface->kernel->lost;
	struct interface_losses *losses = &interface->losses;

	losses->uncounted = interface_uncounted(interface);
	if (lost->value > losses->seen)
		losses->last = (struct losses_last){.packets = lost->value - losses->seen,
		                                    .from_utc_ns = losses->seen_utc_ns,
		                                    .to_utc_ns = lost->at_utc_ns};
	losses->seen = lost->value;
	losses->seen_utc_ns = lost->at_utc_ns;
}

static void log_loss_of_interface(const struct interface *interface, uint32_t i, enum loss_change change)
{
	const struct status_field *row = &interface_counters[i];
	const struct loss_told *told = &interface->losses.told[i];
	const struct log_about about = {.event = change == LOSS_BEGINS ? LOG_EVENT_INTERFACE_LOSES
	                                                               : LOG_EVENT_INTERFACE_LOSS_END,
	                                .interface = interface->name,
	                                .counters = &(struct log_counter){row->name, told->seen},
	                                .n_counters = 1};
	char remedy[STATUS_REMEDY_BYTES];

	if (change == LOSS_BEGINS)
		log_message(LOG_WARNING, &about,
		            "interface %s, backend %s: packets are being lost before the flow rules: %s %" PRIu64
		            " (%" PRIu64 " in all): %s; what helps: %s",
		            interface->name, interface->ops->name, row->name, told->seen - told->before, told->seen,
		            row->cause, status_write_remedy(row, interface->name, remedy));
	else
		log_message(LOG_NOTICE, &about,
		            "interface %s, backend %s: %s has not grown for %u s; in the %" PRIu64 " s before: %" PRIu64
		            " (%" PRIu64 " in all)",
		            interface->name, interface->ops->name, row->name, (unsigned)(LOSS_END_NS / TIME_SECOND_NS),
		            loss_span_seconds(&told->span), told->seen - told->before, told->seen);
}

void interface_tell_losses(struct interface *interface, uint64_t now_ns)
{
	for (uint32_t i = INTERFACE_COUNTER_PORT_DISCARDS; i < INTERFACE_COUNTER_N; i++) {
		struct loss_told *told = &interface->losses.told[i];
		const uint64_t now = interface->counters[i];
		const bool grows = now != COUNTER_ABSENT && now > told->seen;
		enum loss_change change;

		if (!told->span.goes_on)
			told->before = told->seen;
		if (grows)
			told->seen = now;
		change = loss_span_look(&told->span, grows, now_ns);
		if (change != LOSS_UNCHANGED)
			log_loss_of_interface(interface, i, change);
	}
}
