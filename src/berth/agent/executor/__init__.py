"""The executor of a compute agent: it carries out the tasks of the instances on its host.

The task of an instance, or the stage of its move, is the command. It stays in the ledger until its
outcome is committed, so a restarted agent learns what remains to be done. A step may therefore be
carried out twice, which is why the methods of drivers are idempotent.
"""

from berth.agent.executor.executor import HostExecutor
from berth.agent.executor.host_context import HostContext

__all__ = ["HostContext", "HostExecutor"]
