// SPDX-License-Identifier: Apache-2.0
/* Prints findings as text or as JSON, and devices as JSON. */
#include "tools/doctor/checks.h"

#include "tools/common/terminal.h"
#include "lib/json/text_to_json.h"

#include <jansson.h>
#include <stdio.h>

#define SCHEMA_VERSION 1

static const char *const level_names[] = {"ok", "warning", "error"};

static unsigned int count_findings(const struct findings *findings, enum finding_level level)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < findings->n; i++)
		n += findings->entries[i].level == level;
	return n;
}

static json_t *devices_to_json(const struct doctor_facts *facts)
{
	json_t *devices = json_array(), *ports;

	for (unsigned int i = 0; i < facts->n_devices; i++) {
		const struct doctor_device *device = &facts->devices[i];

		ports = json_array();
		for (unsigned int j = 0; j < device->n_ports; j++) {
			const struct doctor_port *port = &device->ports[j];
			const struct doctor_interface *interface = facts_find_interface(facts, port->netdev);

			json_array_append_new(
				ports, json_pack("{s:i, s:s, s:s, s:s, s:s, s:i}", "port", (int)port->number, "state",
			                         port->state, "link_layer", port->link_layer, "rate", port->rate,
			                         "netdev", port->netdev, "mtu", interface ? (int)interface->mtu : 0));
		}
		json_array_append_new(devices, json_pack("{s:s, s:s, s:s, s:i, s:o}", "name", device->name, "uverbs",
		                                         device->uverbs, "pci", device->pci.address, "numa_node",
		                                         device->pci.node, "ports", ports));
	}
	return devices;
}

static json_t *keeper_to_json(const struct doctor_keeper *keeper)
{
	if (!keeper->program)
		return json_null();
	return json_pack("{s:s, s:b, s:o, s:I, s:I, s:I}", "program", keeper->program, "has_reference",
	                 keeper->has_reference, "reference", text_to_json(keeper->reference), "stratum",
	                 (json_int_t)keeper->stratum, "ahead_ns", (json_int_t)keeper->ahead_ns, "bound_ns",
	                 (json_int_t)keeper->bound_ns);
}

static json_t *finding_to_json(const struct finding *finding)
{
	json_t *object =
		json_pack("{s:s, s:s, s:o, s:o}", "check", finding->check, "level", level_names[finding->level],
	                  "subject", text_to_json(finding->subject), "found", text_to_json(finding->found));

	if (finding->level != FINDING_OK)
		json_object_update_new(object,
		                       json_pack("{s:o, s:o, s:o, s:o, s:b}", "wanted", text_to_json(finding->wanted),
		                                 "why", text_to_json(finding->why), "fix", text_to_json(finding->fix),
		                                 "advice", text_to_json(finding->advice), "fix_survives_reboot",
		                                 finding->fix_survives_reboot));
	return object;
}

void doctor_print_json(const struct doctor_facts *facts, const struct findings *findings)
{
	json_t *checks = json_array(), *all;

	for (unsigned int i = 0; i < findings->n; i++)
		json_array_append_new(checks, finding_to_json(&findings->entries[i]));
	all = json_pack("{s:i, s:i, s:i, s:o, s:o, s:o}", "schema_version", SCHEMA_VERSION, "errors",
	                (int)count_findings(findings, FINDING_ERROR), "warnings",
	                (int)count_findings(findings, FINDING_WARNING), "checks", checks, "devices",
	                devices_to_json(facts), "clock_keeper", keeper_to_json(&facts->keeper));
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
}

static void print_finding(const struct finding *finding)
{
	static const enum terminal_colour colours[] = {TERMINAL_GREEN, TERMINAL_YELLOW, TERMINAL_RED};

	terminal_print(stdout, colours[finding->level], "%-8s", level_names[finding->level]);
	printf(" %-17s %s: %s\n", finding->check, finding->subject, finding->found);
	if (finding->level == FINDING_OK)
		return;
	printf("         wanted: %s\n", finding->wanted);
	printf("         why:    %s\n", finding->why);
	printf("         %s %s\n",
	       *finding->fix ? "fix:   " : "advice:", *finding->fix ? finding->fix : finding->advice);
	if (!finding->fix_is_edit)
		printf("                 (%s a reboot)\n",
		       finding->fix_survives_reboot ? "survives" : "does not survive");
}

static bool is_holder_at_ok(const struct finding *finding)
{
	return finding->holder && finding->level == FINDING_OK;
}

/* One line for all processes that hold ring memory and need not end: the first of them, or their pids. */
static void print_holders(const struct findings *findings)
{
	struct finding all = {.level = FINDING_OK}, first;
	unsigned int n = 0;

	for (unsigned int i = 0; i < findings->n; i++) {
		if (!is_holder_at_ok(&findings->entries[i]))
			continue;
		if (n++ == 0)
			first = findings->entries[i];
		finding_append(all.found, "%s%d", n > 1 ? ", " : "pids ", (int)findings->entries[i].holder);
	}
	if (n == 0)
		return;
	if (n == 1) {
		print_finding(&first);
		return;
	}
	all.check = first.check;
	finding_write(all.subject, "%u processes hold ring memory, none of rings that are known to have ended", n);
	finding_append(all.found, " (--json: the name and the amount of each)");
	print_finding(&all);
}

void doctor_print_text(const struct findings *findings)
{
	for (unsigned int i = 0; i < findings->n; i++)
		if (!is_holder_at_ok(&findings->entries[i]))
			print_finding(&findings->entries[i]);
	print_holders(findings);
	printf("\nerrors: %u, warnings: %u\n", count_findings(findings, FINDING_ERROR),
	       count_findings(findings, FINDING_WARNING));
}
