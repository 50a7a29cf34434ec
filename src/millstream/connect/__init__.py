"""Connectors run here: the protocols that they implement, their loops, their journal and their state."""
