"""Auditing: what the ledger says, checked against itself, and mended where that is safe.

The whole ledger is read first, and suspicions are drawn from that. Then each is looked at again,
record by record: one that has changed meanwhile is being worked on, so it is not told. So an audit
of a cloud that runs gives no false alarm, though it was not read in one piece.
"""

from berth.services.auditing.audit_service import AuditService

__all__ = ["AuditService"]
