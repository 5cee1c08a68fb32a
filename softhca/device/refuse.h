// SPDX-License-Identifier: Apache-2.0
/* Why a command is refused: kept for the thread, and told to the user where all commands end (uverbs/command.h). */
#ifndef SOFTHCA_DEVICE_REFUSE_H
#define SOFTHCA_DEVICE_REFUSE_H

struct refusal {
	const char *attribute, *rule, *source; /* NULL: not known */
};

/* Notes why a command is refused. The value is -error. source: the text that has the rule, as in the README's table. */
#define refuse(error, attribute, rule, source) (refusal_note((attribute), (rule), (source)), -(error))
void refusal_note(const char *attribute, const char *rule, const char *source);
/* The last reason that this thread noted; it is forgotten then. */
struct refusal refusal_take(void);

#endif
