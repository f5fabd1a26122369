"""The version of include/sluice/version.h, which an installed launch.py has not beside it."""
VERSION = "0.1.0"
