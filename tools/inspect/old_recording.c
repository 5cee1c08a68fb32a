// SPDX-License-Identifier: Apache-2.0
/* Reads losses out of the sentences of the first recorders, whose files say them in no other way. */
#include "tools/inspect/inspect_sum.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define NO_BUFFER " packets lost (no_buffer)" /* of a packet; the number is in front */
#define RESTARTED "was restarted"             /* likewise */
#define RESTARTS  "; restarts "               /* of statistics; the number follows */

/* The sum of what a comment names: several batches may have lost packets before one row. */
static uint64_t no_buffer_of(const struct pcapng_text *comment)
{
	const char *at = comment->at, *end, *found;
	uint64_t sum = 0;

	if (!comment->bytes)
		return 0;
	end = at + comment->bytes;
	while ((found = memmem(at, (size_t)(end - at), NO_BUFFER, strlen(NO_BUFFER)))) {
		const char *digits = found;
		uint64_t n = 0;

		while (digits > at && isdigit((unsigned char)digits[-1]))
			digits--;
		for (; digits < found; digits++)
			n = 10 * n + (uint64_t)(*digits - '0');
		sum += n;
		at = found + strlen(NO_BUFFER);
	}
	return sum;
}

void old_recording_losses(const struct pcapng_text *comment, struct recording_losses *losses)
{
	*losses = (struct recording_losses){.n = {[RECORDING_CAUSE_NO_BUFFER] = no_buffer_of(comment)}};
	losses->n[RECORDING_CAUSE_RESTARTS] =
		comment->bytes && memmem(comment->at, comment->bytes, RESTARTED, strlen(RESTARTED));
}

uint64_t old_recording_restarts(const char *sum)
{
	const char *restarts = strstr(sum, RESTARTS);

	return restarts ? strtoull(restarts + strlen(RESTARTS), NULL, 10) : 0;
}
