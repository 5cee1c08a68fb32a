// SPDX-License-Identifier: Apache-2.0
/* A status as metrics for Prometheus: each number of the table of a status, and whether the daemon answers. Pure. */
#ifndef TOOLS_STATUS_METRICS_H
#define TOOLS_STATUS_METRICS_H

#include "tools/status/status_view.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum metrics_format {
	METRICS_TEXT, /* Prometheus' own, 0.0.4: node_exporter and promtool read no other */
	METRICS_OPENMETRICS,
};

struct metrics_options {
	const char *socket;
	const char *listen; /* NULL: print once */
	bool openmetrics;
};

struct metrics_health {
	bool is_up;      /* the daemon answered in time */
	uint64_t age_ns; /* since its last answer; before the first one, since the caller began to ask */
};

/** Print all metrics. A view that is all zero has no samples but those of the health. */
void metrics_print(FILE *to, const struct status_view *view, struct metrics_health health, enum metrics_format format);

#endif
