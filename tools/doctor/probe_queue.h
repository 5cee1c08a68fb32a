// SPDX-License-Identifier: Apache-2.0
/* A receive queue and a flow rule, made on each device as the daemon makes them, and taken away again. */
#ifndef TOOLS_DOCTOR_PROBE_QUEUE_H
#define TOOLS_DOCTOR_PROBE_QUEUE_H

#include "tools/doctor/facts.h"

/**
 * Probe each port that has an Ethernet interface, and store the result in facts. After doctor_ask(). A device that
 * another process has open is left alone: a second context can switch on the port's loopback of multicast.
 */
void doctor_probe_queues(struct doctor_facts *facts);

#endif
