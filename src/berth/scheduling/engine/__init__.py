"""The incremental engine: what was found out for one request is kept for the next of its kind.

Theory of operation. Requests that differ in nothing that the rules read are of one *request
class*. A class keeps, for every host, which filter removes it first and what score it has. A
decision brings a class up to date by asking the same rules about the rows that have changed since
(the table's journal names them), and finds the best hosts by blocked maxima, without a scan.

Nova's scores are relative to the extremes of the hosts at hand, so all of them move when an
extreme does. A class keeps its scores on the scale at which they were computed, bounds by how
much any score can have drifted since, and evaluates exactly only the hosts that can still be
among the best. When these become many, it rescales everything.

Law: a plan made so is the plan that a full evaluation makes, to the last bit.
"""
