"""Queries to handles of the DSL."""
