"""What a compute agent does with the instances of its host, and what it reports.

An instance's task, or the stage of its move, is the command, and it stays in the ledger until its
outcome is committed. So an agent that dies and comes back finds what it still has to do. Every
step may therefore be done twice, and the drivers' methods may be repeated.
"""

from berth.agent.executor.executor import HostExecutor
from berth.agent.executor.host_context import HostContext

__all__ = ["HostContext", "HostExecutor"]
