// SPDX-License-Identifier: Apache-2.0
/* Words about the ways in which a device reads a ring. */
#include "lib/cuda/why.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *ibvcap_cuda_way_word(enum ibvcap_cuda_way way)
{
	switch (way) {
	case IBVCAP_CUDA_AUTO:
		return "auto";
	case IBVCAP_CUDA_IN_PLACE:
		return "in place";
	case IBVCAP_CUDA_PAGEABLE:
		return "pageable";
	case IBVCAP_CUDA_STAGED:
		return "staged";
	}
	return NULL;
}

void cuda_why_add(struct cuda_why *why, enum ibvcap_cuda_way way, const char *format, ...)
{
	size_t length = strlen(why->text);
	va_list arguments;

	snprintf(why->text + length, sizeof(why->text) - length, "%s%s: ", length ? "; " : "",
	         ibvcap_cuda_way_word(way));
	length = strlen(why->text);
	va_start(arguments, format);
	vsnprintf(why->text + length, sizeof(why->text) - length, format, arguments);
	va_end(arguments);
}
