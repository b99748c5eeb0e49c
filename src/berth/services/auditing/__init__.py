"""The audit of the ledger: it finds, rechecks and safely repairs inconsistencies.

The audit reads the whole ledger first and derives suspicions from it. It then checks each suspicion
again, record by record. A record that has changed since is in progress, so it is not reported. An
audit of a running cloud thus gives no false alarm, although the ledger was not read in one
transaction.
"""

from berth.services.auditing.audit_service import AuditService

__all__ = ["AuditService"]
