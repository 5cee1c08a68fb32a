// SPDX-License-Identifier: Apache-2.0
/* Hugepages: by size and node, against what the configuration takes of them. */
#include "tools/doctor/checks.h"

#include "daemon/stream/geometry.h"

#include <inttypes.h>
#include <string.h>

#define SMALL_KIB      4
#define SMALL_HUGE_KIB 2048
#define KIB            1024
#define PAGES_TO_START 512
#define NODES_AT_ONCE  4 /* whose commands fit in a text; of more, the next time */

/* A size of page: what there is of it on all nodes. */
struct pool_sum {
	uint64_t page_kib;
	uint64_t total, free_pages;
	uint64_t wanted; /* by all streams and by every sender that may come */
};

static struct pool_sum sum_pools(const struct doctor_facts *facts, uint64_t page_kib)
{
	const struct config *config = facts->config;
	struct pool_sum sum = {.page_kib = page_kib};
	uint64_t page_bytes = page_kib * KIB;

	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].page_kib == page_kib) {
			sum.total += facts->pools[i].total_pages;
			sum.free_pages += facts->pools[i].free_pages;
		}
	for (uint32_t i = 0; config && i < config->n_streams; i++)
		if (config->streams[i].page_bytes == page_bytes)
			sum.wanted += geometry_ring_bytes(&config->streams[i]) / page_bytes;
	for (uint32_t i = 0; config && i < config->n_channels; i++)
		if (config->channels[i].page_bytes == page_bytes)
			sum.wanted += config->channels[i].max_senders *
			              (geometry_arena_bytes(&config->channels[i]) / page_bytes);
	return sum;
}

static void report_pool(const struct doctor_pool *pool, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "hugepages");

	finding_write(finding->subject, "%" PRIu64 " MiB pages on NUMA node %u", pool->page_kib / 1024, pool->node);
	finding_write(finding->found, "%" PRIu64 " free of %" PRIu64, pool->free_pages, pool->total_pages);
}

/* That of the device behind an interface; else else_node. */
static unsigned int node_of_interface(const struct doctor_facts *facts, const char *interface, unsigned int else_node)
{
	const struct doctor_device *device = facts_find_device(facts, interface);

	return device && device->pci.node >= 0 && device->pci.node < DOCTOR_NODES_MAX ? (unsigned int)device->pci.node
	                                                                              : else_node;
}

/* Where the first device of the configuration is; else where there are pages of that size. */
static unsigned int find_default_node(const struct doctor_facts *facts, uint64_t page_kib)
{
	for (uint32_t i = 0; facts->config && i < facts->config->n_streams; i++) {
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
	/* With the daemon running, what is in use is its own. */
	for (unsigned int i = 0; i < facts->n_pools && !facts->process.has_config; i++)
		if (facts->pools[i].page_kib == page_kib && facts->pools[i].node == node)
			return facts->pools[i].total_pages - facts->pools[i].free_pages;
	return 0;
}

/* What the configuration takes on each node: of a device whose node is not known, on that of find_default_node(). */
static void plan_pages(const struct doctor_facts *facts, uint64_t page_kib, uint64_t pages[DOCTOR_NODES_MAX])
{
	const struct config *config = facts->config;
	unsigned int else_node = find_default_node(facts, page_kib);
	uint64_t page_bytes = page_kib * KIB;

	memset(pages, 0, DOCTOR_NODES_MAX * sizeof(pages[0]));
	for (uint32_t i = 0; i < config->n_streams; i++)
		if (config->streams[i].page_bytes == page_bytes)
			pages[node_of_interface(facts, config->streams[i].interface, else_node)] +=
				geometry_ring_bytes(&config->streams[i]) / page_bytes;
	for (uint32_t i = 0; i < config->n_channels; i++)
		if (config->channels[i].page_bytes == page_bytes)
			pages[node_of_interface(facts, config->channels[i].interface, else_node)] +=
				config->channels[i].max_senders *
				(geometry_arena_bytes(&config->channels[i]) / page_bytes);
}

static void append_tmpfiles_fix(uint64_t page_kib, unsigned int node, uint64_t pages, struct finding *finding)
{
	finding_append(finding->fix,
	               "%secho 'w /sys/devices/system/node/node%u/hugepages/hugepages-%" PRIu64
	               "kB/nr_hugepages - - - - %" PRIu64 "' > /etc/tmpfiles.d/ibvcap-hugepages-node%u.conf && "
	               "systemd-tmpfiles --create ibvcap-hugepages-node%u.conf",
	               *finding->fix ? " && " : "", node, page_kib, pages, node, node);
}

/* Of two hugepages= for one size the kernel takes one: all nodes are in it. */
static void append_boot_fix(uint64_t page_kib, const uint64_t pages[DOCTOR_NODES_MAX], struct finding *finding)
{
	const char *before = "";

	finding_append(finding->fix,
	               "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&hugepagesz=%" PRIu64 "M hugepages=", page_kib / 1024);
	for (unsigned int node = 0; node < DOCTOR_NODES_MAX; node++)
		if (pages[node]) {
			finding_append(finding->fix, "%s%u:%" PRIu64, before, node, pages[node]);
			before = ",";
		}
	finding_append(finding->fix, " /' /etc/default/grub && update-grub && reboot");
}

/*
 * On each node so many more than others use there, and none fewer than there are. Pages of 1 GiB are found while memory
 * is whole: at boot.
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
	if (page_kib != SMALL_HUGE_KIB)
		append_boot_fix(page_kib, pages, finding);
	finding->fix_survives_reboot = true;
}

/* Twice what it takes. */
static void write_planned_fix(const struct doctor_facts *facts, uint64_t page_kib, struct finding *finding)
{
	uint64_t pages[DOCTOR_NODES_MAX];

	plan_pages(facts, page_kib, pages);
	for (unsigned int node = 0; node < DOCTOR_NODES_MAX; node++)
		pages[node] *= 2;
	write_pages_fix(facts, page_kib, pages, finding);
}

static void check_wanted_hugepages(const struct doctor_facts *facts, const struct pool_sum *sum,
                                   struct findings *findings)
{
	struct finding *finding = finding_add(findings, "hugepages");
	uint64_t in_use = facts->process.has_config ? 0 : sum->total - sum->free_pages;
	uint64_t usable = sum->total - in_use;

	finding_write(finding->subject, "%" PRIu64 " MiB pages for %s", sum->page_kib / 1024, facts->config_file);
	finding_write(finding->found, "%" PRIu64 " reserved, %" PRIu64 " free; it takes %" PRIu64, sum->total,
	              sum->free_pages, sum->wanted);
	if (usable >= 2 * sum->wanted)
		return;
	finding->level = usable < sum->wanted ? FINDING_ERROR : FINDING_WARNING;
	finding_write(finding->wanted, "%" PRIu64 ": twice what it takes", 2 * sum->wanted);
	if (finding->level == FINDING_ERROR)
		finding_write(finding->why, "ibvcapd does not start, or refuses senders, without pages for its rings");
	else
		finding_write(finding->why,
		              "over a restart the readers keep the old rings while the new ones are made");
	write_planned_fix(facts, sum->page_kib, finding);
}

/* Without a configuration: one pool with free pages is enough to start. */
static void check_any_hugepage(const struct doctor_facts *facts, struct findings *findings)
{
	uint64_t total = 0, free_pages = 0, pages[DOCTOR_NODES_MAX] = {0};
	struct finding *finding;

	for (unsigned int i = 0; i < facts->n_pools; i++) {
		total += facts->pools[i].total_pages;
		free_pages += facts->pools[i].free_pages;
	}
	if (free_pages)
		return;
	finding = finding_add(findings, "hugepages");
	finding_write(finding->subject, "free hugepages");
	finding_write(finding->found, "%" PRIu64 " reserved, none free", total);
	finding_write(finding->wanted, "as many as the rings of the config need");
	finding_write(finding->why, "rings lie in hugepages unless their page_size is 4 KiB");
	pages[find_default_node(facts, SMALL_HUGE_KIB)] = PAGES_TO_START;
	write_pages_fix(facts, SMALL_HUGE_KIB, pages, finding);
	/* A running daemon may well hold all of them. */
	finding->level = total ? FINDING_WARNING : FINDING_ERROR;
}

/* Of all streams whose devices are there. */
static uint64_t pages_wanted_on(const struct doctor_facts *facts, int node, uint32_t page_bytes)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < facts->config->n_streams; i++) {
		const struct config_stream *stream = &facts->config->streams[i];
		const struct doctor_device *device = facts_find_device(facts, stream->interface);

		if (device && device->pci.node == node && stream->page_bytes == page_bytes)
			bytes += geometry_ring_bytes(stream);
	}
	return bytes / page_bytes;
}

/* A ring on another node than its device: each packet crosses between the two. */
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
	finding = finding_add(findings, "numa");
	finding_write(finding->subject, "stream '%s': memory and %s", stream->name, device->name);
	finding_write(finding->found, "the device is on node %d, which has %" PRIu64 " pages of %" PRIu64 " MiB",
	              device->pci.node, here, page_kib / 1024);
	/* Where there are none at all, that is said already. */
	if (here >= wanted || all == here)
		return;
	finding->level = FINDING_WARNING;
	finding_write(finding->wanted, "%" PRIu64 " there", wanted);
	finding_write(finding->why, "what is on another node crosses the link between the nodes with every packet");
	write_planned_fix(facts, page_kib, finding);
}

void check_memory(const struct doctor_facts *facts, struct findings *findings)
{
	static const uint64_t sizes_kib[] = {SMALL_HUGE_KIB, 1048576};

	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].total_pages)
			report_pool(&facts->pools[i], findings);
	if (!facts->config)
		check_any_hugepage(facts, findings);
	for (unsigned int i = 0; facts->config && i < sizeof(sizes_kib) / sizeof(sizes_kib[0]); i++) {
		struct pool_sum sum = sum_pools(facts, sizes_kib[i]);

		if (sum.wanted)
			check_wanted_hugepages(facts, &sum, findings);
	}
	for (uint32_t i = 0; facts->config && i < facts->config->n_streams; i++)
		check_ring_node(facts, &facts->config->streams[i], findings);
}
