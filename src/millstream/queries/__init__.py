"""Questions to the tables of an app, asked from any process of the host."""
