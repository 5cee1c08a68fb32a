// SPDX-License-Identifier: Apache-2.0
/* The parts of doctor_judge(). Inside the doctor only. Each adds findings; all are pure. */
#ifndef TOOLS_DOCTOR_JUDGE_H
#define TOOLS_DOCTOR_JUDGE_H

#include "tools/doctor/doctor.h"

/** A new finding, ok so far. */
struct doctor_finding *judge_add(struct doctor_findings *findings, const char *check);

void judge_say(char text[DOCTOR_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The same behind what the text has already. */
void judge_append(char text[DOCTOR_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

/** "0-3,8"; returns text. */
const char *judge_format_cpus(const cpu_set_t *cpus, char text[DOCTOR_TEXT_BYTES]);

/** The interface of that name; NULL: there is none of it. */
const struct doctor_interface *judge_find_interface(const struct doctor_facts *facts, const char *name);

/** The device that has it behind a port; NULL: none. */
const struct doctor_device *judge_find_device(const struct doctor_facts *facts, const char *interface);

bool judge_has(const struct doctor_process *process, unsigned int capability);

void judge_config(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_devices(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_process(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_memory(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_pci(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_interfaces(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_cpus(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_clocks(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_limits(const struct doctor_facts *facts, struct doctor_findings *findings);
void judge_kernel(const struct doctor_facts *facts, struct doctor_findings *findings);

#endif
