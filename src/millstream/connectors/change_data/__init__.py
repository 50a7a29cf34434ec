"""What the sources of change data share: rows as columns of cells, and records made of them."""
