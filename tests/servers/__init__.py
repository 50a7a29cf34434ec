"""Servers that tests start: real ones, from packages of Debian, PyPI or Maven, on free ports of the loopback."""
