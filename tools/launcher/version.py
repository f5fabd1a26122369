"""A copy of the version in include/sluice/version.h, which an installed launch.py has not beside it; tests/tools/test_launcher.py holds them equal."""
VERSION = "0.1.0"
