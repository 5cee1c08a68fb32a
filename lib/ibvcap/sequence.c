// SPDX-License-Identifier: Apache-2.0
/*
 * Checks a description of the packets' own number. The daemon checks what the configuration says, and the library
 * checks what it finds in memory that another process wrote, or gets from the program.
 */
#include "lib/ibvcap/sequence.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define CYCLE_MIN   4
#define CYCLE_MAX   (UINT64_C(1) << 62) /* of two fields together; positions of the window never overflow */
#define JUMP_MAX    (UINT64_C(1) << 32)
#define WINDOW_MIN  64
#define WINDOW_MAX  65536
#define COUNT_CYCLE (UINT64_C(1) << 20) /* well above the most numbers that a packet takes */

__attribute__((format(printf, 3, 4))) static bool sequence_refuse(struct sequence_fault *fault, const char *key,
                                                                  const char *format, ...)
{
	va_list arguments;

	fault->key = key;
	va_start(arguments, format);
	vsnprintf(fault->text, sizeof(fault->text), format, arguments);
	va_end(arguments);
	return false;
}

/* The values that a number of these bits takes if it grows by step; 0: 2^64. */
static uint64_t sequence_steps(uint32_t bits, uint64_t step)
{
	if (bits < 64)
		return ((UINT64_C(1) << bits) - 1) / step + 1;
	return step == 1 ? 0 : UINT64_MAX / step + 1;
}

uint64_t sequence_lower_cycle(const struct ibvcap_sequence *sequence)
{
	if (sequence->modulus)
		return (sequence->modulus - 1) / sequence->step + 1;
	return sequence_steps(sequence_bits(sequence), sequence->step);
}

uint64_t sequence_cycle(const struct ibvcap_sequence *sequence)
{
	uint64_t lower = sequence_lower_cycle(sequence);

	if (!sequence->upper_bytes)
		return lower;
	return lower * sequence_steps(sequence_upper_bits(sequence), sequence->upper_step);
}

static bool sequence_check_number(const struct ibvcap_sequence *sequence, struct sequence_fault *fault)
{
	uint32_t bits = sequence_bits(sequence);
	uint64_t top = bits < 64 ? UINT64_C(1) << bits : 0; /* 0: 2^64 */

	if (sequence->bytes < 1 || sequence->bytes > 8)
		return sequence_refuse(fault, "bytes", "bytes = %u: accepted is 1 to 8", sequence->bytes);
	if (sequence->shift >= 8 * sequence->bytes)
		return sequence_refuse(fault, "shift", "shift = %u of a field of %u bits: accepted is less",
		                       sequence->shift, 8u * sequence->bytes);
	if (bits < 1 || bits + sequence->shift > 8u * sequence->bytes)
		return sequence_refuse(fault, "bits",
		                       "bits = %u and shift = %u of a field of %u bits: accepted is %u "
		                       "bits at most",
		                       bits, sequence->shift, 8u * sequence->bytes,
		                       8u * sequence->bytes - sequence->shift);
	if (sequence->step < 1)
		return sequence_refuse(fault, "step", "step = 0: accepted is 1 or more");
	if (top && sequence->modulus > top)
		return sequence_refuse(fault, "modulus",
		                       "modulus = %" PRIu64 " of a number of %u bits: accepted is "
		                       "%" PRIu64 " at most",
		                       sequence->modulus, bits, top);
	if (!sequence->upper_bytes && (sequence->modulus ? sequence->modulus : top) % sequence->step)
		return sequence_refuse(fault, "step",
		                       "step = %u: accepted is a divisor of the modulus, %" PRIu64 ", "
		                       "since otherwise other numbers would follow when the number begins again",
		                       sequence->step, sequence->modulus ? sequence->modulus : top);
	return true;
}

static bool sequence_check_upper(const struct ibvcap_sequence *sequence, struct sequence_fault *fault)
{
	uint32_t bits = sequence_upper_bits(sequence);
	uint64_t cycle, upper;

	if (sequence->upper_bytes > 8)
		return sequence_refuse(fault, "upper_bytes", "upper_bytes = %u: accepted is 0 to 8",
		                       sequence->upper_bytes);
	if (!sequence->upper_bytes)
		return true;
	if (bits > 8u * sequence->upper_bytes)
		return sequence_refuse(fault, "upper_bits", "upper_bits = %u of a field of %u bits: accepted is less",
		                       bits, 8u * sequence->upper_bytes);
	if (sequence->upper_step < 1)
		return sequence_refuse(fault, "upper_step", "upper_step = 0: accepted is 1 or more");
	upper = sequence_steps(bits, sequence->upper_step);
	if (upper == 0 || sequence_lower_cycle(sequence) == 0 ||
	    __builtin_mul_overflow(sequence_lower_cycle(sequence), upper, &cycle) || cycle > CYCLE_MAX)
		return sequence_refuse(fault, "upper_bits",
		                       "the number and the upper field together have more than "
		                       "2^62 numbers: accepted are fewer upper_bits, or a modulus");
	return true;
}

bool sequence_check(const struct ibvcap_sequence *sequence, struct sequence_fault *fault)
{
	fault->key = NULL;
	if (!sequence_check_number(sequence, fault) || !sequence_check_upper(sequence, fault))
		return false;
	if (sequence_cycle(sequence) && sequence_cycle(sequence) < CYCLE_MIN)
		return sequence_refuse(fault, "bits", "the number has less than %d values: accepted are more",
		                       CYCLE_MIN);
	if (sequence->count_bytes > 2)
		return sequence_refuse(fault, "count_bytes", "count_bytes = %u: accepted is 0 to 2",
		                       sequence->count_bytes);
	if (sequence->count_bytes && (sequence->step != 1 || sequence->upper_bytes))
		return sequence_refuse(fault, "count_bytes",
		                       "count_bytes with step or upper_bytes: accepted is one of them");
	if (sequence->count_bytes && sequence_cycle(sequence) && sequence_cycle(sequence) < COUNT_CYCLE)
		return sequence_refuse(fault, "count_bytes",
		                       "count_bytes with a number of less than 20 bits: accepted "
		                       "is a number of 20 bits or more");
	if (sequence->frame_bytes > 8)
		return sequence_refuse(fault, "frame_bytes", "frame_bytes = %u: accepted is 0 to 8",
		                       sequence->frame_bytes);
	if (sequence_frame_bits(sequence) > 8u * sequence->frame_bytes)
		return sequence_refuse(fault, "frame_bits", "frame_bits = %u of a field of %u bits: accepted is less",
		                       sequence->frame_bits, 8u * sequence->frame_bytes);
	if (sequence->source > IBVCAP_SOURCE_NONE)
		return sequence_refuse(fault, "source", "source %u is no value of enum ibvcap_source",
		                       sequence->source);
	if (sequence->source_bytes > IBVCAP_SOURCE_BYTES_MAX)
		return sequence_refuse(fault, "source_bytes", "source_bytes = %u: accepted is 0 to %d",
		                       sequence->source_bytes, IBVCAP_SOURCE_BYTES_MAX);
	if (sequence->window < WINDOW_MIN || sequence->window > WINDOW_MAX ||
	    (sequence->window & (sequence->window - 1)))
		return sequence_refuse(fault, "window", "window = %u: accepted is a power of two from %d to %d",
		                       sequence->window, WINDOW_MIN, WINDOW_MAX);
	if (sequence->jump < 1 || sequence->jump > JUMP_MAX)
		return sequence_refuse(fault, "jump", "jump = %" PRIu64 ": accepted is 1 to 2^32", sequence->jump);
	return true;
}
