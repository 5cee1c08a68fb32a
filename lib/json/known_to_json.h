// SPDX-License-Identifier: Apache-2.0
/* Makes JSON of a number that may not be known. */
#ifndef LIB_JSON_KNOWN_TO_JSON_H
#define LIB_JSON_KNOWN_TO_JSON_H

#include <jansson.h>
#include <stdint.h>

/** IBVCAP_NOT_KNOWN becomes null. */
static inline json_t *known_to_json(uint64_t number)
{
	return number == UINT64_MAX ? json_null() : json_integer((json_int_t)number);
}

#endif
