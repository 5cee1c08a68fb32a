// SPDX-License-Identifier: Apache-2.0
/* Names of the statuses of completions: those of enum ibv_wc_status without IBV_WC_. */
#ifndef SOFTHCA_DEVICE_STATUS_H
#define SOFTHCA_DEVICE_STATUS_H

#include "hw.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name of a syndrome (enum hw_syndrome), or its number in `number`. */
const char *status_name(uint8_t syndrome, char *number, size_t size);
/* What the device adds for its vendor; 0: no source says what a device gives (README, Queues). */
uint8_t status_vendor(enum hw_syndrome syndrome, bool responder);
/* The syndrome whose name has these `n` bytes; 0: there is none. */
uint8_t status_find(const char *name, size_t n);

#endif
