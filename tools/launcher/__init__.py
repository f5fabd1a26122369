"""What tools/launch.py is made of. Only Python's standard library.

guard         the process that the user starts: passes signals on, and cleans up should the runner be killed
runner        a second process, which runs the job; it cleans up should the guard be killed
command_line  arguments -> Job
job           what to run: programs, roles, environment, the job's secret
local         runs a job's processes on this machine; other launchers will stand beside it
processes     one process: its output, its log, its end
descendants   finds and kills all that came of a process
messages      what launch.py says itself
"""
