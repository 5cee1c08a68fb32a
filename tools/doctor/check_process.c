// SPDX-License-Identifier: Apache-2.0
/* The rights of the daemon, as it runs or as it would be started: capabilities and locked memory. */
#include "tools/doctor/checks.h"

#include <inttypes.h>
#include <linux/capability.h>

static bool process_has(const struct doctor_process *process, unsigned int capability)
{
	return process->effective_capabilities >> capability & 1;
}

static struct finding *add_process_finding(const struct doctor_process *process, struct findings *findings,
                                           const char *check)
{
	switch (process->kind) {
	case DOCTOR_DAEMON:
		return finding_add(findings, check, "ibvcapd (pid %d)", (int)process->pid);
	case DOCTOR_SERVICE:
		return finding_add(findings, check, "ibvcapd.service, as systemd would start it");
	case DOCTOR_SELF:
		break;
	}
	return finding_add(findings, check, "this process (no ibvcapd is running)");
}

static void check_process_memlock(const struct doctor_process *process, struct findings *findings)
{
	struct finding *finding = add_process_finding(process, findings, "memlock");

	if (process_has(process, CAP_IPC_LOCK)) {
		finding_write(finding->found, "CAP_IPC_LOCK: no limit applies");
		return;
	}
	if (process->memlock_bytes == UINT64_MAX) {
		finding_write(finding->found, "unlimited");
		return;
	}
	finding_write(finding->found, "%" PRIu64 " KiB%s", process->memlock_bytes / 1024,
	              process->kind == DOCTOR_DAEMON ? "; its memory is registered already" : "");
	/* A running daemon has registered its memory and has dropped the capability since. */
	if (process->kind == DOCTOR_DAEMON)
		return;
	finding_fail(finding, FINDING_WARNING, "unlimited, or CAP_IPC_LOCK",
	             "the rings have to be locked in memory, and are larger than that");
	if (process->kind == DOCTOR_SERVICE)
		finding_write(finding->fix, "systemctl edit ibvcapd   # [Service] LimitMEMLOCK=infinity");
	else
		finding_write(finding->fix, "sudo ibvcapd   # or its package, and systemctl start ibvcapd");
	finding->fix_survives_reboot = process->kind == DOCTOR_SERVICE;
}

static void check_process_capabilities(const struct doctor_process *process, struct findings *findings)
{
	struct finding *finding = add_process_finding(process, findings, "capabilities");

	if (process_has(process, CAP_NET_RAW)) {
		finding_write(finding->found, "CAP_NET_RAW%s",
		              process_has(process, CAP_IPC_LOCK) ? ", CAP_IPC_LOCK" : "");
		return;
	}
	finding_write(finding->found, "no CAP_NET_RAW");
	finding_write(finding->wanted, "CAP_NET_RAW");
	finding_write(finding->why, "without it the kernel refuses RAW_PACKET queue pairs and flow rules");
	if (process->kind != DOCTOR_SELF)
		finding_write(finding->fix,
		              "systemctl edit ibvcapd   # [Service] AmbientCapabilities=CAP_NET_RAW CAP_IPC_LOCK");
	else
		finding_write(finding->fix,
		              "sudo ibvcapd   # or ibv_launch ibvcapd; or its package, and systemctl start ibvcapd");
	finding->fix_survives_reboot = process->kind != DOCTOR_SELF;
	finding->level = process->kind != DOCTOR_SELF ? FINDING_ERROR : FINDING_WARNING;
}

void check_process(const struct doctor_facts *facts, struct findings *findings)
{
	check_process_capabilities(&facts->process, findings);
	check_process_memlock(&facts->process, findings);
}
