"""What launch.py says and ends with when it is used wrongly."""


class UsageError(Exception):
    """Bad arguments or missing programs: exit code 2."""
