"""The incremental engine: the evaluation of one request is kept for later requests like it.

Theory of operation. Requests that agree in everything that the rules read share a *request
profile*. A profile stores for every host which filter removes it first, and its score. To decide,
the engine brings the profile up to date: it asks the same rules about the rows that have changed
since, which the table's journal lists. It then finds the best hosts by blocked maxima, without a
scan of all hosts.

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
- A profile that fails half-way through an update is dropped: it is valid for no version of the
  table.

Law: a plan of the engine equals the plan of a full evaluation, to the last bit. Arithmetic is
therefore done operation by operation in the order of `weighing`.
"""
