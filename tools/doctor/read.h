// SPDX-License-Identifier: Apache-2.0
/* The parts of doctor_read() and doctor_ask(). Inside the doctor only. */
#ifndef TOOLS_DOCTOR_READ_H
#define TOOLS_DOCTOR_READ_H

#include "tools/doctor/doctor.h"

void read_devices(const char *root, struct doctor_facts *facts);

/** Those behind devices' ports and those that the configuration names. After the devices and the process. */
void read_interfaces(const char *root, struct doctor_facts *facts);

void read_cpus(const char *root, struct doctor_cpus *cpus);

/** A daemon with that configuration before any other. */
void read_process(const char *root, const char *config_file, struct doctor_process *process);
void read_limits(const char *root, const struct doctor_process *process, struct doctor_limits *limits);

void ask_interface(struct doctor_interface *interface);
void ask_service(const char *config_file, struct doctor_process *process);

#endif
