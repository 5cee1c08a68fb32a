// SPDX-License-Identifier: Apache-2.0
/* What the daemon may do: capabilities and locked memory, as it runs, or as it would be started. */
#include "tools/doctor/judge.h"

#include <inttypes.h>
#include <linux/capability.h>

bool judge_has(const struct doctor_process *process, unsigned int capability)
{
	return process->effective_capabilities >> capability & 1;
}

static void name_process(const struct doctor_process *process, char text[DOCTOR_TEXT_BYTES])
{
	switch (process->kind) {
	case DOCTOR_DAEMON:
		judge_say(text, "ibvcapd (pid %d)", (int)process->pid);
		break;
	case DOCTOR_SERVICE:
		judge_say(text, "ibvcapd.service, as systemd would start it");
		break;
	case DOCTOR_SELF:
		judge_say(text, "this process (no ibvcapd is running)");
		break;
	}
}

static void judge_memlock(const struct doctor_process *process, struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "memlock");

	name_process(process, finding->subject);
	if (judge_has(process, CAP_IPC_LOCK)) {
		judge_say(finding->found, "CAP_IPC_LOCK: no limit applies");
		return;
	}
	if (process->memlock_bytes == UINT64_MAX) {
		judge_say(finding->found, "unlimited");
		return;
	}
	judge_say(finding->found, "%" PRIu64 " KiB%s", process->memlock_bytes / 1024,
	          process->kind == DOCTOR_DAEMON ? "; what it needs is registered" : "");
	/* A daemon that runs has its memory registered, and has given the capability up after that. */
	if (process->kind == DOCTOR_DAEMON)
		return;
	finding->level = DOCTOR_WARNING;
	judge_say(finding->wanted, "unlimited, or CAP_IPC_LOCK");
	judge_say(finding->why, "memory a NIC writes to is locked, and the rings are larger than that");
	if (process->kind == DOCTOR_SERVICE)
		judge_say(finding->fix, "systemctl edit ibvcapd   # [Service] LimitMEMLOCK=infinity");
	else
		judge_say(finding->fix, "sudo ibvcapd   # or its package, and systemctl start ibvcapd");
	finding->fix_survives_reboot = process->kind == DOCTOR_SERVICE;
}

static void judge_capabilities(const struct doctor_process *process, struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "capabilities");

	name_process(process, finding->subject);
	if (judge_has(process, CAP_NET_RAW)) {
		judge_say(finding->found, "CAP_NET_RAW%s", judge_has(process, CAP_IPC_LOCK) ? ", CAP_IPC_LOCK" : "");
		return;
	}
	judge_say(finding->found, "no CAP_NET_RAW");
	judge_say(finding->wanted, "CAP_NET_RAW");
	judge_say(finding->why, "without it the kernel refuses RAW_PACKET queue pairs and flow rules");
	if (process->kind != DOCTOR_SELF)
		judge_say(finding->fix,
		          "systemctl edit ibvcapd   # [Service] AmbientCapabilities=CAP_NET_RAW CAP_IPC_LOCK");
	else
		judge_say(finding->fix,
		          "sudo ibvcapd   # or ibv_launch ibvcapd; or its package, and systemctl start ibvcapd");
	finding->fix_survives_reboot = process->kind != DOCTOR_SELF;
	finding->level = process->kind != DOCTOR_SELF ? DOCTOR_ERROR : DOCTOR_WARNING;
}

void judge_process(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	judge_capabilities(&facts->process, findings);
	judge_memlock(&facts->process, findings);
}
