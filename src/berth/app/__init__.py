"""The composition root: which adapters stand behind which ports, process by process."""
