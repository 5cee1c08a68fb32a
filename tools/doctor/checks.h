// SPDX-License-Identifier: Apache-2.0
/*
 * The checks of `ibvcap doctor`. Each one is pure: it reads facts and adds findings, and asks no kernel or device.
 * Declares check_*.c, print.c.
 */
#ifndef TOOLS_DOCTOR_CHECKS_H
#define TOOLS_DOCTOR_CHECKS_H

#include "tools/doctor/facts.h"
#include "tools/doctor/finding.h"

/** Run all checks. Replaces what findings contained. */
void doctor_check(const struct doctor_facts *facts, struct findings *findings);

void check_config(const struct doctor_facts *facts, struct findings *findings);
void check_devices(const struct doctor_facts *facts, struct findings *findings);
void check_process(const struct doctor_facts *facts, struct findings *findings);
void check_memory(const struct doctor_facts *facts, struct findings *findings);
void check_hugepages(const struct doctor_facts *facts, struct findings *findings);
void check_holders(const struct doctor_facts *facts, struct findings *findings);
void check_cuda(const struct doctor_facts *facts, struct findings *findings);
void check_pci(const struct doctor_facts *facts, struct findings *findings);
void check_netdevs(const struct doctor_facts *facts, struct findings *findings);
void check_cpus(const struct doctor_facts *facts, struct findings *findings);
void check_clocks(const struct doctor_facts *facts, struct findings *findings);

void doctor_print_json(const struct doctor_facts *facts, const struct findings *findings);
void doctor_print_text(const struct findings *findings);

#endif
