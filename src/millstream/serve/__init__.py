"""The dashboard and the REST API for topics, tables, groups and running apps."""
