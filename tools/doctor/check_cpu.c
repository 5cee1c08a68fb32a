// SPDX-License-Identifier: Apache-2.0
/* CPUs: frequency and sleep states, and other programs on the CPUs of workers. */
#include "tools/doctor/checks.h"

#include <string.h>

/* A queue of 4096 slots, with packets of 64 bytes at 100 Gb/s, is full after 42 us. */
#define IDLE_EXIT_MAX_US 40

/* The kernel starts on this CPU and keeps timers and interrupts there: it cannot be in nohz_full=. */
#define KERNELS_CPU 0

static void check_cpu_governor(const struct doctor_cpus *cpus, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "governor", "CPU frequency");
	char list[FINDING_TEXT_BYTES];

	if (!cpus->has_governor) {
		finding_write(finding->found, "the kernel does not control it on this machine");
		return;
	}
	if (!*cpus->governor) {
		finding_write(finding->found, "performance");
		return;
	}
	finding_write(finding->found, "%s on CPUs %s", cpus->governor, finding_format_cpus(&cpus->governed, list));
	finding_fail(finding, FINDING_WARNING,
	             "after a worker slept, it is slow until its CPU has raised its frequency again", "performance");
	finding_fix(finding, FIX_ON_HOST,
	            "echo performance | tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor");
}

static bool has_sleeping_worker(const struct doctor_facts *facts)
{
	struct doctor_service service;

	for (uint32_t i = 0; facts_service(facts, i, &service); i++)
		if (service.poll != CONFIG_POLL_BUSY)
			return true;
	return !facts->config;
}

static void check_cpu_idle(const struct doctor_facts *facts, struct findings *findings)
{
	const struct doctor_cpus *cpus = &facts->cpus;
	struct finding *finding = finding_add(findings, "c_states", "CPU sleep");

	if (!cpus->has_idle) {
		finding_write(finding->found, "the kernel does not control it on this machine");
		return;
	}
	if (cpus->has_latency_limit && cpus->latency_limit_us <= IDLE_EXIT_MAX_US) {
		finding_write(finding->found, "a program limits the wake-up time to %u us (/dev/cpu_dma_latency)",
		              cpus->latency_limit_us);
		return;
	}
	finding_write(finding->found, "waking up from the deepest state, %s, takes %u us", cpus->idle_state,
	              cpus->idle_exit_us);
	if (cpus->idle_exit_us <= IDLE_EXIT_MAX_US || !has_sleeping_worker(facts))
		return;
	finding_fail(finding, FINDING_WARNING, "packets wait in the queue until the worker is awake",
	             "%u us at most, or poll = \"busy\" in all streams and channels", IDLE_EXIT_MAX_US);
	finding_fix(finding, FIX_ON_HOST,
	            "for state in /sys/devices/system/cpu/cpu*/cpuidle/state*; do "
	            "[ $(cat $state/latency) -le %u ] || echo 1 > $state/disable; done",
	            IDLE_EXIT_MAX_US);
}

/* ---- a worker's own -------------------------------------------------------------------------------- */

/* A worker that the configuration binds to a CPU. */
struct pinned_worker {
	const char *of; /* "stream 'a'" */
	int cpu;
	const struct doctor_service *service;
};

/* The CPUs of all workers together, because the kernel uses only one isolcpus= of its command line. */
static cpu_set_t cpus_to_isolate(const struct doctor_facts *facts)
{
	cpu_set_t cpus = facts->cpus.isolated;
	struct doctor_service service;

	for (uint32_t i = 0; facts_service(facts, i, &service); i++)
		if (service.cpu >= 0 && service.cpu < CPU_SETSIZE && service.poll == CONFIG_POLL_BUSY)
			CPU_SET((unsigned int)service.cpu, &cpus);
	if (CPU_COUNT(&facts->cpus.online))
		CPU_AND(&cpus, &cpus, &facts->cpus.online);
	CPU_CLR(KERNELS_CPU, &cpus);
	return cpus;
}

static void check_cpu_isolation(const struct doctor_facts *facts, const struct pinned_worker *worker,
                                struct findings *findings)
{
	struct finding *finding = finding_add(findings, "isolation", "%s on CPU %d", worker->of, worker->cpu);
	cpu_set_t cpus = cpus_to_isolate(facts);
	char list[FINDING_TEXT_BYTES];

	if (CPU_ISSET((unsigned int)worker->cpu, &facts->cpus.isolated)) {
		finding_write(finding->found, "isolated");
		return;
	}
	finding_write(finding->found, "not isolated: other programs may run there");
	if (worker->service->poll != CONFIG_POLL_BUSY)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "while another program has the CPU, for some ms each time, the worker does not poll",
	             "isolated, because a worker that never sleeps shares the CPU with other programs");
	if (worker->cpu == KERNELS_CPU) {
		finding_write(finding->wanted, "another CPU than %d, isolated", KERNELS_CPU);
		finding_append(finding->why, "; the kernel's own work stays on CPU %d", KERNELS_CPU);
		finding_fix_by_edit(finding, worker->service->file, worker->service->line, "cpu: another one than %d",
		                    KERNELS_CPU);
		return;
	}
	finding_fix(finding, FIX_LASTS | FIX_ON_HOST,
	            "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&isolcpus=%s nohz_full=%s /' /etc/default/grub && "
	            "update-grub   # then reboot",
	            finding_format_cpus(&cpus, list), list);
}

static void check_cpu_irqs(const struct doctor_facts *facts, const struct pinned_worker *worker,
                           struct findings *findings)
{
	const struct doctor_device *device = facts_find_device(facts, worker->service->interface);
	char list[FINDING_TEXT_BYTES];
	struct finding *finding;

	if (!device || !device->pci.n_irqs)
		return;
	finding = finding_add(findings, "irq_affinity", "%s on CPU %d", worker->of, worker->cpu);
	finding_write(finding->found, "%s's %u interrupts are handled on %s", device->name, device->pci.n_irqs,
	              finding_format_cpus(&device->pci.irq_cpus, list));
	if (!CPU_ISSET((unsigned int)worker->cpu, &device->pci.irq_cpus) || CPU_COUNT(&facts->cpus.online) < 2)
		return;
	finding_fail(finding, FINDING_WARNING, "the worker does not run while its CPU handles the kernel's packets",
	             "on other CPUs than the worker's");
	finding_fix(finding, FIX_ON_HOST,
	            "systemctl disable --now irqbalance; for i in $(ls /sys/bus/pci/devices/%s/msi_irqs); do echo %d > "
	            "/proc/irq/$i/smp_affinity_list; done",
	            device->pci.address, CPU_ISSET(0, &facts->cpus.online) && worker->cpu != 0 ? 0 : 1);
}

static void check_cpu_node(const struct doctor_facts *facts, const struct pinned_worker *worker,
                           struct findings *findings)
{
	const struct doctor_device *device = facts_find_device(facts, worker->service->interface);
	int node = device ? device->pci.node : -1;
	char list[FINDING_TEXT_BYTES];
	struct finding *finding;

	if (node < 0 || node >= DOCTOR_NODES_MAX || CPU_COUNT(&facts->cpus.nodes[node]) == 0)
		return;
	finding = finding_add(findings, "numa", "%s on CPU %d", worker->of, worker->cpu);
	finding_write(finding->found, "%s is on node %d, CPUs %s", device->name, node,
	              finding_format_cpus(&facts->cpus.nodes[node], list));
	if (CPU_ISSET((unsigned int)worker->cpu, &facts->cpus.nodes[node]))
		return;
	finding_fail(finding, FINDING_WARNING, "each completion crosses the link between the nodes", "one of those");
	finding_fix_by_edit(finding, worker->service->file, worker->service->line, "cpu");
}

static void check_cpu_worker(const struct doctor_facts *facts, const struct pinned_worker *worker,
                             struct findings *findings)
{
	if (worker->cpu < 0 || worker->cpu >= CPU_SETSIZE || !CPU_ISSET((unsigned int)worker->cpu, &facts->cpus.online))
		return;
	check_cpu_isolation(facts, worker, findings);
	check_cpu_irqs(facts, worker, findings);
	check_cpu_node(facts, worker, findings);
}

static void check_cpu_stream(const struct doctor_facts *facts, const struct doctor_service *service,
                             struct findings *findings)
{
	const struct config_stream *stream = service->stream;
	char of[FINDING_TEXT_BYTES];

	for (uint32_t i = 0; i < stream->queues; i++) {
		struct pinned_worker worker = {of, config_queue_cpu(stream, i), service};

		if (stream->queues > 1)
			finding_write(of, "queue %u of stream '%s'", i, stream->name);
		else
			finding_write(of, "stream '%s'", stream->name);
		check_cpu_worker(facts, &worker, findings);
	}
}

/* One worker serves all channels of an interface; the configuration makes sure that they name the same CPU. */
static void check_cpu_channel(const struct doctor_facts *facts, const struct doctor_service *service, uint32_t number,
                              struct findings *findings)
{
	struct doctor_service other;
	char of[FINDING_TEXT_BYTES];

	for (uint32_t i = facts->config->n_streams; i < number && facts_service(facts, i, &other); i++)
		if (strcmp(other.interface, service->interface) == 0)
			return;
	finding_write(of, "channels of %s", service->interface);
	check_cpu_worker(facts, &(struct pinned_worker){of, service->cpu, service}, findings);
}

void check_cpus(const struct doctor_facts *facts, struct findings *findings)
{
	struct doctor_service service;

	check_cpu_governor(&facts->cpus, findings);
	check_cpu_idle(facts, findings);
	for (uint32_t i = 0; facts_service(facts, i, &service); i++) {
		if (service.stream)
			check_cpu_stream(facts, &service, findings);
		else
			check_cpu_channel(facts, &service, i, findings);
	}
}
