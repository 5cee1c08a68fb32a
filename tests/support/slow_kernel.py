# SPDX-License-Identifier: Apache-2.0
"""An interface on which each packet costs the CPU that receives it some 20 us or more."""
import contextlib
import ctypes
import socket
import struct

from wires import in_namespace

ETH_P_ALL, SO_ATTACH_FILTER = 3, 26
N_TAPS = 40  # each looks at a packet for some us, and takes none
N_STEPS = 2048  # a program of twice as many is too long for the kernel's default net.core.optmem_max
STEPS = struct.pack("HBBI", 0x04, 0, 0, 1) * (N_STEPS - 1) + struct.pack("HBBI", 0x06, 0, 0, 0)  # A += 1, …; return 0


@contextlib.contextmanager
def slow_kernel(namespace, interface):
    """namespace None: this one."""
    def open_all():
        return [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) for _ in range(N_TAPS)]

    program = ctypes.create_string_buffer(STEPS)
    taps = in_namespace(namespace, open_all) if namespace else open_all()
    try:
        for tap in taps:
            tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", N_STEPS, ctypes.addressof(program)))
            tap.bind((interface, ETH_P_ALL))
        yield
    finally:
        for tap in taps:
            tap.close()
