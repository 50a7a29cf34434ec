"""Scalar functions, by family; importing this package registers them."""

from millstream.sql.functions import arrays, bytes_, json, maps, numbers, tables, text, times, urls

FAMILIES = (arrays, bytes_, json, maps, numbers, tables, text, times, urls)
