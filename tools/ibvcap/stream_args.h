// SPDX-License-Identifier: Apache-2.0
/* A stream as words of a command line: name=a flows.port=7502. Which keys there are only the daemon knows. */
#ifndef TOOLS_IBVCAP_STREAM_ARGS_H
#define TOOLS_IBVCAP_STREAM_ARGS_H

#include <stdbool.h>

/** KEY=VALUE or LIST.KEY=VALUE; a file of such a name is "./a=b". */
bool stream_args_are_keys(const char *word);

/**
 * As a configuration file, to be freed: the word with number i, from 1, is in line i. A value is what the file would have
 * where it is an integer, true, false, or begins with a quote or bracket; else a string. NULL: a word is no KEY=VALUE.
 */
char *stream_args_text(const char *const *words, int n_words);

#endif
