"""SQL statements that need a broker or the state of an app: queries, INSERT VALUES, SHOW, PRINT and the like."""
