"""What launch.py says and ends with when it is used wrongly, or cannot begin."""


class UsageError(Exception):
    """Bad arguments or missing programs: exit code 2."""


class Interrupted(Exception):
    """The user ends the job while a program is waited for."""


class LaunchError(Exception):
    """A host or a batch system that does not do what it should: exit code 1."""
