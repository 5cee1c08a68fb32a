# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package, and which of them an error of libibvcap is."""
import errno


class Error(OSError):
    """A call of libibvcap failed. errno and strerror say why, and what to do."""


class NoDaemon(Error):
    """No ibvcapd answers on the socket."""


class NotFound(Error):
    """The daemon has no stream or channel of that name."""


class NoAccess(Error, PermissionError):
    """This user may not use the socket, the stream, the channel or the file."""


class Busy(Error):
    """All places or leases of the daemon are taken."""


class TooManyBatches(Error):
    """All leases of the receiver are taken by batches that are not returned."""


class Ended(Error):
    """The daemon ended and none came back, or the administrator removed the stream or channel."""


class Disconnected(Error):
    """The daemon disconnected this program, or the handle is of another process."""


class NoDevice(Error):
    """There is no driver of CUDA, no such device, or a function is missing in the driver."""


class NoFile(Error, FileNotFoundError):
    """There is no file of that name."""


_CLASSES = {errno.ENOENT: NoDaemon, errno.ECONNREFUSED: NoDaemon, errno.ETIMEDOUT: NoDaemon, errno.ESRCH: NotFound,
            errno.EACCES: NoAccess, errno.EPERM: NoAccess, errno.EAGAIN: Busy, errno.ENOBUFS: TooManyBatches,
            errno.ESHUTDOWN: Ended, errno.ENODEV: Ended, errno.ECONNABORTED: Disconnected, errno.ECHILD: Disconnected}

NoDevice.__module__ = "ibvcap.cuda"
for _class in (Error, NoFile, *_CLASSES.values()):
    _class.__module__ = "ibvcap"
del _class


def make(number, text):
    """The exception for an errno of libibvcap, with its text."""
    return _CLASSES.get(number, Error)(number, text)


def make_of_device(number, text):
    """The same of a CUDA device, where ENODEV does not mean that a stream was removed."""
    return NoDevice(number, text) if number in (errno.ENODEV, errno.ENOSYS) else make(number, text)


def make_of_file(number, text):
    """The same of a file, where ENOENT does not mean that nobody made the socket."""
    return NoFile(number, text) if number == errno.ENOENT else make(number, text)
