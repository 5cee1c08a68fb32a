// SPDX-License-Identifier: Apache-2.0
/*
 * Shared by `ibvcap reload` and `ibvcap stream`: a request that changes the running daemon's configuration. Declares
 * stream_args.c.
 */
#ifndef TOOLS_RECONFIGURE_RECONFIGURE_H
#define TOOLS_RECONFIGURE_RECONFIGURE_H

#include <ibvcap/ibvcap.h>
#include <stdbool.h>

/** Send the request, wait for the answer, and print it. name and text as for ibvcap_reconfigure(). The exit code. */
int reconfigure_daemon(const char *command, const char *socket, enum ibvcap_reconfigure what, const char *name,
                       const char *text);

/* ---- a stream as arguments of a command line, whose keys only the daemon knows ------------------- */

/** Has the word the form KEY=VALUE or LIST.KEY=VALUE? The user can name such a file "./a=b". */
bool stream_args_are_keys(const char *word);

/**
 * The words as the text of a configuration file, which the caller frees. Word number i, counted from 1, is line i, so
 * that the daemon's error messages name the word. An integer, true, false and a value that begins with a quote or
 * bracket are copied; other values become strings. NULL if a word has no KEY=VALUE form.
 */
char *stream_args_text(const char *const *words, int n_words);

#endif
