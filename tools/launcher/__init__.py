"""What tools/launch.py is made of. Only Python's standard library.

version       the library's
python_version  imported first: ends the process where Python is too old for the rest
guard         the process that the user starts: passes signals on, and cleans up should the runner be killed
runner        a second process, which runs the job; it cleans up should the guard be killed
command_line  arguments -> Job and Launcher
events        the signals that both know, and what the supervisor's queue holds
job           what to run: programs, roles, environment, the job's secret; environment, hostfile, programs: parts of it
launchers     ways to bring a job to its hosts, a file each
supervisor    runs a job: starts its processes on hosts, watches them, tells who failed first, stops the rest
placement     which process runs where
rendezvous    who has joined, as the scheduler tells it
members       the job's processes as the supervisor sees them: output, log, end
echo          which of their lines the terminal shows
hosts         where processes run: here, or through an agent
agent         on another host, runs processes at the supervisor's word; bootstrap brings it through ssh, agent_port is where it calls
channel       messages between the two
processes     one process on this machine: its output, its end; limits: what the operating system has not enough of, in words
descendants   finds and kills all that came of a process
addresses     this machine's
messages      what launch.py says itself
"""
