// SPDX-License-Identifier: Apache-2.0
/*
 * The words in comments of a recording, in its index and in the names of its files. The recorder writes them; `info`,
 * `extract` and `replay` look for them.
 */
#ifndef LIB_RECORDING_RECORDING_WORDS_H
#define LIB_RECORDING_RECORDING_WORDS_H

/* In the description of an interface: the file has one flow of the stream. Its number follows. */
#define RECORDING_ONLY_FLOW "only flow "
/* Likewise: the file has the packets that the interface's filter takes, of the flows that follow. */
#define RECORDING_FILTERED ", filtered, of the flows: "
/* In the comment of an interface: where the packets have their own number. A JSON object follows. */
#define RECORDING_SEQUENCE "; sequence "

/* How the closing comment of an extract begins. */
#define RECORDING_EXTRACTED "extracted by ibvcap"

/* How an index begins: the words, and its version. */
#define RECORDING_INDEX_WORDS "# ibvcap index "
#define RECORDING_INDEX_HEAD  RECORDING_INDEX_WORDS "2:"
/* Its last line: which file it is the index of. Two numbers of struct recording_stamp follow. */
#define RECORDING_INDEX_END "# end "

/* Behind the name of a file that is being written. */
#define RECORDING_PART ".part"
/* Behind the name of a file: what belongs to it. META, JSON and HEADERS: to rows of --raw. */
#define RECORDING_INDEX   ".index"
#define RECORDING_META    ".meta"
#define RECORDING_JSON    ".json"
#define RECORDING_HEADERS ".headers"

#endif
