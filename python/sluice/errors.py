"""The exceptions of Sluice. Each is a kind that Python code catches already; the messages are those of the C++ library."""


class Error(RuntimeError):
    """The base of all exceptions of Sluice."""

    code = "unknown"


class InvalidArgument(Error, ValueError):
    """A value is outside what the call accepts."""

    code = "invalid argument"


class NotFound(Error, KeyError):
    """A key, file or name does not exist."""

    code = "not found"
    __str__ = Error.__str__  # KeyError shows the repr of its argument


class AlreadyExists(Error, ValueError):
    """It exists already, perhaps with another shape, dtype or owner."""

    code = "already exists"


class FailedPrecondition(Error):
    """The call is right but comes at the wrong moment."""

    code = "failed precondition"


class DataLoss(Error, OSError):
    """A file or a message is truncated or corrupt."""

    code = "data loss"


class DeadlineExceeded(Error, TimeoutError):
    """A wait took longer than allowed; the message names what it waited for."""

    code = "deadline exceeded"


class Unavailable(Error, ConnectionError):
    """A peer is dead or unreachable; the message names it."""

    code = "unavailable"


class PermissionDenied(Error, PermissionError):
    """Not allowed: a file that may not be read, a node of another job or user."""

    code = "permission denied"


class ResourceExhausted(Error, MemoryError):
    """A limit was reached, such as memory or descriptors."""

    code = "resource exhausted"


class Unimplemented(Error, NotImplementedError):
    """This build or machine lacks it, for example a GPU."""

    code = "unimplemented"


class Cancelled(Error):
    """The job or the run is stopping."""

    code = "cancelled"
