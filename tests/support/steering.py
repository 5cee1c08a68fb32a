# SPDX-License-Identifier: Apache-2.0
"""RPS, receive packet steering. As long as one interface of the machine has it, Linux looks at the queue number of each
received packet, and warns in its log if the interface has no longer that queue. So RPS and a test that takes queues
away hold one lock."""
import contextlib
import fcntl

from wires import run

LOCK = "/run/ibvcap-test-steering.lock"


@contextlib.contextmanager
def steering(namespace, interface, may_wait=True):
    """Packets of the first queue go to the second CPU. True; False, and none do: a test takes queues away now."""
    queue = f"/sys/class/net/{interface}/queues/rx-0/rps_cpus"

    def steer(cpus):
        run("ip", "netns", "exec", namespace, "sh", "-c", f"echo {cpus} >{queue}")

    with open(LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if may_wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        steer(2)
        try:
            yield True
        finally:  # an interface that is deleted with RPS leaves it switched on for the machine
            steer(0)


@contextlib.contextmanager
def no_steering():
    """Queues may be taken away."""
    with open(LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield
