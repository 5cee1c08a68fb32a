// SPDX-License-Identifier: Apache-2.0
/* Completion queues. PRM: completion event request, event moderation, CQ overrun. */
#include "device/clock.h"
#include "device/cq.h"

#include <criterion/criterion.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define N_CQE 16

static unsigned int n_events, n_errors;

static void completion(struct cq *cq)
{
	(void)cq;
	n_events++;
}

static void error(struct cq *cq)
{
	(void)cq;
	n_errors++;
}

static const struct device_events events = {.cq_completion = completion, .cq_error = error};
static struct device device;
static uint32_t dbrec[2];
static uint8_t entries[N_CQE * 64];
static struct cq cq;

static void set_up(void)
{
	n_events = n_errors = 0;
	memset(&device, 0, sizeof(device));
	device.events = &events;
	TAILQ_INIT(&device.armed_later);
	dbrec[HW_DBR_CQ_CONSUMER] = 0;
	dbrec[HW_DBR_CQ_ARM] = CQ_NEVER_ARMED;
	cq = (struct cq){.device = &device, .buf = entries, .cqe_bytes = 64, .n_cqe = N_CQE, .dbrec = dbrec};
	cq_init(&cq);
}

static void complete(enum hw_cqe_opcode opcode, unsigned int n)
{
	while (n--)
		cq_post(&cq, cq_next(&cq), opcode);
	cq_events(&device);
	cq.recheck_ns = 0; /* whatever was stored before is seen now */
	cq_events(&device);
}

/* As libmlx5 arms: sequence number, "solicited only", consumer index. */
static void arm(unsigned int sn, bool solicited)
{
	dbrec[HW_DBR_CQ_ARM] = htobe32(sn << 28 | (solicited ? HW_CQ_ARM_SOLICITED : 0));
}

static void consume(uint32_t index)
{
	dbrec[HW_DBR_CQ_CONSUMER] = htobe32(index);
}

TestSuite(cq, .init = set_up);

Test(cq, no_event_unarmed)
{
	complete(HW_CQE_RESP_SEND, 2);
	cr_assert_eq(n_events, 0);
}

Test(cq, one_event_an_arming)
{
	arm(0, false);
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 1);
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 1);
	arm(0, false); /* again, before the program took the event: the sequence number is old */
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 1);
	arm(1, false);
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 2);
}

/* x86: a store waits in the store buffer while later loads go on. */
Test(cq, an_arming_that_is_seen_late_fires)
{
	cq_post(&cq, cq_next(&cq), HW_CQE_RESP_SEND);
	for (int i = 0; i < 5; i++) {
		cq_events(&device);
		cq.recheck_ns = UINT64_MAX; /* the time is not over, however slow this machine is */
	}
	arm(0, false);
	cq_events(&device);
	cr_assert_eq(n_events, 1);
	cr_assert(TAILQ_EMPTY(&device.armed_later));
}

Test(cq, the_arm_record_is_not_looked_at_for_ever)
{
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert(TAILQ_EMPTY(&device.armed_later));
	arm(0, false);
	cq_events(&device);
	cr_assert_eq(n_events, 0);
}

Test(cq, solicited_only_wants_an_error_here)
{
	arm(0, true);
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 0);
	complete(HW_CQE_RESP_ERR, 1);
	cr_assert_eq(n_events, 1);
}

Test(cq, send_errors_are_solicited_too)
{
	arm(0, true);
	complete(HW_CQE_REQ_ERR, 1);
	cr_assert_eq(n_events, 1);
}

Test(cq, what_was_there_before_fires_by_setting)
{
	complete(HW_CQE_RESP_SEND, 1);
	arm(0, false);
	cq_events(&device);
	cr_assert_eq(n_events, 0);
	device.config.arm_fires_for_pending = true;
	complete(HW_CQE_RESP_SEND, 1);
	arm(1, false);
	cq_events(&device);
	cr_assert_eq(n_events, 1 + 1); /* for arming 0, then for 1 with nothing new */
}

Test(cq, moderation_waits_for_the_count)
{
	cq_moderate(&cq, 3, 4095);
	arm(0, false);
	cq.moderated_ns = UINT64_MAX >> 1; /* the time does not come */
	complete(HW_CQE_RESP_SEND, 2);
	cr_assert_eq(n_events, 0);
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 1);
}

Test(cq, moderation_waits_for_the_time)
{
	cq_moderate(&cq, 1000, 1);
	arm(0, false);
	complete(HW_CQE_RESP_SEND, 1);
	while (!n_events)
		cq_events(&device);
	cr_assert_eq(n_events, 1);
	cr_assert(TAILQ_EMPTY(&device.armed_later));
}

Test(cq, no_moderation_with_a_zero)
{
	cq_moderate(&cq, 1000, 0);
	arm(0, false);
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 1);
	cq_moderate(&cq, 0, 4095);
	arm(1, false);
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(n_events, 2);
}

Test(cq, overrun_is_an_error_once)
{
	complete(HW_CQE_RESP_SEND, N_CQE);
	cr_assert_null(cq_next(&cq));
	cr_assert_null(cq_next(&cq));
	cr_assert_eq(n_errors, 1);
	consume(N_CQE);
	cr_assert_null(cq_next(&cq)); /* for ever */
}

Test(cq, overrun_ignored_where_asked)
{
	cq.ignore_overrun = true;
	complete(HW_CQE_RESP_SEND, 2 * N_CQE);
	cr_assert_eq(n_errors, 0);
}

Test(cq, the_owner_bit_turns_with_every_round)
{
	complete(HW_CQE_RESP_SEND, 1);
	cr_assert_eq(entries[63] & 1, 0);
	consume(1);
	complete(HW_CQE_RESP_SEND, N_CQE);
	cr_assert_eq(entries[63] & 1, 1);
}

/* ibv_poll_cq(3): with an error only wr_id, status, qp_num and vendor_err are valid. */
Test(cq, poison_fills_what_an_error_leaves_undefined, .init = set_up)
{
	const struct hw_cqe_err *error = (const void *)entries;

	for (int poison = 0; poison < 2; poison++) {
		device.injected.poison = poison;
		error = (const void *)(entries + (size_t)64 * cq.producer);
		cq_post_error(&cq, 7, 0x41, HW_CQE_RESP_ERR, 3, HW_SYNDROME_LOCAL_PROT);
		cr_assert_eq(error->rsvd0[0], poison ? CQ_POISON : 0);
		cr_assert_eq(error->rsvd36[0], poison ? CQ_POISON : 0);
		cr_assert_eq(be32toh(error->uidx_be), 7);
		cr_assert_eq(be32toh(error->wqe_opcode_qpn_be), 0x41);
		cr_assert_eq(be16toh(error->wqe_counter_be), 3);
		cr_assert_eq(error->syndrome, HW_SYNDROME_LOCAL_PROT);
		cr_assert_eq(error->vendor_syndrome, 0);
	}
}

/* libmlx5 copies what it has not read, up to the entry that says so, to places that are one further. */
Test(cq, another_buffer_needs_room_for_what_is_unread)
{
	static uint8_t other[8 * 64];
	const struct hw_cqe *last = (const struct hw_cqe *)(entries + 9 * 64);

	complete(HW_CQE_REQ, 9);
	consume(1);
	cr_assert_not(cq_move(&cq, other, 64, 8)); /* 8 are unread */
	consume(3);
	cr_assert(cq_move(&cq, other, 64, 8));
	cr_assert_eq(last->op_own >> 4, HW_CQE_RESIZE_CQ);
	/* The program's index is 4 now, though its record says 3: 6 are unread. */
	complete(HW_CQE_REQ, 2);
	cr_assert_eq(n_errors, 0);
	cr_assert_eq(((const struct hw_cqe *)(other + (10 & 7) * 64))->op_own >> 4, HW_CQE_REQ);
	cr_assert_null(cq_next(&cq));
	cr_assert_eq(n_errors, 1);
}
