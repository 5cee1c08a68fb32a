// SPDX-License-Identifier: Apache-2.0
/* Ring memory that programs hold: which of them keep memory of rings that have ended, so that new rings lack pages. */
#include "tools/doctor/checks.h"

#include <inttypes.h>

static void append_bytes(char text[FINDING_TEXT_BYTES], uint64_t bytes)
{
	if (bytes >> 20)
		finding_append(text, "%" PRIu64 " MiB", bytes >> 20);
	else
		finding_append(text, "%" PRIu64 " KiB", bytes >> 10);
}

static void check_holder(const struct doctor_facts *facts, const struct doctor_holder *holder,
                         struct findings *findings)
{
	struct finding *finding = finding_add(findings, "ring_memory", "%s (pid %d, user %s)", holder->name,
	                                      (int)holder->pid, holder->user);

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
	finding_fail(finding, FINDING_WARNING, "no memory of rings that have ended",
	             "the kernel frees it only when this process unmaps and closes it; until then a new ring "
	             "may find too few hugepages");
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
		                                        : "unknown: only root with CAP_SYS_PTRACE reads all processes");
}
