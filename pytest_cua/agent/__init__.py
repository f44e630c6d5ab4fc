"""From a sentence to turns, actions and an outcome."""
