"""A test's recording: what a line is, how it is written and never lost, and how it answers again."""
