"""Proposers: a brief of train evidence in, an edited candidate out."""
