"""Run ksqlDB's functional test cases against Millstream's SQL; the cases themselves are not part of Millstream.

``python -m millstream.testing.ksql FILE…`` prints how many cases pass, by group.
"""
