// SPDX-License-Identifier: Apache-2.0
/* Texts as JSON, which is UTF-8: names of files, quotes of the configuration and comments in a file may be none. */
#ifndef JSON_TEXT_TO_JSON_H
#define JSON_TEXT_TO_JSON_H

#include <jansson.h>

/** The text as a JSON string. In a text that is not UTF-8, each byte outside ASCII becomes '?'. NULL: out of memory. */
json_t *text_to_json(const char *text);

#endif
