"""Granular requests: which providers of a host's tree serve which groups of a request.

A verdict needs no list of candidates: array operations decide most hosts, and an exact search the
rest (docs/adr/0009-trees-and-groups.md).
"""
