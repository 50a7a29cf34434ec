"""The plan: what a topology means, independent of how it runs."""
