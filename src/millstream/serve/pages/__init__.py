"""The pages, rendered on the server from the same data as the API."""
