"""Adapters: the contract users write to, and the child processes that run them."""
