// SPDX-License-Identifier: Apache-2.0
/* Hugepages: by size and node, against what the configuration takes of them. */
#include "tools/doctor/judge.h"

#include "daemon/geometry.h"

#include <inttypes.h>

#define SMALL_KIB 4
#define KIB 1024

/* A size of page: what there is of it on all nodes. */
struct sum {
	uint64_t page_kib;
	uint64_t total, free_pages;
	uint64_t wanted; /* by all streams and by every sender that may come */
};

static struct sum sum_of(const struct doctor_facts *facts, uint64_t page_kib)
{
	const struct config *config = facts->config;
	struct sum sum = {.page_kib = page_kib};
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
			sum.wanted +=
			    config->channels[i].max_senders * (geometry_arena_bytes(&config->channels[i]) / page_bytes);
	return sum;
}

static void judge_pool(const struct doctor_pool *pool, struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "hugepages");

	judge_say(finding->subject, "%" PRIu64 " MiB pages on NUMA node %u", pool->page_kib / 1024, pool->node);
	judge_say(finding->found, "%" PRIu64 " free of %" PRIu64, pool->free_pages, pool->total_pages);
}

/* Pages of 1 GiB are found while memory is whole: at boot. */
static void advise(const struct sum *sum, uint64_t pages, struct doctor_finding *finding)
{
	if (sum->page_kib == 2048)
		judge_say(finding->fix,
			  "echo 'vm.nr_hugepages = %" PRIu64 "' > /etc/sysctl.d/80-ibvcap.conf && sysctl --system",
			  pages);
	else
		judge_say(finding->fix,
			  "sed -i 's/^GRUB_CMDLINE_LINUX=\"/&hugepagesz=%" PRIu64 "M hugepages=%" PRIu64
			  " /' /etc/default/grub && update-grub && reboot",
			  sum->page_kib / 1024, pages);
	finding->fix_survives_reboot = true;
}

static void judge_wanted(const struct doctor_facts *facts, const struct sum *sum, struct doctor_findings *findings)
{
	struct doctor_finding *finding = judge_add(findings, "hugepages");
	/* With the daemon running, what is in use is its own. */
	uint64_t in_use = facts->process.has_config ? 0 : sum->total - sum->free_pages;
	uint64_t usable = sum->total - in_use;

	judge_say(finding->subject, "%" PRIu64 " MiB pages for %s", sum->page_kib / 1024, facts->config_file);
	judge_say(finding->found, "%" PRIu64 " reserved, %" PRIu64 " free; it takes %" PRIu64, sum->total,
		  sum->free_pages, sum->wanted);
	if (usable >= 2 * sum->wanted)
		return;
	finding->level = usable < sum->wanted ? DOCTOR_ERROR : DOCTOR_WARNING;
	judge_say(finding->wanted, "%" PRIu64 ": twice what it takes", 2 * sum->wanted);
	if (finding->level == DOCTOR_ERROR)
		judge_say(finding->why, "ibvcapd does not start, or refuses senders, without pages for its rings");
	else
		judge_say(finding->why, "over a restart the readers keep the old rings while the new ones are made");
	advise(sum, in_use + 2 * sum->wanted, finding);
}

/* Without a configuration: one pool with free pages is enough to start. */
static void judge_any(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	uint64_t total = 0, free_pages = 0;
	struct doctor_finding *finding;

	for (unsigned int i = 0; i < facts->n_pools; i++) {
		total += facts->pools[i].total_pages;
		free_pages += facts->pools[i].free_pages;
	}
	if (free_pages)
		return;
	finding = judge_add(findings, "hugepages");
	judge_say(finding->subject, "free hugepages");
	judge_say(finding->found, "%" PRIu64 " reserved, none free", total);
	judge_say(finding->wanted, "as many as the rings of the config need");
	judge_say(finding->why, "rings lie in hugepages unless their page_size is 4 KiB");
	advise(&(struct sum){.page_kib = 2048}, total + 512, finding);
	/* A running daemon may well hold all of them. */
	finding->level = total ? DOCTOR_WARNING : DOCTOR_ERROR;
}

/* A ring on another node than its device: each packet crosses between the two. */
static void judge_node(const struct doctor_facts *facts, const struct config_stream *stream,
		       struct doctor_findings *findings)
{
	const struct doctor_device *device = judge_find_device(facts, stream->interface);
	uint64_t page_kib = stream->page_bytes / KIB, here = 0, there = 0;
	struct doctor_finding *finding;

	if (!device || device->pci.node < 0 || page_kib == SMALL_KIB)
		return;
	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].page_kib == page_kib)
			*((int)facts->pools[i].node == device->pci.node ? &here : &there) +=
			    facts->pools[i].total_pages;
	finding = judge_add(findings, "numa");
	judge_say(finding->subject, "stream '%s': memory and %s", stream->name, device->name);
	judge_say(finding->found, "the device is on node %d, which has %" PRIu64 " pages of %" PRIu64 " MiB",
		  device->pci.node, here, page_kib / 1024);
	if (here * page_kib * KIB >= geometry_ring_bytes(stream) || !there)
		return;
	finding->level = DOCTOR_WARNING;
	judge_say(finding->wanted, "%" PRIu64 " there", geometry_ring_bytes(stream) / stream->page_bytes);
	judge_say(finding->why, "what is on another node crosses the link between the nodes with every packet");
	judge_say(finding->fix,
		  "echo %" PRIu64 " > /sys/devices/system/node/node%d/hugepages/hugepages-%" PRIu64 "kB/nr_hugepages",
		  2 * geometry_ring_bytes(stream) / stream->page_bytes, device->pci.node, page_kib);
}

void judge_memory(const struct doctor_facts *facts, struct doctor_findings *findings)
{
	static const uint64_t sizes_kib[] = {2048, 1048576};

	for (unsigned int i = 0; i < facts->n_pools; i++)
		if (facts->pools[i].total_pages)
			judge_pool(&facts->pools[i], findings);
	if (!facts->config)
		judge_any(facts, findings);
	for (unsigned int i = 0; facts->config && i < sizeof(sizes_kib) / sizeof(sizes_kib[0]); i++) {
		struct sum sum = sum_of(facts, sizes_kib[i]);

		if (sum.wanted)
			judge_wanted(facts, &sum, findings);
	}
	for (uint32_t i = 0; facts->config && i < facts->config->n_streams; i++)
		judge_node(facts, &facts->config->streams[i], findings);
}
