// SPDX-License-Identifier: Apache-2.0
/* The specs of a flow, in words: verbs_flow.c has the list. */
#ifndef TESTS_VERBS_FLOW_WORDS_H
#define TESTS_VERBS_FLOW_WORDS_H

#include "verbs_common.h"

/* Adds the spec of this name. NULL: there is none. */
struct ibv_flow_spec *flow_add_word(struct flow_rule *f, const char *name);

/* Sets a field of the spec: value or value/mask. False if the spec, which may be NULL, has no such field. */
bool flow_set_field(struct ibv_flow_spec *s, const char *name, char *value);

#endif
