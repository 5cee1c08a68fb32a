// SPDX-License-Identifier: Apache-2.0
/* Look-ups in the facts that several checks need. */
#include "tools/doctor/facts.h"

#include <string.h>

const struct doctor_interface *facts_find_interface(const struct doctor_facts *facts, const char *name)
{
	for (unsigned int i = 0; i < facts->n_interfaces; i++)
		if (facts->interfaces[i].exists && strcmp(facts->interfaces[i].name, name) == 0)
			return &facts->interfaces[i];
	return NULL;
}

const struct doctor_device *facts_find_device(const struct doctor_facts *facts, const char *interface)
{
	for (unsigned int i = 0; i < facts->n_devices; i++)
		for (unsigned int j = 0; j < facts->devices[i].n_ports; j++)
			if (strcmp(facts->devices[i].ports[j].netdev, interface) == 0)
				return &facts->devices[i];
	return NULL;
}
