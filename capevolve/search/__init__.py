"""Search: what to try next, as pure functions of the run so far."""
