"""Shared building blocks: storage, record blocks, codecs, paths, names, text."""
