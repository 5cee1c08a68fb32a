// SPDX-License-Identifier: Apache-2.0
/* Memory and hugepages: those that the machine has, by size and node, and those that the configuration needs. */
#include "tools/doctor/checks.h"

#include "daemon/backend/choice/backends.h"
#include "daemon/base/machine.h"
#include "daemon/memory/geometry.h"

#include <inttypes.h>

#define SMALL_KIB      4
#define SMALL_HUGE_KIB 2048
#define KIB            1024
#define KIB_PER_MIB    1024
#define KIB_PER_GIB    (1024 * 1024)
#define NODES_AT_ONCE  4 /* nodes whose commands fit into a text; the next run names the others */

/* ---- all memory ------------------------------------------------------------------------------------- */

/* Memory that the kernel takes for a stream besides its ring. */
static uint64_t queue_kib(const struct doctor_facts *facts, const struct config_stream *stream)
{
	enum config_backend backend = facts_find_backend(facts, stream->interface, stream->backend);
	const struct backend_ops *ops = backend_find(config_backend_name(backend));
	const struct doctor_interface *interface = facts_find_interface(facts, stream->interface);
	uint32_t bytes = geometry_received_bytes(stream, interface ? interface->mtu : UINT16_MAX);

	return ops && ops->kernel_bytes ? ops->kernel_bytes(stream->receive_queue_slots, bytes) / KIB : 0;
}

struct configured_kib {
	uint64_t rings, queues, arenas, all;
};

static struct configured_kib sum_configured_kib(const struct doctor_facts *facts)
{
	struct configured_kib kib = {0};
	struct doctor_service service;

	for (uint32_t i = 0; facts_service(facts, i, &service); i++) {
		*(service.stream ? &kib.rings : &kib.arenas) += service.memory_bytes / KIB;
		kib.queues += service.stream ? queue_kib(facts, service.stream) : 0;
	}
	kib.all = kib.rings + kib.queues + kib.arenas;
	return kib;
}

/* Is there room for `times` the memory that the configuration needs? */
static bool has_memory_for(const struct doctor_facts *facts, unsigned int times)
{
	return !facts->memory_kib ||
	       times * sum_configured_kib(facts).all <= facts->memory_kib / 100 * MACHINE_SHARE_MAX_PERCENT;
}

static void append_kib(char text[FINDING_TEXT_BYTES], uint64_t kib)
{
	if (kib >= 10 * KIB_PER_GIB)
		finding_append(text, "%" PRIu64 " GiB", kib / KIB_PER_GIB);
	else
		finding_append(text, "%" PRIu64 " MiB", kib / KIB_PER_MIB);
}

static void append_part(char text[FINDING_TEXT_BYTES], const char *part, uint64_t kib)
{
	if (!kib)
		return;
	finding_append(text, "%s ", part);
	append_kib(text, kib);
}

static void write_lower_fix(const struct doctor_facts *facts, struct finding *finding)
{
	finding_fix(finding, FIX_LASTS,
	            "ibvcapd --check-config --config %s   # says what each stream and channel takes: lower "
	            "history_blocks, or max_consumers and lease_blocks, or max_senders and arena_slots of the largest",
	            facts->config_file);
}

void check_memory(const struct doctor_facts *facts, struct findings *findings)
{
	struct configured_kib kib;
	struct finding *finding;

	if (!facts->config || !facts->memory_kib)
		return;
	kib = sum_configured_kib(facts);
	finding = finding_add(findings, "memory", "all that %s may take", facts->config_file);
	append_kib(finding->found, kib.all);
	finding_append(finding->found, " of the machine's ");
	append_kib(finding->found, facts->memory_kib);
	append_part(finding->found, ": rings", kib.rings);
	append_part(finding->found, ", the kernel's buffers of receive queues", kib.queues);
	append_part(finding->found, "; arenas of as many senders as may come", kib.arenas);
	if (has_memory_for(facts, 1))
		return;
	finding_fail(finding, FINDING_ERROR,
	             "none of it can be swapped out, and the kernel and other programs need the rest",
	             "at most %u %% of it", MACHINE_SHARE_MAX_PERCENT);
	write_lower_fix(facts, finding);
}

/* ---- hugepages ------------------------------------------------------------------------------------- */

/* The pages of one size on all nodes. */
struct pool_sum {
	uint64_t page_kib;
	uint64_t total, free_pages;
	uint64_t wanted; /* by all streams, and by all senders that channels allow */
};

static struct pool_sum sum_pools(const struct doctor_facts *facts, uint64_t page_kib)
{
	struct pool_sum sum = {.page_kib = page_kib};
	uint64_t page_bytes = page_kib * KIB;
	struct doctor_service service;

	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].page_kib == page_kib) {
			sum.total += facts->pools[i].total_pages;
			sum.free_pages += facts->pools[i].free_pages;
		}
	for (uint32_t i = 0; facts_service(facts, i, &service); i++)
		if (service.page_bytes == page_bytes)
			sum.wanted += service.memory_bytes / page_bytes;
	return sum;
}

/* The node of the device behind an interface; else_node if it is not known. */
static unsigned int node_of_interface(const struct doctor_facts *facts, const char *interface, unsigned int else_node)
{
	const struct doctor_device *device = facts_find_device(facts, interface);

	return device && device->pci.node >= 0 && device->pci.node < DOCTOR_NODES_MAX ? (unsigned int)device->pci.node
	                                                                              : else_node;
}

/* The node of the first device in the configuration, or else one that has pages of this size. */
static unsigned int find_default_node(const struct doctor_facts *facts, uint64_t page_kib)
{
	for (uint32_t i = 0; i < facts->config->n_streams; i++) {
		unsigned int node = node_of_interface(facts, facts->config->streams[i].interface, DOCTOR_NODES_MAX);

		if (node < DOCTOR_NODES_MAX)
			return node;
	}
	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].page_kib == page_kib && facts->pools[i].node < DOCTOR_NODES_MAX)
			return facts->pools[i].node;
	return 0;
}

static uint64_t pages_in_use(const struct doctor_facts *facts, uint64_t page_kib, unsigned int node)
{
	/* If the daemon runs with this configuration, the pages in use are its own. */
	for (unsigned int i = 0; i < facts->n_pools && !facts->process.has_config; i++)
		if (facts->pools[i].page_kib == page_kib && facts->pools[i].node == node)
			return facts->pools[i].total_pages - facts->pools[i].free_pages;
	return 0;
}

static void append_tmpfiles_fix(uint64_t page_kib, unsigned int node, uint64_t pages, struct finding *finding)
{
	finding_append(finding->fix,
	               "%secho 'w /sys/devices/system/node/node%u/hugepages/hugepages-%" PRIu64
	               "kB/nr_hugepages - - - - %" PRIu64 "' > /etc/tmpfiles.d/ibvcap-hugepages-node%u.conf && "
	               "systemd-tmpfiles --create ibvcap-hugepages-node%u.conf",
	               *finding->fix ? " && " : "", node, page_kib, pages, node, node);
}

/*
 * Reserve the wanted pages on each node beside those that others use, and do not take away any. Pages of 1 GiB are
 * reserved at boot, because later the memory is too fragmented.
 */
static void write_pages_fix(const struct doctor_facts *facts, uint64_t page_kib,
                            const uint64_t wanted[DOCTOR_NODES_MAX], struct finding *finding)
{
	uint64_t there[DOCTOR_NODES_MAX] = {0}, pages[DOCTOR_NODES_MAX] = {0};
	unsigned int n = 0;

	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].page_kib == page_kib && facts->pools[i].node < DOCTOR_NODES_MAX)
			there[facts->pools[i].node] += facts->pools[i].total_pages;
	for (unsigned int node = 0; node < DOCTOR_NODES_MAX; node++) {
		pages[node] = wanted[node] ? wanted[node] + pages_in_use(facts, page_kib, node) : 0;
		if (pages[node] < there[node])
			pages[node] = there[node];
		if (page_kib == SMALL_HUGE_KIB && pages[node] > there[node] && n++ < NODES_AT_ONCE)
			append_tmpfiles_fix(page_kib, node, pages[node], finding);
	}
	if (page_kib != SMALL_HUGE_KIB) {
		const char *before = "";

		/* All nodes in one hugepages=, because the kernel uses only one for each size. */
		finding_append(finding->fix,
		               "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&hugepagesz=%" PRIu64 "M hugepages=", page_kib / 1024);
		for (unsigned int node = 0; node < DOCTOR_NODES_MAX; node++)
			if (pages[node]) {
				finding_append(finding->fix, "%s%u:%" PRIu64, before, node, pages[node]);
				before = ",";
			}
		finding_append(finding->fix, " /' /etc/default/grub && update-grub   # then reboot");
	}
	finding->fix_survives_reboot = finding->fix_is_host = true;
}

/*
 * Twice the pages that the configuration needs, for the old and the new rings over a restart; once, if the machine has
 * no memory for that. Never more than the machine has: the kernel would give all free memory away, at each boot.
 */
static void write_planned_fix(const struct doctor_facts *facts, uint64_t page_kib, unsigned int times,
                              struct finding *finding)
{
	uint64_t pages[DOCTOR_NODES_MAX] = {0};
	unsigned int else_node = find_default_node(facts, page_kib);
	uint64_t page_bytes = page_kib * KIB;
	struct doctor_service service;

	if (!has_memory_for(facts, times)) {
		write_lower_fix(facts, finding);
		return;
	}
	/* What the configuration needs on each node. For a device of unknown node this is find_default_node(). */
	for (uint32_t i = 0; facts_service(facts, i, &service); i++)
		if (service.page_bytes == page_bytes)
			pages[node_of_interface(facts, service.interface, else_node)] +=
				service.memory_bytes / page_bytes;
	for (unsigned int node = 0; node < DOCTOR_NODES_MAX; node++)
		pages[node] *= times;
	write_pages_fix(facts, page_kib, pages, finding);
}

static void check_wanted_hugepages(const struct doctor_facts *facts, const struct pool_sum *sum,
                                   struct findings *findings)
{
	struct finding *finding = finding_add(findings, "hugepages", "%" PRIu64 " MiB pages for %s",
	                                      sum->page_kib / 1024, facts->config_file);
	uint64_t in_use = facts->process.has_config ? 0 : sum->total - sum->free_pages;
	uint64_t usable = sum->total - in_use;

	finding_write(finding->found, "%" PRIu64 " reserved, %" PRIu64 " free; the configuration needs %" PRIu64,
	              sum->total, sum->free_pages, sum->wanted);
	if (usable >= 2 * sum->wanted)
		return;
	finding_fail(finding, usable < sum->wanted ? FINDING_ERROR : FINDING_WARNING,
	             usable < sum->wanted
	                     ? "ibvcapd does not start, or refuses senders, without pages for its rings"
	                     : "over a restart consumers keep the old rings while the new ones are created",
	             "%" PRIu64 ": twice the need", 2 * sum->wanted);
	write_planned_fix(facts, sum->page_kib, usable >= sum->wanted || has_memory_for(facts, 2) ? 2 : 1, finding);
}

/* The pages that streams on devices of this node need. */
static uint64_t pages_wanted_on(const struct doctor_facts *facts, int node, uint32_t page_bytes)
{
	struct doctor_service service;
	uint64_t bytes = 0;

	for (uint32_t i = 0; facts_service(facts, i, &service) && service.stream; i++) {
		const struct doctor_device *device = facts_find_device(facts, service.interface);

		if (device && device->pci.node == node && service.page_bytes == page_bytes)
			bytes += service.memory_bytes;
	}
	return bytes / page_bytes;
}

/* If a ring lies on another node than its device, each packet crosses the link between the nodes. */
static void check_ring_node(const struct doctor_facts *facts, const struct config_stream *stream,
                            struct findings *findings)
{
	const struct doctor_device *device = facts_find_device(facts, stream->interface);
	uint64_t page_kib = stream->page_bytes / KIB, here = 0, all = 0, wanted;
	struct finding *finding;

	if (!device || device->pci.node < 0 || page_kib == SMALL_KIB)
		return;
	for (unsigned int i = 0; i < facts->n_pools; i++) {
		if (facts->pools[i].page_kib != page_kib)
			continue;
		all += facts->pools[i].total_pages;
		if ((int)facts->pools[i].node == device->pci.node)
			here += facts->pools[i].total_pages;
	}
	wanted = pages_wanted_on(facts, device->pci.node, stream->page_bytes);
	finding = finding_add(findings, "numa", "stream '%s': memory and %s", stream->name, device->name);
	finding_write(finding->found, "the device is on node %d, which has %" PRIu64 " pages of %" PRIu64 " MiB",
	              device->pci.node, here, page_kib / 1024);
	/* If no node has enough, another finding says so. */
	if (here >= wanted || all == here)
		return;
	finding_fail(finding, FINDING_WARNING,
	             "each packet crosses the link between the nodes if its ring lies on the other node",
	             "%" PRIu64 " on that node", wanted);
	write_planned_fix(facts, page_kib, has_memory_for(facts, 2) ? 2 : 1, finding);
}

void check_hugepages(const struct doctor_facts *facts, struct findings *findings)
{
	static const uint64_t sizes_kib[] = {SMALL_HUGE_KIB, 1048576};

	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].total_pages) {
			struct finding *finding =
				finding_add(findings, "hugepages", "%" PRIu64 " MiB pages on NUMA node %u",
			                    facts->pools[i].page_kib / 1024, facts->pools[i].node);

			finding_write(finding->found, "%" PRIu64 " free of %" PRIu64, facts->pools[i].free_pages,
			              facts->pools[i].total_pages);
		}
	if (!facts->config)
		return;
	for (unsigned int i = 0; i < sizeof(sizes_kib) / sizeof(sizes_kib[0]); i++) {
		struct pool_sum sum = sum_pools(facts, sizes_kib[i]);

		if (sum.wanted)
			check_wanted_hugepages(facts, &sum, findings);
	}
	for (uint32_t i = 0; i < facts->config->n_streams; i++)
		check_ring_node(facts, &facts->config->streams[i], findings);
}
