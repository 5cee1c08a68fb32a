// SPDX-License-Identifier: Apache-2.0
/* CPUs: how fast they are awake, and who else runs where a worker does. */
#include "tools/doctor/judge.h"

#include <stdio.h>
#include <string.h>

/* Less than what a deep receive queue lasts at a high rate: 4096 slots of 64 bytes, 100 Gb/s: 42 us. */
#define IDLE_EXIT_MAX_US 40

static void judge_governor(const struct doctor_cpus *cpus, struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "governor");
	char list[DOCTOR_TEXT_BYTES];

	judge_say(finding->subject, "CPU frequency");
	if (!cpus->has_governor) {
		judge_say(finding->found, "not the kernel's to choose here");
		return;
	}
	if (!*cpus->governor) {
		judge_say(finding->found, "performance");
		return;
	}
	finding->level = DOCTOR_WARNING;
	judge_say(finding->found, "%s on CPUs %s", cpus->governor, judge_format_cpus(&cpus->governed, list));
	judge_say(finding->wanted, "performance");
	judge_say(finding->why, "a worker that has slept polls on slowly until its CPU is fast again");
	judge_say(finding->fix, "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
}

static bool sleeps(const struct config *config)
{
	for (uint32_t i = 0; config && i < config->n_streams; i++)
		if (config->streams[i].poll != CONFIG_POLL_BUSY)
			return true;
	return !config || !config->n_streams;
}

static void judge_idle(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	const struct doctor_cpus *cpus = &facts->cpus;
	struct doctor_finding *finding = judge_add(findings, "c_states");

	judge_say(finding->subject, "CPU sleep");
	if (!cpus->has_idle) {
		judge_say(finding->found, "not the kernel's to choose here");
		return;
	}
	if (cpus->has_latency_limit && cpus->latency_limit_us <= IDLE_EXIT_MAX_US) {
		judge_say(finding->found, "somebody keeps it at %u us (/dev/cpu_dma_latency)", cpus->latency_limit_us);
		return;
	}
	judge_say(finding->found, "waking from the deepest, %s, takes %u us", cpus->idle_state, cpus->idle_exit_us);
	if (cpus->idle_exit_us <= IDLE_EXIT_MAX_US || !sleeps(facts->config))
		return;
	finding->level = DOCTOR_WARNING;
	judge_say(finding->wanted, "%u us at most, or poll = \"busy\" in all streams", IDLE_EXIT_MAX_US);
	judge_say(finding->why, "packets wait in the receive queue until a worker that slept is awake");
	judge_say(finding->fix, "echo 1 | tee /sys/devices/system/cpu/cpu*/cpuidle/state%u/disable",
		  cpus->idle_state_number);
}

/* ---- a worker's own -------------------------------------------------------------------------------- */

static void judge_exists(const struct doctor_facts *facts, const struct config_stream *stream,
			 struct doctor_finding *finding)
{
	char list[DOCTOR_TEXT_BYTES];

	finding->level = DOCTOR_ERROR;
	judge_say(finding->found, "there is no such CPU for it");
	judge_say(finding->wanted, "one of %s", judge_format_cpus(&facts->cpus.online, list));
	judge_say(finding->why, "ibvcapd cannot put the worker there");
	judge_say(finding->fix, "editor +%d %s   # cpu", stream->line, stream->file);
	finding->fix_survives_reboot = true;
}

static void judge_isolation(const struct doctor_facts *facts, const struct config_stream *stream,
			    struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "isolation");

	judge_say(finding->subject, "stream '%s' on CPU %d", stream->name, stream->cpu);
	if (CPU_COUNT(&facts->cpus.online) && !CPU_ISSET((unsigned int)stream->cpu, &facts->cpus.online)) {
		judge_exists(facts, stream, finding);
		return;
	}
	if (CPU_ISSET((unsigned int)stream->cpu, &facts->cpus.isolated)) {
		judge_say(finding->found, "isolated");
		return;
	}
	judge_say(finding->found, "not isolated: other programs may run there");
	if (stream->poll != CONFIG_POLL_BUSY)
		return;
	finding->level = DOCTOR_WARNING;
	judge_say(finding->wanted, "isolated, as a worker that never sleeps takes turns with what else runs there");
	judge_say(finding->why, "for as long as another program has the CPU nothing is polled: some ms each time");
	judge_say(
	    finding->fix,
	    "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&isolcpus=%d nohz_full=%d /' /etc/default/grub && update-grub && reboot",
	    stream->cpu, stream->cpu);
	finding->fix_survives_reboot = true;
}

static void judge_irqs(const struct doctor_facts *facts, const struct config_stream *stream,
		       struct doctor_findings *findings)
{
	const struct doctor_device *device = judge_find_device(facts, stream->interface);
	char list[DOCTOR_TEXT_BYTES];
	struct doctor_finding *finding;

	if (!device || !device->pci.n_irqs)
		return;
	finding = judge_add(findings, "irq_affinity");
	judge_say(finding->subject, "stream '%s' on CPU %d", stream->name, stream->cpu);
	judge_say(finding->found, "%s's %u interrupts are handled on %s", device->name, device->pci.n_irqs,
		  judge_format_cpus(&device->pci.irq_cpus, list));
	if (!CPU_ISSET((unsigned int)stream->cpu, &device->pci.irq_cpus) || CPU_COUNT(&facts->cpus.online) < 2)
		return;
	finding->level = DOCTOR_WARNING;
	judge_say(finding->wanted, "on others than the worker's");
	judge_say(finding->why, "the worker stands still while its CPU serves the kernel's share of the traffic");
	judge_say(finding->fix,
		  "systemctl disable --now irqbalance; for i in $(ls /sys/bus/pci/devices/%s/msi_irqs); do echo %d > "
		  "/proc/irq/$i/smp_affinity_list; done",
		  device->pci.address, CPU_ISSET(0, &facts->cpus.online) && stream->cpu != 0 ? 0 : 1);
}

static void judge_node(const struct doctor_facts *facts, const struct config_stream *stream,
		       struct doctor_findings *findings)
{
	const struct doctor_device *device = judge_find_device(facts, stream->interface);
	int node = device ? device->pci.node : -1;
	char list[DOCTOR_TEXT_BYTES];
	struct doctor_finding *finding;

	if (node < 0 || node >= DOCTOR_NODES_MAX || CPU_COUNT(&facts->cpus.nodes[node]) == 0)
		return;
	finding = judge_add(findings, "numa");
	judge_say(finding->subject, "stream '%s' on CPU %d", stream->name, stream->cpu);
	judge_say(finding->found, "%s is on node %d, CPUs %s", device->name, node,
		  judge_format_cpus(&facts->cpus.nodes[node], list));
	if (CPU_ISSET((unsigned int)stream->cpu, &facts->cpus.nodes[node]))
		return;
	finding->level = DOCTOR_WARNING;
	judge_say(finding->wanted, "one of those");
	judge_say(finding->why, "each completion crosses the link between the nodes");
	judge_say(finding->fix, "editor +%d %s   # cpu", stream->line, stream->file);
	finding->fix_survives_reboot = true;
}

void judge_cpus(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	judge_governor(&facts->cpus, findings);
	judge_idle(facts, findings);
	for (uint32_t i = 0; facts->config && i < facts->config->n_streams; i++) {
		const struct config_stream *stream = &facts->config->streams[i];

		if (stream->cpu < 0 || stream->cpu >= CPU_SETSIZE)
			continue;
		judge_isolation(facts, stream, findings);
		judge_irqs(facts, stream, findings);
		judge_node(facts, stream, findings);
	}
}
