"""The dashboard and the REST API: pages and answers about topics, tables, groups and running apps."""
