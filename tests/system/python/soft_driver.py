# SPDX-License-Identifier: Apache-2.0
"""tests/softcuda from Python: loaded here, it is the libcuda.so.1 that libibvcap-cuda finds. softcuda.h has its
settings."""
import ctypes

import testbed

PATH = testbed.BUILD / "tests/softcuda/libcuda.so.1"
READ_ONLY, PAGEABLE, HOST_TABLES = 113, 88, 100  # attributes of the device
ALL = ctypes.c_void_p(-1)


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "registrations", "registered_bytes", "host_allocations", "device_allocations", "events", "streams", "retained",
        "pushed", "left_behind", "registered_so_far", "capture_mode")]


class SoftDriver:
    """The library, in its own settings, with the primary context of device 0 current."""

    def __init__(self):
        self.library = ctypes.CDLL(str(PATH))
        self.library.softcuda_count.restype = Counts
        self.library.softcuda_has_failed.restype = ctypes.c_bool
        self.library.softcuda_reset()
        context = ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self.streams = []
        self.totals = []  # kernels write to them

    def _call(self, function, *values):
        assert getattr(self.library, function)(*values) == 0, function

    def close(self):
        self.library.softcuda_set_hold(False)
        self.run()
        for stream in self.streams:
            self.library.cuStreamDestroy_v2(ctypes.c_void_p(stream))
        self.library.cuCtxSetCurrent(None)
        self._call("cuDevicePrimaryCtxRelease_v2", 0)

    def set(self, attribute, value):
        self.library.softcuda_set_attribute(attribute, value)

    def set_offset(self, n):
        self.library.softcuda_set_offset(ctypes.c_uint64(n))

    def fail_any(self, n):
        """The n-th call from now on has no memory."""
        self.library.softcuda_fail_any(ctypes.c_int64(n), 2)

    def fail(self, function, result):
        """The next call of the function has that result."""
        self.library.softcuda_fail(function.encode(), ctypes.c_int64(0), result)

    def capture(self, stream, is_on=True):
        """Begin or end to capture the stream into a graph."""
        self.library.softcuda_set_capturing(ctypes.c_void_p(stream), is_on)

    def end_failing(self):
        """Has the call failed?"""
        has_failed = self.library.softcuda_has_failed()
        self.fail_any(-1)
        return has_failed

    def hold(self):
        """Work does not begin before run()."""
        self.library.softcuda_set_hold(True)

    def run(self, n=1 << 30):
        return self.library.softcuda_run(ALL, n)

    def counts(self):
        counts = self.library.softcuda_count()
        return {name: getattr(counts, name) for name, _ in Counts._fields_}

    def stream(self):
        stream = ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(stream), 0)
        self.streams.append(stream.value)
        return stream.value

    def sum(self, address, n, stream=None):
        """A kernel that adds n bytes up, by the device's address; its sum is there when it has run."""
        total = ctypes.c_uint64()
        self.totals.append(total)
        result = self.library.softcuda_launch_sum(ctypes.c_void_p(stream), ctypes.c_uint64(address),
                                                  ctypes.c_size_t(n), ctypes.byref(total))
        assert result == 0, result
        return total
