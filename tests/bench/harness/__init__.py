"""Pieces of the comparison of workers: child processes, servers, scenarios, figures, output."""
