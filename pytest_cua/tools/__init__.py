"""The tool executors: what Claude asks for, done on a desktop."""
