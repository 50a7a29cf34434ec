"""What people look at: records, groups, tables and times, for the command line and the dashboard alike."""
