"""Whether a live desktop still behaves as the recorded one did."""
