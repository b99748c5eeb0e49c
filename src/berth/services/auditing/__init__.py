"""The audit of the ledger, which finds inconsistencies and makes safe repairs.

The audit reads the whole ledger first and derives suspicions from it. It then checks each suspicion
again, record by record. A record that has changed since then is in progress, so it is not reported.
An audit of a running cloud thus raises no false alarms, although it does not read the ledger in one
transaction.
"""

from berth.services.auditing.audit_service import AuditService

__all__ = ["AuditService"]
