"""Random cases in the language of the conformance cases, run in many ways that must agree.

python -m millstream.testing.fuzz --topologies 200 --seed 1
"""
