// SPDX-License-Identifier: Apache-2.0
/* A stream as arguments of a command line: name=a flows.port=7502. Only the daemon knows which keys exist. */
#ifndef TOOLS_RECONFIGURE_STREAM_ARGS_H
#define TOOLS_RECONFIGURE_STREAM_ARGS_H

#include <stdbool.h>

/** Has the word the form KEY=VALUE or LIST.KEY=VALUE? The user can name such a file "./a=b". */
bool stream_args_are_keys(const char *word);

/**
 * The words as the text of a configuration file, which the caller frees. Word number i, counted from 1, is line i, so
 * that the daemon's error messages name the word. An integer, true, false and a value that begins with a quote or
 * bracket are copied; other values become strings. NULL if a word has no KEY=VALUE form.
 */
char *stream_args_text(const char *const *words, int n_words);

#endif
