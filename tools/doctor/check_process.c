// SPDX-License-Identifier: Apache-2.0
/*
 * The daemon, found at its control socket: its namespaces, and its rights as it runs or as it would be started
 * (capabilities and locked memory). And ring memory that programs hold.
 */
#include "tools/doctor/checks.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <string.h>

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
	return finding_add(findings, check, "this process (no ibvcapd answers this user)");
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
	finding_fail(finding, FINDING_WARNING, "the rings have to be locked in memory, and are larger than that",
	             "unlimited, or CAP_IPC_LOCK");
	if (process->kind == DOCTOR_SERVICE)
		finding_fix(finding, FIX_LASTS, "systemctl edit ibvcapd   # [Service] LimitMEMLOCK=infinity");
	else
		finding_write(finding->fix, "sudo ibvcapd   # or its package, and systemctl start ibvcapd");
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
	finding_fail(finding, process->kind != DOCTOR_SELF ? FINDING_ERROR : FINDING_WARNING,
	             "without it the kernel refuses RAW_PACKET queue pairs and flow rules", "CAP_NET_RAW");
	if (process->kind != DOCTOR_SELF)
		finding_fix(finding, FIX_LASTS,
		            "systemctl edit ibvcapd   # [Service] AmbientCapabilities=CAP_NET_RAW CAP_IPC_LOCK");
	else
		finding_write(finding->fix,
		              "sudo ibvcapd   # or ibv_launch ibvcapd; or its package, and systemctl start ibvcapd");
}

/* ---- the socket ------------------------------------------------------------------------------------ */

static void check_socket(const struct doctor_facts *facts, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "socket", "control socket %s", facts->control.path);
	const struct doctor_socket *control = &facts->control;

	if (facts->process.kind == DOCTOR_DAEMON)
		finding_write(finding->found, "ibvcapd (pid %d) listens", (int)control->pid);
	else if (control->pid)
		finding_write(finding->found, "process %d of user %u listens, which is no ibvcapd of the system",
		              (int)control->pid, (unsigned)control->uid);
	else if (control->error == ESRCH)
		finding_write(finding->found, "ibvcapd has ended, and systemd keeps its socket for the next start "
		                              "(systemctl status ibvcapd)");
	else if (control->error == EACCES || control->error == EPERM)
		finding_write(finding->found, "this user may not connect: run the doctor as root to see the daemon");
	else if (control->error == ENOENT || control->error == ECONNREFUSED)
		finding_write(finding->found, "no process listens");
	else
		finding_write(finding->found, "no ibvcapd was found: %s", strerror(control->error));
}

/* Without a daemon, ibvcapd --check-config tries whether one can run as this user (check_config.c). */
static void check_user(const struct doctor_facts *facts, struct findings *findings)
{
	const struct doctor_socket *control = &facts->control;
	struct finding *finding;

	if (!facts->user || facts->process.kind != DOCTOR_DAEMON)
		return;
	finding = finding_add(findings, "socket", "user %s at %s", facts->user, control->path);
	if (control->of_user == DOCTOR_USER_NOT_TRIED) {
		finding_write(finding->found, "not tried: run the doctor as root, which can become this user");
		return;
	}
	finding_write(finding->found, "%s connect to ibvcapd",
	              control->of_user == DOCTOR_USER_CONNECTS ? "may" : "cannot");
	if (control->of_user == DOCTOR_USER_CONNECTS)
		return;
	finding_fail(finding, FINDING_ERROR, "programs of this user neither receive nor send",
	             "a user in the group of the socket, to whom its directory is open");
	finding_write(finding->advice, "%s", control->refused);
	finding->fix_survives_reboot = true;
}

static void check_network(const struct doctor_facts *facts, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "network", "network namespace");

	if (facts->network == DOCTOR_NETWORK_ENTERED)
		finding_write(finding->found, "that of ibvcapd (pid %d)", (int)facts->process.pid);
	else if (facts->network == DOCTOR_NETWORK_HIDDEN)
		finding_write(
			finding->found,
			"another one than that of ibvcapd (pid %d), whose interfaces are not shown: run the doctor "
			"there",
			(int)facts->process.pid);
	else if (facts->network == DOCTOR_NETWORK_FIRST)
		finding_write(finding->found, "that of process 1");
	else if (facts->network == DOCTOR_NETWORK_OTHER)
		finding_write(finding->found, "another one than that of process 1: that of this process");
	else
		finding_write(finding->found,
		              "that of this process; only root with CAP_SYS_PTRACE reads whether process 1 is in it");
	if (facts->sysfs_is_foreign)
		finding_append(finding->found,
		               "; /sys is of another one, so what only /sys says of interfaces is not known: lower "
		               "interfaces, virtual functions, precision clocks");
}

void check_process(const struct doctor_facts *facts, struct findings *findings)
{
	check_socket(facts, findings);
	check_user(facts, findings);
	check_network(facts, findings);
	check_process_capabilities(&facts->process, findings);
	check_process_memlock(&facts->process, findings);
}

/* ---- ring memory --------------------------------------------------------------------------------- */

static void append_bytes(char text[FINDING_TEXT_BYTES], uint64_t bytes)
{
	finding_append(text, "%" PRIu64 " %s", bytes >> (bytes >> 20 ? 20 : 10), bytes >> 20 ? "MiB" : "KiB");
}

static void check_holder(const struct doctor_facts *facts, const struct doctor_holder *holder,
                         struct findings *findings)
{
	struct finding *finding = finding_add(findings, "ring_memory", "%s (pid %d, user %s)", holder->name,
	                                      (int)holder->pid, holder->user);

	finding->holder = holder->pid;
	append_bytes(finding->found, holder->bytes);
	if (!facts->knows_ended_rings) {
		finding_append(finding->found, "; whether its rings have ended is unknown: %s",
		               facts->sees_all_processes ? "there are too many segments"
		                                         : "run as root, with CAP_SYS_PTRACE");
		return;
	}
	if (!holder->ended_bytes) {
		finding_append(finding->found, ", all of it in rings that ibvcapd uses");
		return;
	}
	finding_append(finding->found, ", of which ");
	append_bytes(finding->found, holder->ended_bytes);
	finding_append(finding->found, " in rings that have ended");
	finding_fail(finding, FINDING_WARNING,
	             "the kernel frees it only when this process unmaps and closes it; until then a new ring "
	             "may find too few hugepages",
	             "no memory of rings that have ended");
	finding_write(finding->fix,
	              "kill %d   # or let it read on: at the end of the stream libibvcap frees the memory",
	              (int)holder->pid);
}

void check_holders(const struct doctor_facts *facts, struct findings *findings)
{
	struct finding *finding;

	for (unsigned int i = 0; i < facts->n_holders; i++)
		check_holder(facts, &facts->holders[i], findings);
	if (facts->n_holders && facts->sees_all_processes && facts->n_holders < DOCTOR_HOLDERS_MAX)
		return;
	finding = finding_add(findings, "ring_memory", "other processes that hold ring memory");
	if (facts->n_holders == DOCTOR_HOLDERS_MAX)
		finding_write(finding->found, "perhaps more: only the first %u are listed", DOCTOR_HOLDERS_MAX);
	else
		finding_write(finding->found, "%s",
		              facts->sees_all_processes ? "none"
		                                        : "unknown: only root with CAP_SYS_PTRACE reads all processes; "
		                                          "a container may take that right away");
}
