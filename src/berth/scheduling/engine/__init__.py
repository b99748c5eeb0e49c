"""The incremental engine: it reuses the evaluation of one request for later requests like it.

Theory of operation. Requests that agree in everything that the rules read share a *request
profile*. A profile stores for every host its score and which filter removes it first. To decide,
the engine brings the profile up to date: it evaluates the same rules on the rows that have changed
since its last update, which the table's journal lists. It then finds the best hosts by blocked
maxima, without a scan of all hosts.

Nova's scores are relative to the extremes of the passing hosts, so all scores change when an
extreme does. A profile keeps its scores on the scales on which they were computed, bounds how far
any score can have drifted since, and evaluates exactly only the hosts that can still be among the
best. When these become many, it rescales all scores.

Invariants:

- A stored stage or score of a row is valid until the journal has an entry for the row in a group of
  columns that a rule of the profile reads. This is why rules declare their `Reads`, and why the
  engine evaluates in full any request that concerns a rule which is not row-local.
- All rows of a profile are scored on one set of scales, `_reference`. Stored scores are comparable
  with each other at any time, even when the scales are outdated.
- A profile whose update fails half-way is dropped, because it matches no version of the table.

Law: a plan of the engine equals the plan of a full evaluation, to the last bit. The engine
therefore computes operation by operation in the order of `weighing`.
"""
