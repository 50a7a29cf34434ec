"""Read models of topics, groups, dead letters and apps, for the command line and the dashboard alike."""
