"""Diagrams of the concepts, drawn from real runs: ``python -m docs.pictures`` writes docs/img/concepts/*.svg."""
