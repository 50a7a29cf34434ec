"""What every other package builds on: storage, record blocks, codecs, paths, names, text."""
