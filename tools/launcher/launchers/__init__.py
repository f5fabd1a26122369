"""Ways to bring a job to its hosts, a file each. base.py says what each of them does."""
