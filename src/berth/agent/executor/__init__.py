"""The executor of a compute agent: it carries out the tasks of the instances on its host.

The task of an instance, or the stage of its move, is the command. It stays in the ledger until its
outcome is committed, so a restarted agent finds what remains to be done. Every step may therefore
be carried out twice, and the methods of drivers are idempotent.
"""

from berth.agent.executor.executor import HostExecutor
from berth.agent.executor.host_context import HostContext

__all__ = ["HostContext", "HostExecutor"]
