"""The project that `capevolve init` writes: it runs as it is, and is there to be replaced."""
