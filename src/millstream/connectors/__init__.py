"""One module or package per system that records come from or go to; each is an optional extra."""
