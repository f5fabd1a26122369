"""What tools/launch.py is made of. Only Python's standard library.

command_line  arguments -> Job
job           what to run: programs, roles, environment, the job's secret
local         runs a job's processes on this machine; other launchers will stand beside it
processes     one process: its output, its log, its end
watchdog      a process that outlives launch.py to clean up after it
"""
