"""The plan: what a topology means, without a word on how it runs."""
