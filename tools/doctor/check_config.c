// SPDX-License-Identifier: Apache-2.0
/* The configuration file: does the daemon take it, on what backends, and has each device queues as deep as it says? */
#include "tools/doctor/checks.h"

#include <string.h>

/* Each time is that of the file that was written last: of those that the daemon read, and of those that are there. */
static bool is_config_newer(const struct doctor_facts *facts)
{
	return facts->process.has_config && facts->process.config_written_ns &&
	       facts->process.config_written_ns != facts->config->written_ns;
}

static void report_newer_config(const struct doctor_facts *facts, struct finding *finding)
{
	bool is_usual = strcmp(facts->control.path, IBVCAP_CONTROL_SOCKET) == 0;

	finding_append(finding->found, "; it, or a file that it includes, was written after that ibvcapd had read it");
	finding_fail(finding, FINDING_WARNING, "ibvcapd runs with the file as it was before",
	             "an ibvcapd that has read the file as it is");
	finding_fix(finding, FIX_LASTS, "ibvcap reload%s%s   # or: systemctl reload ibvcapd", is_usual ? "" : " -s ",
	            is_usual ? "" : facts->control.path);
}

static void check_config_file(const struct doctor_facts *facts, struct findings *findings)
{
	struct finding *finding = finding_add(findings, "config", "%s", facts->config_file);
	bool is_refused = !facts->config || facts->trial.is_refused;

	if (!is_refused && !*facts->trial.said) {
		finding_write(finding->found, "valid: %u streams, %u channels%s", facts->config->n_streams,
		              facts->config->n_channels,
		              facts->process.has_config
		                      ? "; its warnings are in the log of the ibvcapd that runs with it"
		                      : "");
		if (is_config_newer(facts))
			report_newer_config(facts, finding);
		return;
	}
	finding_write(finding->found, "%s", facts->config ? facts->trial.said : facts->config_failure.text);
	finding->fix_survives_reboot = true;
	if (!facts->config && facts->config_failure.exit_code == EX_NOINPUT) {
		finding_fail(finding, FINDING_ERROR, "without it the needs of streams and channels cannot be checked",
		             "a file that you and ibvcapd can read");
		finding_write(finding->fix, "editor %s   # ibvcapd.conf(5); another file: ibvcap doctor --config FILE",
		              facts->config_file);
		finding->fix_is_edit = true;
		return;
	}
	finding_fail(finding, is_refused ? FINDING_ERROR : FINDING_WARNING,
	             is_refused ? "ibvcapd does not start with this file"
	                        : "ibvcapd takes this file, and what it warns of does not work",
	             "a file that ibvcapd --check-config accepts");
	finding_write(finding->fix, "ibvcapd --check-config%s%s --config %s   # until it reports nothing",
	              facts->user ? " --user " : "", facts->user ? facts->user : "", facts->config_file);
	finding->fix_is_edit = true;
}

static void fix_choice(const struct backend_choice *choice, struct finding *finding)
{
	finding_write(finding->fix, "%s", choice->command);
	if (!*choice->command)
		finding_write(finding->advice, "%s", choice->better);
	finding->fix_survives_reboot = true;
}

static void report_chosen_backend(const struct doctor_facts *facts, const struct doctor_interface *interface,
                                  struct finding *finding)
{
	struct backend_choice choice;

	facts_choose_backend(facts, interface, &choice);
	finding_write(finding->found, "backend %s, because %s", choice.backend, choice.why);
	if (!choice.is_second_best) {
		if (*choice.better)
			finding_append(finding->found, "; %s%s%s", choice.better, *choice.command ? ": " : "",
			               choice.command);
		return;
	}
	finding_fail(finding, FINDING_WARNING, "fewer packets a second, and more CPU time for each",
	             "the fastest backend of the interface");
	fix_choice(&choice, finding);
}

/* A running daemon has taken its resources already, and has given up the rights to take more. */
static void report_backend(const struct doctor_facts *facts, const struct doctor_service *service,
                           const struct doctor_interface *interface, struct finding *finding)
{
	const struct backend_choice_facts known = facts_for_choice(facts, interface);
	struct backend_choice choice = {0};

	if (service->backend == CONFIG_BACKEND_AUTO) {
		report_chosen_backend(facts, interface, finding);
		return;
	}
	finding_write(finding->found, "backend \"%s\"", config_backend_name(service->backend));
	if (service->backend != CONFIG_BACKEND_XDP || facts->process.kind == DOCTOR_DAEMON ||
	    !backend_choice_lacks_xdp(&known, &choice))
		return;
	finding_write(finding->found, "backend \"xdp\", but %s", choice.why);
	finding_fail(finding, FINDING_ERROR, "ibvcapd does not start", "what xdp needs, or backend = \"auto\"");
	if (!*choice.better) {
		finding_fix_by_edit(finding, service->file, service->line, "backend = \"auto\"");
		return;
	}
	fix_choice(&choice, finding);
}

static struct finding *add_service_finding(const struct doctor_service *service, struct findings *findings)
{
	return finding_add(findings, "config", "%s '%s' on %s", service->kind, service->name, service->interface);
}

/* For a file with which a daemon runs. For another file ibvcapd --check-config names the interface. */
static void report_lacking_interface(const struct doctor_facts *facts, const struct doctor_service *service,
                                     struct finding *finding)
{
	finding_write(finding->found, "there is no interface %s in %s network namespace", service->interface,
	              facts->network == DOCTOR_NETWORK_ENTERED ? "the daemon's" : "this");
	finding_fail(finding, FINDING_ERROR, "nothing is captured or sent there until it is back under this name",
	             "an interface of this machine");
	finding_write(finding->fix, "ip -br link   # lists the interfaces; then correct %s:%d", service->file,
	              service->line);
	finding->fix_is_edit = true;
}

/* How many slots its queue may have; 0: the backend has no use for an RDMA device, or the device was not asked. */
static uint32_t find_slots_max(const struct doctor_facts *facts, const struct doctor_service *service)
{
	const struct doctor_device *device = facts_find_device(facts, service->interface);

	if (!device || facts_find_backend(facts, service->interface, service->backend) != CONFIG_BACKEND_VERBS)
		return 0;
	return service->stream ? device->probe.max_queue_slots : device->probe.max_send_slots;
}

static void check_config_slots(const struct doctor_facts *facts, const struct doctor_service *service,
                               struct findings *findings)
{
	uint32_t slots_max = find_slots_max(facts, service);
	struct finding *finding;

	if (!slots_max)
		return;
	finding = finding_add(findings, "ring_size", "%s '%s' on %s", service->kind, service->name, service->interface);
	finding_write(finding->found, "%s %u, the device takes up to %u", service->slots_key, service->slots,
	              slots_max);
	if (service->slots <= slots_max)
		return;
	finding_fail(finding, FINDING_ERROR, "ibvcapd refuses it: the device has no deeper queue", "at most %u",
	             slots_max);
	finding_fix_by_edit(finding, service->file, service->line, "%s = %u", service->slots_key, slots_max);
}

/* As stream_check_offloads() refuses them. */
static void check_config_offloads(const struct doctor_facts *facts, const struct doctor_service *service,
                                  struct findings *findings)
{
	const struct config_stream *stream = service->stream;
	const struct doctor_device *device = facts_find_device(facts, service->interface);
	struct finding *finding;

	if (!stream || !(stream->delay_drop || stream->moderation_us) || !find_slots_max(facts, service))
		return;
	finding = finding_add(findings, "offloads", "stream '%s' on %s", service->name, service->interface);
	finding_write(finding->found, "moderation_us = %u of at most %u; delay_drop = %s, the device has %s",
	              stream->moderation_us, device->probe.max_moderation_us, stream->delay_drop ? "true" : "false",
	              device->probe.delay_drop ? "it" : "none");
	if (stream->moderation_us > device->probe.max_moderation_us) {
		finding_fail(finding, FINDING_ERROR, "ibvcapd refuses it", "at most %u",
		             device->probe.max_moderation_us);
		finding_fix_by_edit(finding, service->file, service->line, "moderation_us = %u",
		                    device->probe.max_moderation_us);
	} else if (stream->delay_drop && !device->probe.delay_drop) {
		finding_fail(finding, FINDING_ERROR, "ibvcapd refuses it", "delay_drop = false");
		finding_fix_by_edit(finding, service->file, service->line, "delay_drop = false");
	}
}

void check_config(const struct doctor_facts *facts, struct findings *findings)
{
	const bool knows_lacks = facts->process.has_config && facts->network != DOCTOR_NETWORK_HIDDEN;
	const struct doctor_interface *interface;
	struct doctor_service service;

	check_config_file(facts, findings);
	for (uint32_t i = 0; facts_service(facts, i, &service); i++) {
		interface = facts_find_interface(facts, service.interface);
		if (interface)
			report_backend(facts, &service, interface, add_service_finding(&service, findings));
		else if (knows_lacks)
			report_lacking_interface(facts, &service, add_service_finding(&service, findings));
		check_config_slots(facts, &service, findings);
		check_config_offloads(facts, &service, findings);
	}
}
