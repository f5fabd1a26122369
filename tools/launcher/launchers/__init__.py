"""Ways to bring a job to its hosts, a file each: a class with a name, which registers itself. base.py says what each of them does."""
