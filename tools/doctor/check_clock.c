// SPDX-License-Identifier: Apache-2.0
/* Clocks: packets get the card's time, which the daemon converts to UTC with the system's clock. */
#include "tools/doctor/checks.h"

#include <inttypes.h>
#include <string.h>

#define NS_PER_S 1000000000
#define DAY_S    86400
/* Between UTC and TAI since 2017 (IERS Bulletin C). */
#define TAI_S 37

static void tell_keeper(const struct doctor_keeper *keeper, struct finding *finding)
{
	if (!keeper->program)
		finding_append(finding->found,
		               "; the kernel knows neither its reference nor its offset, and no program here says them "
		               "('chronyc tracking' of chrony does)");
	else if (!keeper->has_reference)
		finding_append(finding->found, "; %s: no reference answers it", keeper->program);
	else
		finding_append(finding->found, "; %s: reference %s, stratum %u, %.3f us %s it, at most %.3f us off",
		               keeper->program, keeper->reference, keeper->stratum,
		               (double)(keeper->ahead_ns < 0 ? -keeper->ahead_ns : keeper->ahead_ns) / 1e3,
		               keeper->ahead_ns < 0 ? "behind" : "ahead of", (double)keeper->bound_ns / 1e3);
}

static void check_system_clock(const struct doctor_facts *facts, struct findings *findings)
{
	const struct system_clock *clock = &facts->clock;
	const char *program = facts->keeper.program;
	struct finding *finding;

	if (!clock->is_known)
		return;
	finding = finding_add(findings, "clock", "the system's clock");
	if (clock->is_synchronised) {
		finding_write(finding->found, "synchronised, at most %" PRIu64 " us off", clock->max_error_us);
		if (clock->tai_offset_s)
			finding_append(finding->found, "; TAI is UTC + %d s", clock->tai_offset_s);
		tell_keeper(&facts->keeper, finding);
		return;
	}
	finding_write(finding->found,
	              program ? "not synchronised" : "nothing known here synchronises the system clock");
	tell_keeper(&facts->keeper, finding);
	finding_fail(finding, FINDING_WARNING,
	             "timestamps are converted to UTC with this clock: they have its error, and jump when it is set",
	             "kept by chrony, ntpd or ptp4l with phc2sys");
	if (program)
		finding_fix(finding, FIX_LASTS | FIX_ON_HOST, "%s",
		            strcmp(program, "chrony") == 0
		                    ? "chronyc -n sources   # the servers that answer; chronyd -x sets no clock"
		                    : "timedatectl timesync-status   # the server, and whether it answers");
	else
		finding_fix(finding, FIX_LASTS | FIX_ON_HOST, "apt install chrony && systemctl enable --now chrony");
}

/* In real-time mode a reading is seconds << 32 | nanoseconds, close to the present time. A count of ticks is not. */
static bool is_real_time_mode(const struct doctor_probe *probe)
{
	int64_t now_s = (int64_t)(probe->clock_at_ns / NS_PER_S), then_s = (int64_t)(probe->clock_raw >> 32);

	return then_s > now_s - DAY_S && then_s < now_s + DAY_S && (probe->clock_raw & UINT32_MAX) < NS_PER_S;
}

static void check_nic_clock(const struct doctor_device *device, struct findings *findings)
{
	const struct doctor_probe *probe = &device->probe;
	struct finding *finding;
	int64_t raw_ns;

	if (probe->result == DOCTOR_NOT_PROBED || probe->result == DOCTOR_PROBE_IN_USE)
		return;
	finding = finding_add(findings, "nic_clock", "%s", device->name);
	if (!probe->has_clock) {
		finding_write(finding->found,
		              "none that can be read: the worker takes the time when it polls a packet");
		return;
	}
	if (!is_real_time_mode(probe)) {
		finding_write(finding->found, "free-running at %" PRIu64 " kHz; ibvcapd maps it to UTC",
		              probe->clock_hz / 1000);
		return;
	}
	raw_ns = (int64_t)(probe->clock_raw >> 32) * NS_PER_S + (int64_t)(probe->clock_raw & UINT32_MAX);
	finding_write(finding->found, "real-time mode, %" PRId64 " ns from UTC", raw_ns - (int64_t)probe->clock_at_ns);
	finding_fail(finding, FINDING_WARNING,
	             "ibvcapd counts ticks: a clock in seconds and nanoseconds gives wrong timestamps", "free-running");
	finding_fix(finding, FIX_LASTS | FIX_ON_HOST, "mlxconfig -d %s set REAL_TIME_CLOCK_ENABLE=0   # then reboot",
	            device->pci.address);
}

static int64_t distance_ns(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

/* The backends other than verbs, whose devices have a clock of their own. */
static void check_stamping(const struct doctor_interface *interface, struct finding *finding)
{
	if (interface->choice.has_rdma_device)
		return;
	if (interface->stamping == NET_STAMPING_ALL) {
		finding_append(finding->found, "; the card stamps all packets%s",
		               interface->ptp_is_read ? ": they have its time with backend packet"
		                                      : ", and they have the kernel's time for want of the clock");
		return;
	}
	finding_append(finding->found, "; the card %s: packets have the kernel's time",
	               interface->stamping == NET_STAMPING_OFF
	                       ? "can stamp all packets and does not (timestamps = \"hardware\")"
	                       : "does not stamp all packets");
}

static void check_ptp_clock(const struct doctor_interface *interface, struct findings *findings)
{
	const int64_t offset = interface->ptp_offset_ns, tai = (int64_t)TAI_S * NS_PER_S;
	struct finding *finding;

	if (!*interface->ptp)
		return;
	finding = finding_add(findings, "nic_clock", "%s (/dev/%s)", interface->name, interface->ptp);
	if (!interface->ptp_is_read)
		finding_write(finding->found, "this user may not read it");
	else if (distance_ns(offset, tai) < NS_PER_S)
		finding_write(finding->found, "%" PRId64 " ns from TAI by the system's clock", offset - tai);
	else if (distance_ns(offset, 0) < NS_PER_S)
		finding_write(finding->found, "%" PRId64 " ns from UTC by the system's clock", offset);
	else
		finding_write(finding->found,
		              "%" PRId64 " s from UTC: no program sets it, and ibvcapd does not need it",
		              offset / NS_PER_S);
	check_stamping(interface, finding);
}

void check_clocks(const struct doctor_facts *facts, struct findings *findings)
{
	check_system_clock(facts, findings);
	for (unsigned int i = 0; i < facts->n_devices; i++)
		check_nic_clock(&facts->devices[i], findings);
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		check_ptp_clock(&facts->interfaces[i], findings);
}
