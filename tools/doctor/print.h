// SPDX-License-Identifier: Apache-2.0
/* The report of `ibvcap doctor` on standard output. */
#ifndef TOOLS_DOCTOR_PRINT_H
#define TOOLS_DOCTOR_PRINT_H

#include "tools/doctor/facts.h"
#include "tools/doctor/finding.h"

void doctor_print_json(const struct doctor_facts *facts, const struct findings *findings);
void doctor_print_text(const struct doctor_facts *facts, const struct findings *findings);

#endif
