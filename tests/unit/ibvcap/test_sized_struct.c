// SPDX-License-Identifier: Apache-2.0
/* Structs of the API that begin with their size, between a program and a library of different versions. */
#include "lib/ibvcap/client/sized_struct.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <ibvcap/ibvcap.h>
#include <stdint.h>
#include <string.h>

struct older {
	size_t size;
	uint64_t a;
};

struct now {
	size_t size;
	uint64_t a;
	uint64_t b;
};

struct newer {
	size_t size;
	uint64_t a;
	uint64_t b;
	uint64_t c;
};

Test(sized_struct, a_field_that_the_program_lacks_is_read_as_0)
{
	const struct older from = {.size = sizeof(from), .a = 1};
	struct now ours = {.b = 7};

	cr_assert_eq(sized_struct_read(&ours, sizeof(ours), &from, "now"), 0);
	cr_expect_eq(ours.size, sizeof(ours));
	cr_expect_eq(ours.a, 1);
	cr_expect_eq(ours.b, 0);
}

Test(sized_struct, a_field_that_the_library_lacks_is_refused_unless_it_is_0)
{
	struct newer from = {.size = sizeof(from), .a = 1, .b = 2};
	struct now ours;

	cr_assert_eq(sized_struct_read(&ours, sizeof(ours), &from, "now"), 0);
	cr_expect_eq(ours.b, 2);
	cr_expect_eq(ours.size, sizeof(ours));
	from.c = UINT64_C(1) << 63;
	cr_expect_eq(sized_struct_read(&ours, sizeof(ours), &from, "now"), -E2BIG);
	cr_expect(strstr(ibvcap_error_text(), "struct now") && strstr(ibvcap_error_text(), "update libibvcap"));
}

Test(sized_struct, nothing_is_written_past_the_programs_struct)
{
	const struct now ours = {sizeof(ours), 1, 2};
	struct newer small = {sizeof(struct older), 5, 5, 5};
	struct newer large = {sizeof(large), 5, 5, 5};

	cr_assert_eq(sized_struct_write(&small, &ours, sizeof(ours), "now"), 0);
	cr_expect_eq(small.size, sizeof(struct older));
	cr_expect(small.a == 1 && small.b == 5 && small.c == 5);
	cr_assert_eq(sized_struct_write(&large, &ours, sizeof(ours), "now"), 0);
	cr_expect_eq(large.size, sizeof(ours), "and the program learns how much was");
	cr_expect(large.a == 1 && large.b == 2 && large.c == 5);
}

Test(sized_struct, a_size_that_is_not_set_is_refused_with_the_way_to_set_it)
{
	const struct now ours = {sizeof(ours), 1, 2};
	struct now other = {0};

	cr_expect_eq(sized_struct_read(&other, sizeof(other), &(struct now){0}, "now"), -EINVAL);
	cr_expect_eq(sized_struct_write(&other, &ours, sizeof(ours), "now"), -EINVAL);
	cr_expect(strstr(ibvcap_error_text(), "IBVCAP_INIT(struct now)"));
	cr_expect_eq(other.a, 0);
}

Test(sized_struct, a_size_that_no_struct_has_is_refused_without_a_look_at_the_bytes)
{
	const struct now ours = {sizeof(ours), 1, 2};
	struct now from = {.size = SIZE_MAX}, other = {0};
	struct {
		size_t size;
		uint8_t rest[SIZED_STRUCT_BYTES_MAX - sizeof(size_t)];
	} largest = {.size = sizeof(largest)};

	cr_expect_eq(sized_struct_read(&other, sizeof(other), &from, "now"), -EINVAL);
	cr_expect(strstr(ibvcap_error_text(), "IBVCAP_INIT(struct now)"));
	cr_expect_eq(sized_struct_write(&from, &ours, sizeof(ours), "now"), -EINVAL);
	cr_expect_eq(from.a, 0);
	from.size = SIZED_STRUCT_BYTES_MAX + 1;
	cr_expect_eq(sized_struct_read(&other, sizeof(other), &from, "now"), -EINVAL);
	cr_expect_eq(sized_struct_read(&other, sizeof(other), &largest, "now"), 0);
}
