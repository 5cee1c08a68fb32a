// SPDX-License-Identifier: Apache-2.0
/*
 * How the facts are collected: from the configuration, from sysfs and /proc, and from the kernel, drivers and service
 * manager. Files are opened with ordinary calls, so softhca's emulated device looks like a real one. Declares
 * probe_*.c, read_*.c.
 */
#ifndef TOOLS_DOCTOR_READ_H
#define TOOLS_DOCTOR_READ_H

#include "tools/doctor/facts.h"

#define SYSTEM_UID_MAX 999 /* the last uid of system accounts, as systemd defines it */

/** Load the configuration as the daemon would. */
void doctor_read_config(const char *file, struct doctor_facts *facts);

/**
 * Find the daemon at the control socket of the configuration, after doctor_read_config(), and enter its network
 * namespace.
 */
void doctor_find_daemon(struct doctor_facts *facts);

/**
 * Read the machine's files, after doctor_find_daemon(). root stands before every path: "" for this machine, a directory
 * for a test. What cannot be read stays zero.
 */
void doctor_read(const char *root, struct doctor_facts *facts);

/** Ask the kernel, the service manager and the network drivers for what no file says, after doctor_read(). */
void doctor_ask(struct doctor_facts *facts);

/* ---- its parts ------------------------------------------------------------------------------------- */

void read_devices(const char *root, struct doctor_facts *facts);

/** The interfaces behind devices' ports and those of the configuration. After read_devices() and read_process(). */
void read_interfaces(const char *root, struct doctor_facts *facts);

/** The rights of the process that counts: the daemon, if it was found, or this one. */
void read_process(const char *root, const char *config_file, struct doctor_process *process);
void read_limits(const char *root, const struct doctor_process *process, struct doctor_limits *limits);

/** The processes that hold ring memory. Sees those of other users only as root with CAP_SYS_PTRACE. */
void read_holders(const char *root, struct doctor_facts *facts);

void ask_interface(struct doctor_interface *interface);
void ask_service(struct doctor_process *process);

/** Ask the program that keeps the system's clock. Takes 4 s at most. */
void ask_keeper(struct doctor_keeper *keeper);

/** Parse a line of `chronyc -c tracking`, which is changed. False: it is none. */
bool parse_chrony(char *line, struct doctor_keeper *keeper);

/** The same of the output of `timedatectl timesync-status`. */
bool parse_timesync(const char *text, struct doctor_keeper *keeper);

/** Parse the output of `systemctl show` for ibvcapd.service. No effect if a daemon runs. */
void parse_service(const char *properties, struct doctor_process *process);

/**
 * Probe each port that has an Ethernet interface, and store the result in facts. After doctor_ask(). A device that
 * another process has open is left alone: a second context can switch on the port's loopback of multicast.
 */
void doctor_probe_queues(struct doctor_facts *facts);

/** Ask each CUDA device how it would read a ring, which takes a context of each for some tenths of a second. */
void doctor_probe_cuda(struct doctor_facts *facts);

#endif
