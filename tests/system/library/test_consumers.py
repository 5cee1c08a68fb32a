# SPDX-License-Identifier: Apache-2.0
"""Eight consumers of eight behaviours on one ring: those that behave get every packet. scripts/bench consumers does the
same for a minute at half of what the machine can take; this is short, and at a rate that a loaded machine can take."""

import pytest

import eight_consumers

RATE, SECONDS, SIZE = 6000, 10, 512


def test_eight_consumers_of_eight_behaviours(daemon, net, wire, tmp):
    # The ring keeps four seconds of packets: enough for a reader that waits for a CPU, too few for one that is stopped.
    one = daemon([eight_consumers.stream(wire, payload_size=SIZE, history_blocks=RATE * 4 // 256)],
                 environment=eight_consumers.ENVIRONMENT)
    for attempt in range(4):
        outcome = eight_consumers.run(one, net, wire, tmp, RATE >> attempt, SECONDS, SIZE)
        assert not outcome.wrong, "\n".join(outcome.wrong)
        if outcome.lost_before_ring == 0:
            break
        print(
            f"the machine lost {outcome.lost_before_ring} of {outcome.sent} packets before the ring at "
            f"{RATE >> attempt}/s")
    else:
        pytest.skip("this machine has no time for the emulated wire; no packet was lost behind it")
    skipped = {row[0]: row[4] for row in outcome.rows}
    if attempt == 0:
        assert skipped["stopped"] > 0 and skipped["slow"] > 0, outcome.rows
