"""Prefect flows of capevolve: the story, no state. Importing this package imports no Prefect."""
