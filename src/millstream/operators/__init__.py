"""The operator of each node: it takes a record and forwards records. Operators use stores, but not Spark."""
